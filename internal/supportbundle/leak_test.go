package supportbundle

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// The planted secrets. Each is used in only one place, so that a leak shows its source.
// Those of the first group are also in a Secret.
const (
	planted = "PlAnTeD0"
	// secretPassword contains characters that need escaping in all formats.
	secretPassword = planted + `pw"&</é%+ =?x`
	secretToken    = planted + "tokenInSecret"
	secretKeyLine  = planted + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"
	secretRegistry = planted + "registryPassword"
	secretURLPart  = planted + "postgresPassword"

	inEnv           = planted + "inEnv"
	inPodEnv        = planted + "inPodEnv"
	inSpecEnv       = planted + "inSpecEnv"
	inHarmlessEnv   = planted + "inHarmlessUrl"
	inArgs          = planted + "inArgs"
	inArgsNext      = planted + "inArgsNext"
	inScript        = planted + "inScript"
	inAnnotation    = planted + "inAnnotation"
	inLastApplied   = planted + "inLastApplied"
	inConfigMap     = planted + "inConfigMap"
	inBinaryData    = planted + "inBinaryData"
	inLogWord       = planted + "inLogWord"
	inLogURL        = planted + "inLogUrl"
	inLogJSON       = planted + "inLogJson"
	inLogHeader     = planted + "inLogHeader"
	inPrevious      = planted + "inPreviousLog"
	inEvent         = planted + "inEvent"
	inStatus        = planted + "inStatus"
	inParameter     = planted + "inParameter"
	inVariable      = planted + "inVariable"
	inFile          = planted + "inFile"
	inProbe         = planted + "inProbeHeader"
	inVolume        = planted + "inVolumeAttribute"
	inReadyz        = planted + "inReadyz"
	inForbidden     = planted + "inAnError"
	inSpecPassword  = planted + "inSpecPassword"
	inPodTemplate   = planted + "inPodTemplateAnnotation"
	inIngress       = planted + "inIngressSnippet"
	inLogPrivateKey = planted + "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ"
	inProblem       = planted + "inProblem"
)

// jwt and session have the format of a Kubernetes token and of a Coder session token.
const (
	jwt     = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJQbEFuVGVEMGp3dCJ9.c2lnbmF0dXJlLXNpZ25hdHVyZQ"
	session = "aB3dE5gH7j-kL9mN1pQ3rS5tU7vW9xY1z"
)

func b64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// plantedObjects contains a secret in every place in which a user could store one.
func plantedObjects() string {
	docker := fmt.Sprintf(`{"auths":{"ghcr.io":{"username":"bot","password":%q,"auth":%q}}}`, secretRegistry, b64("bot:"+secretRegistry))
	key := "-----BEGIN PRIVATE KEY-----\n" + secretKeyLine + "\n-----END PRIVATE KEY-----\n"
	return fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata:
  name: coder-db
  namespace: coder
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: '{"stringData":{"url":%[1]q}}'
data:
  url: %[2]s
  password: %[3]s
  token: %[4]s
  username: c29tZWJvZHk=
  pin: NDcxMQ==
  tls.key: %[5]s
---
apiVersion: v1
kind: Secret
metadata: {name: registry, namespace: coder}
type: kubernetes.io/dockerconfigjson
data:
  .dockerconfigjson: %[6]s
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: coder}
data:
  settings.yaml: "oidc: %[7]s"
binaryData:
  blob: %[8]s
`, inLastApplied, b64("postgres://coder:"+secretURLPart+"@db:5432/coder"), b64(secretPassword), b64(secretToken), b64(key), b64(docker), inConfigMap, b64(inBinaryData)) +
		fmt.Sprintf(`---
apiVersion: coder.com/v1alpha1
kind: CoderControlPlane
metadata:
  name: coder
  namespace: coder
  uid: plane
  annotations:
    example.com/note: %[1]q
    kubectl.kubernetes.io/last-applied-configuration: %[2]q
spec:
  extraEnv:
  - {name: CODER_OIDC_CLIENT_SECRET, value: %[3]s}
  - {name: CODER_ACCESS_URL, value: "https://admin:%[4]s@coder.example.com"}
  - {name: CODER_VERBOSE, value: "true"}
  extraArgs: [--oidc-client-secret=%[5]s, --psk, %[6]s, --verbose]
  password: %[7]s
  podTemplate:
    metadata:
      annotations: {vendor.example.com/key: %[8]s}
status:
  phase: Ready
  conditions:
  - {type: Ready, status: "False", message: "cannot log in with password=%[9]s"}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: coder
  namespace: coder
  ownerReferences: [{apiVersion: coder.com/v1alpha1, kind: CoderControlPlane, name: coder, uid: plane}]
spec:
  template:
    spec:
      containers:
      - name: coder
        env: [{name: SOMETHING, value: %[10]s}]
        command: [sh, -c, "curl -H 'X: %[11]s' http://x"]
        livenessProbe:
          httpGet:
            path: /healthz
            httpHeaders: [{name: X-Auth, value: %[12]s}]
      volumes:
      - name: store
        csi: {driver: x, volumeAttributes: {share: %[13]s}}
`, inAnnotation, `{"spec":"`+inLastApplied+`"}`, inSpecEnv, inHarmlessEnv, inArgs, inArgsNext, inSpecPassword, inPodTemplate, inStatus, inEnv, inScript, inProbe, inVolume) +
		fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata:
  name: coder-1
  namespace: coder
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: coder, uid: Deployment-coder}]
spec:
  containers:
  - name: coder
    env: [{name: PLAIN, value: %[1]s}, {name: FROM, valueFrom: {secretKeyRef: {name: coder-db, key: password}}}]
status:
  containerStatuses:
  - {name: coder, state: {running: {}}, lastState: {terminated: {exitCode: 1}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: coder
  namespace: coder
  annotations: {nginx.ingress.kubernetes.io/configuration-snippet: "proxy_set_header X %[2]s;"}
  ownerReferences: [{apiVersion: coder.com/v1alpha1, kind: CoderControlPlane, name: coder, uid: plane}]
---
apiVersion: v1
kind: Event
metadata: {name: coder.1, namespace: coder}
involvedObject: {kind: Pod, name: coder-1}
reason: Failed
type: Warning
message: "pull with %[3]s of %[4]s failed: token: %[5]s"
---
apiVersion: aggregation.coder.com/v1alpha1
kind: CoderTemplate
metadata: {name: coder.full, namespace: coder}
spec:
  files: {main.tf: "password = \"%[6]s\""}
  variables: [{name: region, value: %[7]s}]
---
apiVersion: aggregation.coder.com/v1alpha1
kind: CoderWorkspace
metadata: {name: coder.ada.dev, namespace: coder}
spec:
  parameters: [{name: size, value: %[8]s}]
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: coder-k8s-1, namespace: coder-system, labels: {app.kubernetes.io/name: coder-k8s}}
spec:
  containers:
  - name: coder-k8s
    args: [--app=all, --metrics-bind-address=:8443]
    env: [{name: GOGC, value: "50"}]
status:
  containerStatuses:
  - {name: coder-k8s, state: {running: {}}}
---
apiVersion: v1
kind: Secret
metadata: {name: coder-k8s-apiserver-tls, namespace: coder-system}
data: {tls.key: %[9]s}
`, inPodEnv, inIngress, secretToken, b64(secretToken), inEvent, inFile, inVariable, inParameter, b64(secretToken))
}

// plantedLogs contains known secrets in every encoding, and texts that look like secrets.
func plantedLogs() (current, previous, operator string) {
	current = strings.Join([]string{
		"2026-11-21T11:59:00Z starting with " + secretPassword,
		"quoted " + fmt.Sprintf("%q", secretPassword) + " twice " + fmt.Sprintf("%q", fmt.Sprintf("%q", secretPassword)),
		"query ?x=" + url.QueryEscape(secretPassword) + " path " + url.PathEscape(secretPassword),
		"base64 " + b64(secretPassword) + " within " + b64("user:"+secretPassword+":end") + " " + b64("u:"+secretPassword+":end") + " " + b64("us:"+secretPassword),
		"raw " + base64.RawURLEncoding.EncodeToString([]byte("x"+secretPassword)) + " hex " + hex.EncodeToString([]byte(secretPassword)),
		"connecting to postgres://coder:" + secretURLPart + "@db:5432/coder failed for password " + secretURLPart,
		"environment " + inSpecEnv + " " + inEnv + " " + inPodEnv,
	}, "\n") + "\n"
	previous = "panic: password=" + inPrevious + "\n" + secretKeyLine + "\n"
	operator = strings.Join([]string{
		`{"level":"info","msg":"x","token":"` + inLogJSON + `"}`,
		"db_password: " + inLogWord,
		"GET https://user:" + inLogURL + "@example.com/x?token=" + inLogURL,
		"Authorization: Bearer " + inLogHeader,
		"coder answered to " + session + " and kubernetes to " + jwt,
		"-----BEGIN OPENSSH PRIVATE KEY-----\n" + inLogPrivateKey + "\n-----END OPENSSH PRIVATE KEY-----",
		`key in JSON "-----BEGIN EC PRIVATE KEY-----\n` + inLogPrivateKey + `\n-----END EC PRIVATE KEY-----\n"`,
		"caller-token-9f8e7d6c came in",
		"harmless line stays",
	}, "\n") + "\n"
	return current, previous, operator
}

// plant returns a server with all planted data.
func plant(t *testing.T) *kubeAPI {
	t.Helper()
	k := newKubeAPI(t)
	k.put(t, strings.TrimPrefix(plantedObjects(), "\n"))
	current, previous, operator := plantedLogs()
	k.texts["/api/v1/namespaces/coder/pods/coder-1/log"] = current
	k.texts["/api/v1/namespaces/coder/pods/coder-1/log?previous"] = previous
	k.texts["/api/v1/namespaces/coder-system/pods/coder-k8s-1/log"] = operator
	k.texts["/api/v1/namespaces/coder-system/pods/http:coder-k8s-1:8081/proxy/readyz"] = "[-]caches failed: secret=" + inReadyz + "\n"
	k.forbid("/apis/policy/v1/namespaces/coder/poddisruptionbudgets", "forbidden, token="+inForbidden)
	return k
}

// TestNothingSecretIsInTheBundle searches for all planted secrets, in each readable
// encoding.
func TestNothingSecretIsInTheBundle(t *testing.T) {
	b := run(t, plant(t))
	if b.code != cli.ExitPartial {
		t.Errorf("exit code %d, want %d: %s", b.code, cli.ExitPartial, b.stderr)
	}
	told := b.all()
	for name, content := range b.files {
		if leaks := leaksIn(content); len(leaks) > 0 {
			t.Errorf("%s tells %q:\n%s", name, leaks, content)
		}
	}
	if leaks := leaksIn(told); len(leaks) > 0 {
		t.Errorf("names of files or the output tell %q", leaks)
	}
	// Values that are too short to be searched for, and names, are only in Secrets.
	if file := b.files["namespaces/coder/secrets/coder-db.yaml"]; strings.Contains(file, "NDcxMQ") || strings.Contains(file, "c29tZWJ") || !strings.Contains(file, "pin: '[redacted] 4 bytes'") {
		t.Errorf("values of a Secret are told, or no sizes:\n%s", file)
	}
	// An empty bundle would pass the checks above.
	for _, want := range []string{
		"harmless line stays", "CODER_VERBOSE", `value: "true"`, "GOGC", "--app=all", "name: coder-db", "key: password",
		"phase: Ready", "coder.ada.dev", "main.tf", "is missing", "cannot log in with", "pull with", "v1.37.0", "forbidden",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("the bundle does not tell %q", want)
		}
	}
}

// leaksIn returns the secrets, and parts of them, that a text contains, plain or encoded.
func leaksIn(text string) []string {
	secrets := map[string]bool{"PlAnTeD0": true, "caller-token": true, session: true, "eyJhbGci": true, "c2lnbmF0dXJl": true, secretPassword[9:]: true}
	for offset := range 3 {
		encoded := b64(strings.Repeat("x", offset) + planted)
		secrets[encoded[4:len(encoded)-4]] = true
	}
	secrets[hex.EncodeToString([]byte(planted))] = true
	secrets[url.QueryEscape(secretPassword[9:])] = true
	var out []string
	for secret := range secrets {
		if strings.Contains(text, secret) {
			out = append(out, secret)
		}
	}
	return out
}

//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// fetch reads a URL like a client in the cluster, without verifying the server's
// certificate.
func fetch(t *testing.T, url, token string) (int, string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Coder-Session-Token", token)
	}
	// A connection to a deleted pod gets no response: a new attempt reaches another pod.
	client := &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// fetched waits until a URL returns 200 and a text.
func fetched(t *testing.T, url, token, want string) {
	t.Helper()
	polltest.Eventually(t, url+" answers", func() error {
		status, body, err := fetch(t, url, token)
		if err != nil || status != http.StatusOK || !strings.Contains(body, want) {
			return fmt.Errorf("%d %.300q %w", status, body, err)
		}
		return nil
	})
}

// tlsSecret creates a self-signed certificate in a Secret.
func tlsSecret(t *testing.T, name, host string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := map[string][]byte{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
	}
	for file, content := range files {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kubectl(t, "-n", sampleNamespace, "create", "secret", "tls", name, "--cert="+filepath.Join(dir, "tls.crt"), "--key="+filepath.Join(dir, "tls.key"))
}

const secondWorkspace = `
apiVersion: aggregation.coder.com/v1alpha1
kind: CoderWorkspace
metadata: {name: coder.admin.second, namespace: coder}
spec: {organization: coder, templateName: hello, running: true}
`

// testTLS configures TLS for Coder: everything inside the cluster still works.
func testTLS(t *testing.T) {
	explain(t, sampleNamespace)
	tlsSecret(t, "coder-tls", "coder.coder.svc")
	patchSample(t, `{"tls":{"secretNames":["coder-tls"]}}`)
	plane := get(t, "-n", sampleNamespace, "ccp", "coder")
	if url := field(plane, "status", "url"); !strings.HasPrefix(url, "http://") {
		t.Errorf("status.url is %q, but everything inside the cluster uses HTTP", url)
	}
	host := strings.TrimPrefix(coderURL(t, sampleNamespace, "coder"), "http://")
	fetched(t, "https://"+host+":443/healthz", "", "OK")
	fetched(t, "http://"+host+"/healthz", "", "OK")

	listed(t, "coder.admin.hello")
	workspace := []string{"-n", sampleNamespace, "coderworkspace", "coder.admin.second"}
	accepted(t, secondWorkspace)
	waitCondition(t, "Ready", "True", "Running", workspace...)
	kubectl(t, "-n", sampleNamespace, "delete", "coderworkspace", "coder.admin.second", "--timeout=5m")
}

const everythingOn = `{
  "expose": {"ingress": {"host": "coder.example.com", "wildcardHost": "*-apps.example.com", "className": "nginx", "tls": {"secretName": "front-tls"}}},
  "podDisruptionBudget": {"minAvailable": 1},
  "networkPolicy": {},
  "metrics": {"enabled": true},
  "podTemplate": {
    "metadata": {"annotations": {"example.com/team": "platform"}},
    "spec": {
      "priorityClassName": "system-cluster-critical",
      "initContainers": [{"name": "greet", "image": "coder-k8s.local/busybox:1", "command": ["sh", "-c", "echo hello"]}]
    }
  }
}`

// testEverythingOn enables the objects around the pods, and settings that no field
// covers, while Coder serves TLS.
func testEverythingOn(t *testing.T) {
	explain(t, sampleNamespace)
	patchSample(t, everythingOn)
	waitCondition(t, "Exposed", "True", "", "-n", sampleNamespace, "ccp", "coder")
	checkPodTemplate(t, sampleNamespace)
	t.Run("Ingress and access URL", func(t *testing.T) {
		hosts := kubectl(t, "-n", sampleNamespace, "get", "ingress", "coder", "-o", "jsonpath={.spec.rules[*].host}")
		if hosts != "coder.example.com *.example.com" {
			t.Errorf("the hosts of the Ingress are %q", hosts)
		}
		env := kubectl(t, "-n", sampleNamespace, "get", "deployment", "coder", "-o",
			`jsonpath={range .spec.template.spec.containers[0].env[*]}{.name}={.value}{"\n"}{end}`)
		for _, want := range []string{"CODER_ACCESS_URL=https://coder.example.com\n", "CODER_WILDCARD_ACCESS_URL=*-apps.example.com\n"} {
			if !strings.Contains(env, want) {
				t.Errorf("the environment has no %s", want)
			}
		}
		coder := coderURL(t, sampleNamespace, "coder")
		fetched(t, coder+"/api/v2/buildinfo", "", `"dashboard_url":"https://coder.example.com"`)
		token := secretValue(t, sampleNamespace, "coder-operator-token", "token")
		fetched(t, coder+"/api/v2/applications/host", token, "*-apps.example.com")
	})
	t.Run("eviction is refused", func(t *testing.T) {
		// A terminating pod may be evicted, so wait for its end.
		pod := onlyCoderPod(t)
		polltest.Eventually(t, "the budget counts the pod", func() error {
			budget := get(t, "-n", sampleNamespace, "pdb", "coder")
			if n, allowed := field(budget, "status", "currentHealthy"), field(budget, "status", "disruptionsAllowed"); n != "1" || allowed != "0" {
				return fmt.Errorf("currentHealthy is %q, and %q disruptions are allowed", n, allowed)
			}
			return nil
		})
		eviction := fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":"coder"}}`, pod)
		out, err := kubectlInput(t, eviction, "create", "--raw", "/api/v1/namespaces/coder/pods/"+pod+"/eviction", "-f", "-")
		if err == nil || !strings.Contains(out, "disruption budget") {
			t.Errorf("the eviction of the only pod is not refused: %v %s", err, out)
		}
	})
	t.Run("metrics and network policy", func(t *testing.T) {
		service := get(t, "-n", sampleNamespace, "service", "coder-metrics")
		fetched(t, "http://"+inURL(field(service, "spec", "clusterIP"))+":2112/metrics", "", "coderd_")
		if get(t, "-n", sampleNamespace, "networkpolicy", "coder") == nil {
			t.Error("there is no NetworkPolicy")
		}
		listed(t, "coder.admin.hello")
	})
}

// onlyCoderPod waits until the sample control plane has one pod, that of its last change,
// and returns its name.
func onlyCoderPod(t *testing.T) string {
	t.Helper()
	var pods []map[string]any
	polltest.Eventually(t, "Coder has one pod", func() error {
		pods = list(t, "-n", sampleNamespace, "pods", "-l", "app.kubernetes.io/name=coder-control-plane")
		if len(pods) != 1 || field(pods[0], "metadata", "deletionTimestamp") != "" {
			return fmt.Errorf("there are %d", len(pods))
		}
		return nil
	})
	return field(pods[0], "metadata", "name")
}

// testEverythingOff disables all of this: the objects are deleted.
func testEverythingOff(t *testing.T) {
	explain(t, sampleNamespace)
	patchSample(t, `{"tls":null,"expose":null,"podDisruptionBudget":null,"networkPolicy":null,"metrics":null,"podTemplate":null,"deployment":null}`)
	if out := kubectl(t, "-n", sampleNamespace, "get", "ingress,pdb,service", "-o", "name"); strings.TrimSpace(out) != "service/coder" {
		t.Errorf("there are still more objects than the Service:\n%s", out)
	}
	if get(t, "-n", sampleNamespace, "networkpolicy", "coder") != nil {
		t.Error("there is still a NetworkPolicy of the control plane")
	}
	if _, reason, _ := condition(get(t, "-n", sampleNamespace, "ccp", "coder"), "Exposed"); reason != "" {
		t.Errorf("the condition Exposed is still there: %s", reason)
	}
	fetched(t, coderURL(t, sampleNamespace, "coder")+"/api/v2/buildinfo", "", `"dashboard_url":"http://coder.coder.svc`)
	listed(t, "coder.admin.hello")
}

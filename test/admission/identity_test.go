package admission

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// What the operator writes to the status before it uses the fields.
const (
	claimedKey   = "{observedGeneration: 1, controlPlaneRefName: coder}"
	claimedProxy = "{observedGeneration: 1, proxyName: transition}"
	storedToken  = "{observedGeneration: 1, operatorTokenSecretRef: {name: coder-operator-token}}"
	runningPods  = "{observedGeneration: 1, replicas: 1}"
)

const createAnother = "create a new "

// identities are fields that cannot change after the operator has used them. The good change sets
// the default, or another field.
var identities = []transition{
	{name: "another control plane of a key", kinds: []string{provisioner}, at: "spec.controlPlaneRef", says: createAnother, status: claimedKey,
		bad: "controlPlaneRef: {name: other}", good: "replicas: 2"},
	{name: "no control plane of a key any more", kinds: []string{provisioner}, at: "spec.controlPlaneRef", says: createAnother, status: claimedKey,
		bad: "{controlPlaneRef: null, url: 'https://coder.example.com', key: {secretRef: {name: mine}}}", good: "key: {secretRef: {name: mine}}"},
	{name: "another organization", kinds: []string{provisioner}, at: "spec.organizationName", says: createAnother, status: claimedKey,
		bad: "organizationName: sales", good: "organizationName: default"},
	{name: "no organization any more", kinds: []string{provisioner}, at: "spec.organizationName", says: createAnother, status: claimedKey,
		before: "organizationName: sales", bad: "{}", good: "{organizationName: sales, tags: {zone: a}}"},
	{name: "another Secret of a key", kinds: []string{provisioner}, object: "key-a", at: "spec.key.secretName", says: createAnother, status: claimedKey,
		bad: "key: {secretName: other}", good: "key: {secretName: key-a-provisioner-key}"},
	{name: "no Secret of a key any more", kinds: []string{provisioner}, object: "key-b", at: "spec.key.secretName", says: createAnother, status: claimedKey,
		before: "key: {secretName: other}", bad: "{}", good: "key: {secretName: other, name: new}"},
	{name: "another entry of the Secret", kinds: []string{provisioner}, at: "spec.key.secretKey", says: createAnother, status: claimedKey,
		bad: "key: {secretKey: token}", good: "key: {secretKey: key}"},
	{name: "no entry of the Secret any more", kinds: []string{provisioner}, at: "spec.key.secretKey", says: createAnother, status: claimedKey,
		before: "key: {secretKey: token}", bad: "key: {}", good: "key: {secretKey: token, rotateAfter: 24h}"},
	{name: "another ServiceAccount of provisioners", kinds: []string{provisioner}, object: "account-a", at: "spec.serviceAccount.name", says: "spec.replicas to 0",
		status: runningPods, bad: "serviceAccount: {name: other}", good: "serviceAccount: {name: account-a-provisioner}"},
	{name: "no ServiceAccount of provisioners any more", kinds: []string{provisioner}, object: "account-b", at: "spec.serviceAccount.name",
		says: createAnother, status: runningPods, before: "serviceAccount: {name: other}", bad: "{}", good: "serviceAccount: {name: other, labels: {a: b}}"},
	{name: "another control plane of a proxy", kinds: []string{proxy}, at: "spec.controlPlaneRef", says: createAnother, status: claimedProxy,
		bad: "controlPlaneRef: {name: other}", good: "replicas: 2"},
	{name: "a proxy with a token of its user", kinds: []string{proxy}, at: "spec.controlPlaneRef", says: createAnother, status: claimedProxy,
		bad:  "{controlPlaneRef: null, proxySessionTokenSecretRef: {name: mine}, primaryAccessURL: 'https://coder.example.com'}",
		good: "bootstrap: {proxyName: other}"},
	{name: "a proxy of another Coder", kinds: []string{proxy}, at: "spec.bootstrap.coderURL", says: createAnother, status: claimedProxy,
		before: "{controlPlaneRef: null, bootstrap: {coderURL: 'https://a.example.com', credentialsSecretRef: {name: a}}}",
		bad:    "{controlPlaneRef: null, bootstrap: {coderURL: 'https://b.example.com', credentialsSecretRef: {name: a}}}",
		good:   "{controlPlaneRef: null, bootstrap: {coderURL: 'https://a.example.com', credentialsSecretRef: {name: b}}}"},
	{name: "another Secret of a proxy", kinds: []string{proxy}, object: "proxy-a", at: "spec.bootstrap.generatedTokenSecretName", says: createAnother,
		status: claimedProxy, bad: "bootstrap: {generatedTokenSecretName: other}", good: "bootstrap: {generatedTokenSecretName: proxy-a-proxy-token}"},
	{name: "no Secret of a proxy any more", kinds: []string{proxy}, object: "proxy-b", at: "spec.bootstrap.generatedTokenSecretName", says: createAnother,
		status: claimedProxy, before: "bootstrap: {generatedTokenSecretName: other}", bad: "{}", good: "bootstrap: {generatedTokenSecretName: other, displayName: Other}"},
	{name: "another ServiceAccount of a proxy", kinds: []string{proxy}, object: "account-c", at: "spec.serviceAccount.name", says: createAnother,
		status: runningPods, bad: "serviceAccount: {name: other}", good: "serviceAccount: {name: wsproxy-account-c}"},
	{name: "another Secret of the operator's token", kinds: []string{controlPlane}, object: "token-a", at: "spec.operatorAccess.generatedTokenSecretName",
		says: "spec.operatorAccess.disabled until", status: storedToken,
		bad: "operatorAccess: {generatedTokenSecretName: other}", good: "operatorAccess: {generatedTokenSecretName: token-a-operator-token}"},
	{name: "another Secret beside a token that was given just now", kinds: []string{controlPlane}, object: "token-c",
		at: "spec.operatorAccess.generatedTokenSecretName", says: createAnother, status: storedToken,
		before: "operatorAccess: {tokenSecretRef: {name: mine}}", bad: "operatorAccess: {generatedTokenSecretName: other, tokenSecretRef: {name: mine}}",
		good: "operatorAccess: {}"},
	{name: "no Secret of the operator's token any more", kinds: []string{controlPlane}, object: "token-b", at: "spec.operatorAccess.generatedTokenSecretName",
		says: createAnother, status: storedToken, before: "operatorAccess: {generatedTokenSecretName: other}",
		bad: "operatorAccess: {}", good: "{operatorAccess: {generatedTokenSecretName: other, tokenSecretRef: {name: mine}}, serviceAccount: {name: other}}"},
}

func setStatus(t *testing.T, o *unstructured.Unstructured, text string) {
	t.Helper()
	var status map[string]any
	if err := yaml.Unmarshal([]byte(text), &status); err != nil {
		t.Fatal(err)
	}
	o.Object["status"] = status
	if err := environment.client.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// TestIdentityBlocksNothingElse checks that the rules about identity let an object end.
func TestIdentityBlocksNothingElse(t *testing.T) {
	ns := namespace(t)
	for kind, status := range map[string]string{controlPlane: storedToken, provisioner: claimedKey, proxy: claimedProxy} {
		o := object(t, kind, ns, "ends", "{}")
		o.SetFinalizers([]string{"test.coder.com/hold"})
		if err := environment.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		setStatus(t, o, status)
		if err := environment.client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		base := o.DeepCopy()
		o.SetFinalizers(slices.Delete(o.GetFinalizers(), 0, 1))
		if err := environment.client.Patch(t.Context(), o, client.MergeFrom(base)); err != nil {
			t.Errorf("%s: the finalizer cannot be removed: %v", kind, err)
		}
	}
}

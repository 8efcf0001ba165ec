//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// testNothingSecretIsTold looks for each secret of the sample control plane in
// everything that is told about it.
func testNothingSecretIsTold(t *testing.T) {
	told := kubectl(t, "-n", "coder-system", "logs", "deploy/coder-k8s") +
		kubectl(t, "get", "ccp,deployments,pods,jobs,configmaps,leases,coderworkspaces,codertemplates,events,events.events.k8s.io", "-A", "-o", "yaml")
	for _, secret := range []struct{ name, key string }{
		{"coder-operator-token", "token"},
		{"coder-operator-credentials", "password"},
		{"coder-initial-admin", "password"},
	} {
		value := secretValue(t, sampleNamespace, secret.name, secret.key)
		if len(value) < 12 {
			t.Errorf("the %s of Secret %s has only %d characters", secret.key, secret.name, len(value))
		}
		if strings.Contains(told, value) {
			t.Errorf("the %s of Secret %s is told", secret.key, secret.name)
		}
	}
}

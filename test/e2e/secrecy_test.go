//go:build e2e

package e2e

import (
	"encoding/base64"
	"regexp"
	"strings"
	"testing"
)

// testNothingSecretIsTold searches logs, Events, conditions and other output
// for each secret of the sample control plane.
func testNothingSecretIsTold(t *testing.T) {
	told := kubectl(t, "-n", "coder-system", "logs", "deploy/coder-k8s") +
		kubectl(t, "get", "ccp,deployments,pods,jobs,configmaps,leases,coderworkspaces,codertemplates,events,events.events.k8s.io", "-A", "-o", "yaml")
	if jwt := regexp.MustCompile(`eyJ[\w-]+\.eyJ[\w-]+\.[\w-]+`).FindString(told); jwt != "" {
		t.Errorf("a token with which people come to the MCP server or to Kubernetes is told: %.20s...", jwt)
	}
	for _, secret := range []struct{ namespace, name, key string }{
		{sampleNamespace, "coder-operator-token", "token"},
		{sampleNamespace, "coder-operator-credentials", "password"},
		{sampleNamespace, "coder-initial-admin", "password"},
		{"coder-system", "coder-k8s-mcp", "confirmation-key"},
	} {
		value := secretValue(t, secret.namespace, secret.name, secret.key)
		if len(value) < 12 {
			t.Errorf("the %s of Secret %s has only %d characters", secret.key, secret.name, len(value))
		}
		if strings.Contains(told, value) || strings.Contains(told, base64.StdEncoding.EncodeToString([]byte(value))) {
			t.Errorf("the %s of Secret %s is told", secret.key, secret.name)
		}
	}
}

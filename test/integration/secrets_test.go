package integration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tokenOf reads the operator's token for a control plane.
func tokenOf(t *testing.T, ns, name string) string {
	t.Helper()
	secret := &corev1.Secret{}
	if err := environment.client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name + "-operator-token"}, secret); err != nil {
		t.Fatal(err)
	}
	return string(secret.Data["token"])
}

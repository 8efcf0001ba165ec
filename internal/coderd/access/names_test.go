package access

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

func TestSecretNames(t *testing.T) {
	long := strings.Repeat("a", 60)
	for name, c := range map[string]struct{ name, given, token, credentials, admin string }{
		"short":    {name: "dev", token: "dev-operator-token", credentials: "dev-operator-credentials", admin: "dev-initial-admin"},
		"given":    {name: "dev", given: "t", token: "t", credentials: "dev-operator-credentials", admin: "dev-initial-admin"},
		"too long": {name: long, token: long[:39] + "-92b9e111-operator-token", credentials: long[:33] + "-92b9e111-operator-credentials", admin: long[:40] + "-92b9e111-initial-admin"},
	} {
		t.Run(name, func(t *testing.T) {
			cp := &coderv1alpha1.CoderControlPlane{ObjectMeta: metav1.ObjectMeta{Name: c.name}}
			cp.Spec.OperatorAccess.GeneratedTokenSecretName = c.given
			for got, want := range map[string]string{
				TokenSecretName(cp): c.token, CredentialsSecretName(cp): c.credentials, InitialAdminSecretName(cp): c.admin,
			} {
				if got != want || len(got) > 63 {
					t.Errorf("got %q (%d), want %q", got, len(got), want)
				}
			}
		})
	}
}

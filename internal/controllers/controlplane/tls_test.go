package controlplane

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// TestC9TLSDoesNotChangeTheWayToCoder covers a fault of the predecessor: it called a Coder that
// serves TLS under a name that no certificate contains. Here access and license work with and
// without TLS at status.url, which is the URL for all clients inside the cluster.
func TestC9TLSDoesNotChangeTheWayToCoder(t *testing.T) {
	f := newScene(t, newControlPlane(withLicense))
	tls := func(names ...string) {
		t.Helper()
		f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.TLS.SecretNames = names })
		f.live()
		f.MustHave(coderv1alpha1.ConditionOperatorAccess, metav1.ConditionTrue, coderv1alpha1.ReasonTokenAccepted)
		f.MustHave(coderv1alpha1.ConditionLicenseApplied, metav1.ConditionTrue, coderv1alpha1.ReasonApplied)
		f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
		if url := f.Object().Status.URL; url != "http://coder.coder.svc.cluster.local:80" {
			t.Errorf("with the certificates %q it is called at %s", names, url)
		}
	}
	tls("tls")
	tls()
	tls("tls")
}

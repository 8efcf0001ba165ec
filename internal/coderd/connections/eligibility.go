package connections

import (
	"strings"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// Served says whether the objects of a control plane are served at all.
func Served(cp *coderv1alpha1.CoderControlPlane) bool {
	return cp.DeletionTimestamp == nil && served(cp)
}

// served is Served also of one that is being deleted.
func served(cp *coderv1alpha1.CoderControlPlane) bool {
	return !cp.Spec.OperatorAccess.Disabled &&
		!strings.Contains(cp.Name, ".")
}

// notReady says why a control plane that is served cannot be called yet. It is
// empty where it can.
func notReady(cp *coderv1alpha1.CoderControlPlane) string {
	switch {
	case cp.Status.URL == "":
		return "it has no address yet"
	case cp.Status.ObjectNamePrefix == nil:
		return "the names of its objects are not settled yet"
	case !cp.Status.OperatorAccessReady:
		return "the operator has no access to it yet"
	case cp.Status.OperatorTokenSecretRef == nil:
		return "the operator has no token for it yet"
	}
	return ""
}

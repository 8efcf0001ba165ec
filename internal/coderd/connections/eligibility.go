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

// neverServed reports whether the operator never had access to a control plane, so
// that nobody can have seen its objects. If in doubt it is false.
func neverServed(status *coderv1alpha1.CoderControlPlaneStatus) bool {
	switch {
	case status.OperatorAccessReady, status.OperatorTokenSecretRef != nil:
		return false
	case status.EverServed != nil:
		return !*status.EverServed
	}
	// An operator that does not have the field yet wrote this status, or nobody did.
	return status.ObjectNamePrefix == nil || status.Version == ""
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

package connections

import (
	"strings"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// Served reports whether the objects of a control plane are served.
func Served(cp *coderv1alpha1.CoderControlPlane) bool {
	return cp.DeletionTimestamp == nil && served(cp)
}

// served is like Served, but also reports true for a control plane that is being deleted.
func served(cp *coderv1alpha1.CoderControlPlane) bool {
	return !cp.Spec.OperatorAccess.Disabled &&
		!strings.Contains(cp.Name, ".")
}

// neverServed reports whether the operator never had access to a control plane, so that no client
// can have seen its objects. It returns false if this is uncertain.
func neverServed(status *coderv1alpha1.CoderControlPlaneStatus) bool {
	switch {
	case status.OperatorAccessReady, status.OperatorTokenSecretRef != nil:
		return false
	case status.EverServed != nil:
		return !*status.EverServed
	}
	// The status was written by an operator that does not have the field yet, or was never written.
	return status.ObjectNamePrefix == nil || status.Version == ""
}

// notReady returns the reason why a control plane that is served cannot be called yet. It returns
// an empty string if it can.
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

package registry

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// Labels returns the labels that each object of a control plane has.
func Labels(controlPlane types.NamespacedName) map[string]string {
	labels := map[string]string{aggregationv1alpha1.LabelControlPlaneNamespace: controlPlane.Namespace}
	if controlPlane.Name != "" {
		labels[aggregationv1alpha1.LabelControlPlaneName] = controlPlane.Name
	}
	return labels
}

// KeepsFirstName returns the validation error for a spec that uses the new name of something that
// was renamed in Coder. An object keeps the name that it was created with.
func KeepsFirstName(first string) string {
	return fmt.Sprintf("is the name in Coder since a rename there; objects keep the names that they had first, so it must be %q", first)
}

// SameOrganization reports whether the organization in a spec can be the one in the object's name.
// Coder accepts "default" as another name of its first organization, so "default" matches every
// name here. Organization resolves it later.
func SameOrganization(inSpec, inName string) bool {
	return inSpec == "" || inSpec == coderd.DefaultOrganization || strings.EqualFold(inSpec, inName)
}

package registry

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// Labels are the labels of an object of a control plane.
func Labels(controlPlane types.NamespacedName) map[string]string {
	labels := map[string]string{aggregationv1alpha1.LabelControlPlaneNamespace: controlPlane.Namespace}
	if controlPlane.Name != "" {
		labels[aggregationv1alpha1.LabelControlPlaneName] = controlPlane.Name
	}
	return labels
}

// KeepsFirstName is the error for a spec that has the name that something was given in
// Coder after its object was made.
func KeepsFirstName(first string) string {
	return fmt.Sprintf("is the name in Coder since a rename there; objects keep the names that they had first, so it must be %q", first)
}

// SameOrganization says whether an organization in a spec may mean the one in
// the object's name. Coder knows its first organization also as "default", and
// whether that is meant is found out when Coder is asked.
func SameOrganization(inSpec, inName string) bool {
	return inSpec == "" || inSpec == coderd.DefaultOrganization || strings.EqualFold(inSpec, inName)
}

package registry

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/warning"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// lastApplied is written by every kubectl apply. A warning each time would only
// be noise.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// managerCoder owns the status in managedFields. With one owner of something,
// server-side apply does not take the object for one that was never applied, so
// it does not report a conflict for every field of the spec.
const managerCoder = "coder"

// KeepMetadata gives obj the metadata that can be kept, which is that of old,
// or none for a new object, and warns of what the user asked for and does not
// get.
func KeepMetadata(ctx context.Context, obj, old metav1.Object) {
	var kept metav1.ObjectMeta
	if old != nil {
		kept.Labels, kept.Annotations = old.GetLabels(), old.GetAnnotations()
		kept.Finalizers, kept.OwnerReferences = old.GetFinalizers(), old.GetOwnerReferences()
		kept.ManagedFields = old.GetManagedFields()
	}
	var lost []string
	if adds(obj.GetLabels(), kept.Labels) {
		lost = append(lost, "labels")
	}
	if adds(obj.GetAnnotations(), kept.Annotations) {
		lost = append(lost, "annotations")
	}
	if slices.ContainsFunc(obj.GetFinalizers(), func(f string) bool { return !slices.Contains(kept.Finalizers, f) }) {
		lost = append(lost, "finalizers")
	}
	if len(obj.GetOwnerReferences()) > 0 && !equality.Semantic.DeepEqual(obj.GetOwnerReferences(), kept.OwnerReferences) {
		lost = append(lost, "ownerReferences")
	}
	if len(lost) > 0 {
		warning.AddWarning(ctx, "", "metadata: "+strings.Join(lost, ", ")+" are not kept: Coder has no place for them")
	}
	obj.SetLabels(kept.Labels)
	obj.SetAnnotations(kept.Annotations)
	obj.SetFinalizers(kept.Finalizers)
	obj.SetOwnerReferences(kept.OwnerReferences)
	obj.SetManagedFields(kept.ManagedFields)
}

func adds(wanted, kept map[string]string) bool {
	for key, value := range wanted {
		if now, ok := kept[key]; key != lastApplied && (!ok || now != value) {
			return true
		}
	}
	return false
}

// Labels are the labels of an object of a control plane.
func Labels(controlPlane types.NamespacedName) map[string]string {
	labels := map[string]string{aggregationv1alpha1.LabelControlPlaneNamespace: controlPlane.Namespace}
	if controlPlane.Name != "" {
		labels[aggregationv1alpha1.LabelControlPlaneName] = controlPlane.Name
	}
	return labels
}

// SameOrganization says whether an organization in a spec may mean the one in
// the object's name. Coder knows its first organization also as "default", and
// whether that is meant is found out when Coder is asked.
func SameOrganization(inSpec, inName string) bool {
	return inSpec == "" || inSpec == coderd.DefaultOrganization || strings.EqualFold(inSpec, inName)
}

// ManagedFields say that Coder owns the status.
func ManagedFields() []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{
		Manager:    managerCoder,
		Operation:  metav1.ManagedFieldsOperationUpdate,
		APIVersion: aggregationv1alpha1.GroupVersion.String(),
		FieldsType: "FieldsV1",
		FieldsV1:   metav1.NewFieldsV1(`{"f:status":{}}`),
	}}
}

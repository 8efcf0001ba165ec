package apply

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTheOrderOfOwnedFieldsSaysNothing checks that the order of owned fields does not matter. The
// API server and an unstructured object order them differently, so a Service with the ports 80 and
// 443 was once applied in every pass.
func TestTheOrderOfOwnedFieldsSaysNothing(t *testing.T) {
	owned := func(fields string) digest {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "us", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(fields),
		}}}}
		return ownedFields(service, "us")
	}
	server := owned(`{"f:ports":{"k:{\"port\":80}":{".":{}},"k:{\"port\":443}":{".":{}}}}`)
	unstructured := owned(`{"f:ports":{"k:{\"port\":443}":{".":{}},"k:{\"port\":80}":{".":{}}}}`)
	if server != unstructured {
		t.Error("the same fields in another order are taken for other fields")
	}
	if server == owned(`{"f:ports":{"k:{\"port\":80}":{".":{}}}}`) {
		t.Error("fewer fields are taken for the same")
	}
}

package tools

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// dockerTemplate returns a template as the API serves it, with an active version.
func dockerTemplate() *aggregationv1alpha1.CoderTemplate {
	tmpl := &aggregationv1alpha1.CoderTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: dockerName, UID: "docker", Generation: 1},
		Spec: aggregationv1alpha1.CoderTemplateSpec{
			Organization: "coder", VersionID: activeID, DisplayName: "Docker", Files: map[string]string{"main.tf": "# before"},
		},
		Status: aggregationv1alpha1.CoderTemplateStatus{
			OrganizationName: "coder", ActiveVersionID: activeID, ActiveVersionName: "v1", LatestVersionID: activeID, LatestVersionName: "v1",
			LatestVersionStatus: "succeeded", Source: &aggregationv1alpha1.TemplateSource{VersionID: activeID, FileCount: 1, SizeBytes: 8, Inline: true},
		},
	}
	versionState(metav1.ConditionTrue, metav1.ConditionFalse, `version "v1" is active`)(tmpl)
	return tmpl
}

// versionState returns a function that sets the conditions of a template.
func versionState(ready, stalled metav1.ConditionStatus, message string) func(client.Object) {
	return func(obj client.Object) {
		tmpl := obj.(*aggregationv1alpha1.CoderTemplate)
		setCondition(&tmpl.Status.Conditions, aggregationv1alpha1.ConditionReady, ready, "Reason", message)
		setCondition(&tmpl.Status.Conditions, aggregationv1alpha1.ConditionStalled, stalled, "Reason", message)
	}
}

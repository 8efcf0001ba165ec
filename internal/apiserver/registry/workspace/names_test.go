package workspace

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// TestNamesThatCoderRefuses covers names that are valid in Kubernetes, and that Coder would refuse without saying why.
func TestNamesThatCoderRefuses(t *testing.T) {
	for name, valid := range map[string]bool{
		"dev": true, strings.Repeat("x", 32): true, "news": true,
		strings.Repeat("x", 33): false, "new": false, "create": false,
	} {
		ws := &aggregationv1alpha1.CoderWorkspace{
			ObjectMeta: metav1.ObjectMeta{Name: "coder.ada." + name}, Spec: aggregationv1alpha1.CoderWorkspaceSpec{TemplateName: "starter"},
		}
		if errs := (strategy{}).Validate(t.Context(), ws); (len(errs) == 0) != valid {
			t.Errorf("%s: %v", name, errs)
		}
	}
	// An existing workspace, which somebody named so in an earlier Coder, can be changed.
	old := &aggregationv1alpha1.CoderWorkspace{ObjectMeta: metav1.ObjectMeta{Name: "coder.ada." + strings.Repeat("x", 40)}}
	if errs := (strategy{}).ValidateUpdate(t.Context(), old, old); len(errs) != 0 {
		t.Errorf("a change: %v", errs)
	}
	errs := validateParameterNames(parametersPath, []aggregationv1alpha1.WorkspaceParameter{{Name: "a", Value: "s3cret\x00"}})
	if len(errs) != 1 || errs[0].Field != "spec.parameters[0].value" || strings.Contains(errs[0].Error(), "s3cret") {
		t.Errorf("a NUL: %v", errs)
	}
}

// TestMessagesOfTheTemplateAreFilled covers the placeholders in the messages of a template.
func TestMessagesOfTheTemplateAreFilled(t *testing.T) {
	low, high := int32(1), int32(8)
	defined := []coderd.VersionParameter{
		{Name: "cpu", Type: "number", Min: &low, Max: &high, RegexMessage: "{value} is not from {min} to {max}"},
		{Name: "zone", Type: "string", Regex: "^eu-", RegexMessage: "{value} is not in Europe"},
	}
	errs := checkParameters(defined, []value{{"cpu", "9"}, {"zone", "us-1"}}, nil, false)
	if len(errs) != 2 || !strings.Contains(errs[0].Detail, "9 is not from 1 to 8") || !strings.Contains(errs[1].Detail, "us-1 is not in Europe") {
		t.Errorf("%v", errs)
	}
}

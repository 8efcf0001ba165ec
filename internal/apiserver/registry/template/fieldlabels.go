package template

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// fieldLabels returns the fields that field selectors support.
func fieldLabels() map[string]func(*aggregationv1alpha1.CoderTemplate) string {
	type tmpl = *aggregationv1alpha1.CoderTemplate
	return map[string]func(tmpl) string{
		"metadata.name":              func(t tmpl) string { return t.Name },
		"metadata.namespace":         func(t tmpl) string { return t.Namespace },
		"spec.organization":          func(t tmpl) string { return t.Spec.Organization },
		"spec.versionID":             func(t tmpl) string { return t.Spec.VersionID },
		"status.activeVersionID":     func(t tmpl) string { return t.Status.ActiveVersionID },
		"status.latestVersionStatus": func(t tmpl) string { return t.Status.LatestVersionStatus },
		"status.deprecated":          func(t tmpl) string { return strconv.FormatBool(t.Status.Deprecated) },
	}
}

// FieldLabel is for runtime.Scheme.AddFieldLabelConversionFunc.
func FieldLabel(label, value string) (newLabel, newValue string, err error) {
	known := fieldLabels()
	if _, ok := known[label]; !ok {
		return "", "", fmt.Errorf("a field selector of templates may name %s, and not %q",
			strings.Join(slices.Sorted(maps.Keys(known)), ", "), label)
	}
	return label, value, nil
}

func errNotTemplate(obj runtime.Object) error {
	return fmt.Errorf("a CoderTemplate is expected here, not %T", obj)
}

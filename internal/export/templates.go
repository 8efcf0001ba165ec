package export

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// templateManifest returns the manifest of a template.
func templateManifest(t template, r *report) manifest {
	spec := *t.Spec.DeepCopy()
	// The id of a version is specific to one Coder. An empty field keeps the current version.
	spec.VersionID = ""
	m := newManifest("CoderTemplate", "templates", t.ObjectMeta)
	noteFiles(t, r)
	if withheld := secretVariables(t); len(withheld) > 0 {
		m.comments = append(m.comments, variablesComment(spec.Variables, withheld))
		r.leave("CoderTemplate %s: spec.variables, because the value of %s is secret or may be; the comment in its manifest says how to go on",
			qualified(t.ObjectMeta), strings.Join(withheld, ", "))
		spec.Variables = nil
	}
	if t.Status.Deprecated {
		r.note("CoderTemplate %s: it is deprecated in Coder (%s), which a manifest cannot say", qualified(t.ObjectMeta), t.Status.DeprecationMessage)
	}
	m.Spec = spec
	return m
}

// noteFiles reports source files that a manifest cannot contain, or that contain a secret.
func noteFiles(t template, r *report) {
	name := qualified(t.ObjectMeta)
	c := meta.FindStatusCondition(t.Status.Conditions, aggregationv1alpha1.ConditionFilesAvailable)
	switch {
	case c != nil && c.Status == metav1.ConditionFalse:
		r.leave("CoderTemplate %s: spec.files: %s; another Coder cannot make the template of this manifest", name, c.Message)
	case t.Status.Source != nil && !t.Status.Source.Inline:
		r.leave("CoderTemplate %s: the files of its source that are not text (%d files are); read them all through codertemplates/files",
			name, len(t.Spec.Files))
	}
	for _, file := range slices.Sorted(maps.Keys(t.Spec.Files)) {
		if redaction.LooksSecret(t.Spec.Files[file]) {
			r.note("CoderTemplate %s: file %s seems to hold a secret; it is exported as it is, so look before you share it", name, file)
		}
	}
}

// secretVariables returns the variables whose values must not be exported, sorted: those that the
// source or Coder declares as sensitive, those without a declaration, and those that look like
// secrets. A variable that refers to a Secret contains no value.
func secretVariables(t template) []string {
	declared := declarationsIn(t.Spec.Files)
	all := map[string]bool{}
	for _, name := range t.sensitive {
		all[name] = true
	}
	for _, v := range t.Spec.Variables {
		if v.ValueFrom != nil {
			continue
		}
		sensitive, known := declared.variables[v.Name]
		all[v.Name] = all[v.Name] || sensitive || !known && !t.told || redaction.NamesSecret(v.Name) || redaction.LooksSecret(v.Value)
	}
	maps.DeleteFunc(all, func(_ string, secret bool) bool { return !secret })
	return slices.Sorted(maps.Keys(all))
}

// variablesComment returns a comment with the omitted spec.variables.
func variablesComment(variables []aggregationv1alpha1.TemplateVariable, withheld []string) string {
	var b strings.Builder
	b.WriteString("spec.variables is left out, because it has secret values. To set them, keep each in a key of a\n" +
		"Secret and write them all, for what is not in the list goes back to its default:\n  variables:")
	listed := map[string]bool{}
	for _, v := range variables {
		listed[v.Name] = true
		switch {
		case slices.Contains(withheld, v.Name):
			b.WriteString(secretVariable(v.Name))
		case v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil:
			ref := v.ValueFrom.SecretKeyRef
			fmt.Fprintf(&b, "\n  - name: %s\n    valueFrom:\n      secretKeyRef:\n        name: %s\n        key: %s", v.Name, ref.Name, ref.Key)
		default:
			fmt.Fprintf(&b, "\n  - name: %s\n    value: %q", v.Name, v.Value)
		}
	}
	for _, name := range withheld {
		if !listed[name] {
			b.WriteString(secretVariable(name))
		}
	}
	return b.String()
}

func secretVariable(name string) string {
	return fmt.Sprintf("\n  - name: %s\n    valueFrom:\n      secretKeyRef:\n        name: CHOOSE-A-SECRET\n        key: %s", name, name)
}

// qualified returns the name of an object for the report.
func qualified(m metav1.ObjectMeta) string {
	if m.Namespace == "" {
		return m.Name
	}
	return m.Namespace + "/" + m.Name
}

package admission

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rule is a validation error: an object that is rejected, and a similar one that is
// accepted.
type rule struct {
	name  string
	kinds []string
	// bad and good are specs in YAML, merged over the required spec.
	bad, good string
	// badName and goodName are the objects' names, for rules about names.
	badName, goodName string
	// at is the field in the error, and says is a part of its message.
	at, says string
}

// transition is a change that is rejected, and a change of the same object that is
// accepted.
type transition struct {
	name              string
	kinds             []string
	before, bad, good string
	// status makes the rule apply. Without it, the bad change is accepted.
	status string
	// object is the name of the object. It may be left out.
	object   string
	at, says string
}

// TestBadInputIsRefused checks that invalid objects are rejected at admission, with the
// field, the problem and what to do, and that each rule of the definitions rejects an
// object here.
func TestBadInputIsRefused(t *testing.T) {
	ns := namespace(t)
	seen := map[string][]string{} // By kind: the answers.
	for _, r := range slices.Concat(workloadRules, rbacRules, servingRules, exposeRules, kindRules, templateTestRules, backupRules, limits) {
		for _, kind := range r.kinds {
			t.Run(kind+"/"+r.name, func(t *testing.T) {
				bad := object(t, kind, ns, orElse(r.badName, "coder"), r.bad)
				seen[kind] = append(seen[kind], refused(t, environment.client.Create(t.Context(), bad, client.DryRunAll), r.at, r.says))
				good := object(t, kind, ns, orElse(r.goodName, "coder"), r.good)
				if err := environment.client.Create(t.Context(), good, client.DryRunAll); err != nil {
					t.Errorf("the good neighbour %q is refused: %v", r.good, err)
				}
			})
		}
	}
	for i, r := range slices.Concat(transitions, identities, templateTestChanges, backupTransitions) {
		for _, kind := range r.kinds {
			t.Run(kind+"/"+r.name, func(t *testing.T) {
				o := object(t, kind, ns, orElse(r.object, fmt.Sprintf("transition-%d", i)), r.before)
				if err := environment.client.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				change := func(spec string) error {
					changed := object(t, kind, ns, o.GetName(), spec)
					changed.SetResourceVersion(o.GetResourceVersion())
					return environment.client.Update(t.Context(), changed, client.DryRunAll)
				}
				if r.status != "" {
					if err := change(r.bad); err != nil {
						t.Errorf("before the field is used, the change to %q is refused: %v", r.bad, err)
					}
					setStatus(t, o, r.status)
				}
				seen[kind] = append(seen[kind], refused(t, change(r.bad), r.at, r.says))
				if err := change(r.good); err != nil {
					t.Errorf("the good change to %q is refused: %v", r.good, err)
				}
			})
		}
	}
	if run := flag.Lookup("test.run"); run != nil && strings.Contains(run.Value.String(), "/") {
		return // Not all of the subtests have run.
	}
	for kind, definition := range definitions(t) {
		for _, validation := range validations("", definition.Spec.Versions[0].Schema.OpenAPIV3Schema) {
			if !slices.ContainsFunc(seen[kind], validation.in) {
				t.Errorf("%s: no row breaks the rule at %q that says %q", kind, validation.path, validation.message)
			}
		}
	}
}

// refused returns the error text, and fails the test unless the error is Invalid and
// contains the field.
func refused(t *testing.T, err error, at, says string) string {
	t.Helper()
	if !apierrors.IsInvalid(err) {
		t.Errorf("the answer is %v, not Invalid", err)
		return ""
	}
	text := err.Error()
	if !strings.Contains(text, at+": ") || !strings.Contains(text, says) {
		t.Errorf("the answer does not say %q of %q: %s", says, at, text)
	}
	return text
}

func orElse(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// validation is one rule of a definition.
type validation struct{ path, message string }

var indexes = regexp.MustCompile(`\[[0-9]+\]`)

// in reports whether the error is that of this rule: the path and the message.
func (v validation) in(answer string) bool {
	path := orElse(v.path, "<nil>")
	return strings.Contains(indexes.ReplaceAllString(answer, "[]"), path+": Invalid value: ") && strings.Contains(answer, v.message)
}

// validations returns the rules in a schema, without those of the status, which only the
// operator writes.
func validations(path string, schema *apiextensionsv1.JSONSchemaProps) []validation {
	var found []validation
	for _, v := range schema.XValidations {
		found = append(found, validation{strings.TrimPrefix(path+v.FieldPath, "."), v.Message})
	}
	for name, property := range schema.Properties {
		if path == "" && name == "status" {
			continue
		}
		found = append(found, validations(strings.TrimPrefix(path+"."+name, "."), &property)...)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		found = append(found, validations(path+"[]", schema.Items.Schema)...)
	}
	return found
}

// TestNoPatternWithoutWords: a regular expression is not a helpful error message. Only
// patterns in Kubernetes' own types are allowed.
func TestNoPatternWithoutWords(t *testing.T) {
	for kind, definition := range definitions(t) {
		for _, path := range patterns("", definition.Spec.Versions[0].Schema.OpenAPIV3Schema) {
			theirs := slices.ContainsFunc([]string{"status.conditions[]", "spec.podTemplate.", "spec.volumes[]", "spec.extraEnv[]", "spec.resources.", "spec.template.resources.", "spec.bootstrap.fromBackup.resources."},
				func(prefix string) bool { return strings.HasPrefix(path, prefix) })
			if !theirs {
				t.Errorf("%s: %s has a pattern; make it a rule with a message", kind, path)
			}
		}
		for _, v := range validations("", definition.Spec.Versions[0].Schema.OpenAPIV3Schema) {
			if v.message == "" || strings.HasSuffix(v.message, ".") {
				t.Errorf("%s: the rule at %q has the message %q: each has one, without a period", kind, v.path, v.message)
			}
		}
	}
}

func patterns(path string, schema *apiextensionsv1.JSONSchemaProps) []string {
	var found []string
	if schema.Pattern != "" {
		found = append(found, path)
	}
	for name, property := range schema.Properties {
		found = append(found, patterns(strings.TrimPrefix(path+"."+name, "."), &property)...)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		found = append(found, patterns(path+"[]", schema.Items.Schema)...)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		found = append(found, patterns(path+".*", schema.AdditionalProperties.Schema)...)
	}
	return found
}

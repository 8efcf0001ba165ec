package export

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/zclconf/go-cty/cty"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// prebuildsOwner is the owner of prebuilt workspaces, which Coder creates and recreates by itself.
const prebuildsOwner = "prebuilds"

// workspaceManifest returns the manifest of a workspace. It returns false for a workspace that is
// being deleted, or that Coder prebuilds.
func workspaceManifest(ws aggregationv1alpha1.CoderWorkspace, masked map[string]bool, r *report) (manifest, bool) {
	name := qualified(ws.ObjectMeta)
	switch {
	case ws.DeletionTimestamp != nil:
		r.note("CoderWorkspace %s: it is being deleted, so there is no manifest", name)
		return manifest{}, false
	case ws.Status.OwnerName == prebuildsOwner:
		r.note("CoderWorkspace %s: Coder prebuilds it for the template's presets, so there is no manifest", name)
		return manifest{}, false
	}
	first, _ := metadata.ParseWorkspaceName(metadata.NameWithoutID(ws.Name))
	current := metadata.JoinName(first.Prefix, ws.Status.OrganizationName, ws.Status.OwnerName, ws.Status.WorkspaceName)
	spec := *ws.Spec.DeepCopy()
	noteFirstNames("CoderWorkspace "+name, r, []keptName{
		{"metadata.name", ws.Name, current},
		{"spec.organization", spec.Organization, ws.Status.OrganizationName},
		{"spec.templateName", spec.TemplateName, ws.Status.TemplateName},
	})
	// The id of a version is specific to one Coder. An empty field keeps the current version.
	spec.TemplateVersionID = ""
	if ws.Status.Outdated {
		r.note("CoderWorkspace %s: it is built from a version of template %s that is not the active one; another Coder uses the active one",
			name, spec.TemplateName)
	}
	if ptr.Deref(spec.Dormant, false) && ptr.Deref(spec.Running, false) {
		// Coder has not stopped it yet. The aggregated API refuses the two together.
		spec.Running = nil
	}
	// A field that is left out is decided by Coder and its users.
	if ptr.Deref(spec.TTLMillis, 0) == 0 {
		spec.TTLMillis = nil
	}
	if ptr.Deref(spec.AutostartSchedule, "") == "" {
		spec.AutostartSchedule = nil
	}
	m := newManifest("CoderWorkspace", "workspaces", ws.ObjectMeta)
	if withheld := secretParameters(spec.Parameters, masked); len(withheld) > 0 {
		m.comments = append(m.comments, parametersComment(spec.Parameters, withheld))
		r.leave("CoderWorkspace %s: spec.parameters, because the value of %s is secret or may be; see the comment in its manifest",
			name, strings.Join(withheld, ", "))
		spec.Parameters = nil
	}
	m.Spec = spec
	return m, true
}

// keptName is a field that keeps the first name of something in Coder, with the current name.
type keptName struct{ field, first, current string }

// noteFirstNames reports the fields whose names were changed in Coder. They are exported unchanged,
// because they are immutable in the cluster that they come from.
func noteFirstNames(object string, r *report, names []keptName) {
	var changes []string
	for _, n := range names {
		if !strings.EqualFold(n.first, n.current) {
			changes = append(changes, fmt.Sprintf("%s to %s", n.field, n.current))
		}
	}
	if len(changes) > 0 {
		r.note("%s: it keeps the names that it had first in Coder; for another Coder, change %s", object, strings.Join(changes, ", "))
	}
}

// secretParameters returns the parameters whose values must not be exported. masked is nil if the
// source of the template is not known: then each value may be secret.
func secretParameters(parameters []aggregationv1alpha1.WorkspaceParameter, masked map[string]bool) []string {
	var out []string
	for _, p := range parameters {
		if masked == nil || masked[p.Name] || redaction.VariableNamesSecret(p.Name) || redaction.LooksSecret(p.Value) {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	return out
}

// parametersComment returns a comment with the omitted spec.parameters.
func parametersComment(parameters []aggregationv1alpha1.WorkspaceParameter, withheld []string) string {
	var b strings.Builder
	b.WriteString("spec.parameters is left out, because it has secret values. An existing workspace keeps what it\n" +
		"has. A new one needs them:\n  parameters:")
	for _, p := range parameters {
		value := fmt.Sprintf("%q", p.Value)
		if slices.Contains(withheld, p.Name) {
			value = "CHOOSE-A-VALUE"
		}
		fmt.Fprintf(&b, "\n  - name: %s\n    value: %s", p.Name, value)
	}
	return b.String()
}

// templateID identifies a template by its current names in Coder. The name of its object may be an
// earlier one.
type templateID struct{ namespace, controlPlane, organization, name string }

func newTemplateID(of metav1.ObjectMeta, organization, name string) templateID {
	return templateID{of.Namespace, of.Labels[aggregationv1alpha1.LabelControlPlaneName], organization, name}
}

// templateManifest returns the manifest of a template.
func templateManifest(t aggregationv1alpha1.CoderTemplate, r *report) manifest {
	name := qualified(t.ObjectMeta)
	first, _ := metadata.ParseTemplateName(metadata.NameWithoutID(t.Name))
	current := metadata.JoinName(first.Prefix, t.Status.OrganizationName, t.Status.TemplateName)
	spec := *t.Spec.DeepCopy()
	noteFirstNames("CoderTemplate "+name, r, []keptName{
		{"metadata.name", t.Name, current},
		{"spec.organization", spec.Organization, t.Status.OrganizationName},
	})
	// The id of a version is specific to one Coder. An empty field keeps the current version.
	spec.VersionID = ""
	m := newManifest("CoderTemplate", "templates", t.ObjectMeta)
	c := meta.FindStatusCondition(t.Status.Conditions, aggregationv1alpha1.ConditionFilesAvailable)
	switch {
	case c != nil && c.Status == metav1.ConditionFalse:
		r.leave("CoderTemplate %s: spec.files: %s; another Coder cannot create the template from this manifest", name, c.Message)
	case t.Status.Source != nil && !t.Status.Source.Inline:
		r.leave("CoderTemplate %s: the files of its source that are not text (%d files are); read them all through codertemplates/files",
			name, len(t.Spec.Files))
	}
	for _, file := range slices.Sorted(maps.Keys(t.Spec.Files)) {
		if redaction.LooksSecret(t.Spec.Files[file]) {
			r.note("CoderTemplate %s: file %s may contain a secret; it is exported unchanged, so check it before you share it", name, file)
		}
	}
	if withheld := secretVariables(t); len(withheld) > 0 {
		m.comments = append(m.comments, variablesComment(spec.Variables, withheld))
		r.leave("CoderTemplate %s: spec.variables, because the value of %s is secret or may be; see the comment in its manifest",
			name, strings.Join(withheld, ", "))
		spec.Variables = nil
	}
	if t.Status.Candidate != nil {
		r.note("CoderTemplate %s: its files are those of the candidate %s, which is not active; another Coder makes them active", name, t.Status.Candidate.Name)
	}
	if t.Status.Deprecated {
		r.note("CoderTemplate %s: it is deprecated in Coder (%s), which a manifest cannot express", name, t.Status.DeprecationMessage)
	}
	m.Spec = spec
	return m
}

// secretVariables returns the variables whose values must not be exported, sorted: those that the
// source declares as sensitive, those without a declaration, and those that look like
// secrets. A variable that refers to a Secret contains no value.
func secretVariables(t aggregationv1alpha1.CoderTemplate) []string {
	declared := declarationsIn(t.Spec.Files)
	all := map[string]bool{}
	for _, v := range t.Spec.Variables {
		if v.ValueFrom != nil {
			continue
		}
		sensitive, known := declared.variables[v.Name]
		all[v.Name] = all[v.Name] || sensitive || !known || redaction.VariableNamesSecret(v.Name) || redaction.LooksSecret(v.Value)
	}
	maps.DeleteFunc(all, func(_ string, secret bool) bool { return !secret })
	return slices.Sorted(maps.Keys(all))
}

// variablesComment returns a comment with the omitted spec.variables.
func variablesComment(variables []aggregationv1alpha1.TemplateVariable, withheld []string) string {
	var b strings.Builder
	b.WriteString("spec.variables is left out, because it has secret values. To set them, keep each in a key of a\n" +
		"Secret and write them all, for what is not in the list goes back to its default:\n  variables:")
	for _, v := range variables {
		switch {
		case slices.Contains(withheld, v.Name):
			fmt.Fprintf(&b, "\n  - name: %s\n    valueFrom:\n      secretKeyRef:\n        name: CHOOSE-A-SECRET\n        key: %s", v.Name, v.Name)
		case v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil:
			ref := v.ValueFrom.SecretKeyRef
			fmt.Fprintf(&b, "\n  - name: %s\n    valueFrom:\n      secretKeyRef:\n        name: %s\n        key: %s", v.Name, ref.Name, ref.Key)
		default:
			fmt.Fprintf(&b, "\n  - name: %s\n    value: %q", v.Name, v.Value)
		}
	}
	return b.String()
}

// qualified returns the name of an object for the report.
func qualified(m metav1.ObjectMeta) string {
	if m.Namespace == "" {
		return m.Name
	}
	return m.Namespace + "/" + m.Name
}

// declarations are the inputs that the source of a template declares.
type declarations struct {
	// variables contains each variable, and whether it is sensitive.
	variables map[string]bool
	// masked contains the parameters with a masked input.
	masked map[string]bool
}

// declarationsIn parses the Terraform files in the root folder of a template. It ignores files that
// cannot be parsed.
func declarationsIn(files map[string]string) declarations {
	out := declarations{variables: map[string]bool{}, masked: map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Dir(name) != "." {
			continue
		}
		parser := hclparse.NewParser()
		var file *hcl.File
		switch {
		case strings.HasSuffix(name, ".tf"):
			file, _ = parser.ParseHCL([]byte(files[name]), name)
		case strings.HasSuffix(name, ".tf.json"):
			file, _ = parser.ParseJSON([]byte(files[name]), name)
		}
		if file != nil && file.Body != nil {
			out.add(file)
		}
	}
	return out
}

func (d *declarations) add(file *hcl.File) {
	content, _, _ := file.Body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "variable", LabelNames: []string{"name"}},
		{Type: "data", LabelNames: []string{"type", "name"}},
	}})
	for _, block := range content.Blocks {
		switch {
		case block.Type == "variable":
			sensitive := attribute(block, "sensitive")
			d.variables[block.Labels[0]] = sensitive != nil && !isFalse(sensitive)
		case block.Labels[0] == "coder_parameter":
			d.addParameter(block, file.Bytes)
		}
	}
}

func (d *declarations) addParameter(block *hcl.Block, source []byte) {
	name, styling := attribute(block, "name"), attribute(block, "styling")
	if name == nil || styling == nil || !strings.Contains(string(styling.Expr.Range().SliceBytes(source)), "mask_input") {
		return
	}
	if value, _ := name.Expr.Value(nil); value.IsKnown() && !value.IsNull() && value.Type() == cty.String {
		d.masked[value.AsString()] = true
	}
}

func attribute(block *hcl.Block, name string) *hcl.Attribute {
	content, _, _ := block.Body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: name}}})
	return content.Attributes[name]
}

// isFalse reports whether an attribute is certainly false.
func isFalse(a *hcl.Attribute) bool {
	value, problems := a.Expr.Value(nil)
	return !problems.HasErrors() && value.IsKnown() && !value.IsNull() && value.Type() == cty.Bool && value.False()
}

// userManifest makes the manifest of a user. There is none of the operator's own account,
// which each operator makes for itself, and of users whom nobody can make in Coder.
func userManifest(u aggregationv1alpha1.CoderUser, r *report) (manifest, bool) {
	name := qualified(u.ObjectMeta)
	switch {
	case u.DeletionTimestamp != nil:
		r.note("CoderUser %s: it is being deleted, so there is no manifest", name)
		return manifest{}, false
	case u.Status.Username == coderv1alpha1.OperatorUsername:
		r.note("CoderUser %s: it is the operator's own account, so there is no manifest", name)
		return manifest{}, false
	case !slices.Contains([]string{"password", "oidc", "none"}, u.Spec.LoginType):
		r.leave("CoderUser %s: its login type %q cannot be chosen for a new user; another Coder creates the user at the first login", name, u.Spec.LoginType)
		return manifest{}, false
	}
	first, _ := metadata.ParseUserName(metadata.NameWithoutID(u.Name))
	current := metadata.JoinName(first.Prefix, u.Status.Username)
	noteFirstNames("CoderUser "+name, r, []keptName{{"metadata.name", u.Name, current}})
	m := newManifest("CoderUser", "users", u.ObjectMeta)
	if u.Spec.LoginType == "password" && u.Spec.PasswordFrom == nil {
		m.comments = append(m.comments, "The password is not exported. Another Coder gives the user a random one that nobody knows;\n"+
			"to choose it, set spec.passwordFrom to a key of a Secret.")
	}
	m.Spec = *u.Spec.DeepCopy()
	return m, true
}

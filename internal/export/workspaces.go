package export

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectname"
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
	spec := *ws.Spec.DeepCopy()
	// The id of a version is specific to one Coder. An empty field keeps the current version.
	spec.TemplateVersionID = ""
	if ws.Status.Outdated {
		r.note("CoderWorkspace %s: it is built from a version of template %s that is not the active one; another Coder takes the active one",
			name, spec.TemplateName)
	}
	if ptr.Deref(spec.Dormant, false) && ptr.Deref(spec.Running, false) {
		// Coder has not stopped it yet. The aggregated API refuses the two together.
		spec.Running = nil
	}
	m := newManifest("CoderWorkspace", "workspaces", ws.ObjectMeta)
	if withheld := secretParameters(spec.Parameters, masked); len(withheld) > 0 {
		m.comments = append(m.comments, parametersComment(spec.Parameters, withheld))
		r.leave("CoderWorkspace %s: spec.parameters, because the value of %s is secret or may be; the comment in its manifest says how to go on",
			name, strings.Join(withheld, ", "))
		spec.Parameters = nil
	}
	m.Spec = spec
	return m, true
}

// secretParameters returns the parameters whose values must not be exported.
func secretParameters(parameters []aggregationv1alpha1.WorkspaceParameter, masked map[string]bool) []string {
	var out []string
	for _, p := range parameters {
		if masked[p.Name] || redaction.NamesSecret(p.Name) || redaction.LooksSecret(p.Value) {
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

// templateOf returns the namespace and name of a workspace's template.
func templateOf(ws aggregationv1alpha1.CoderWorkspace) string {
	name, err := objectname.ParseWorkspace(objectname.WithoutID(ws.Name))
	if err != nil {
		return ""
	}
	return ws.Namespace + "/" + objectname.Template{Prefix: name.Prefix, Organization: name.Organization, Name: ws.Spec.TemplateName}.String()
}

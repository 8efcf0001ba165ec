package resources

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

const (
	// mostFileBytes limits the total size of the template's files in the prompt.
	mostFileBytes = 48 << 10
	// mostPartBytes limits the size of the versions and of the parameters.
	mostPartBytes = 8 << 10
	shownVersions = 10
	// timeLimit limits the time for reading a template.
	timeLimit = 8 * time.Second
)

const reviewTask = `Review the Coder template %s/%s. Look for: mistakes in the Terraform; workspaces that lose data when they stop or are rebuilt;
resources without limits; privileges, host mounts and secrets in the source; parameters without a default, a description or a
validation; providers and modules without a version; an agent that cannot start. For each finding name the file and the line, say what
happens, and show the change. Begin with what matters most. Do not push a version before the person who asks has agreed.
%s
%s`

// templateRights returns the permissions that review_template needs, and those that make it
// more complete.
func templateRights() (needs, uses []callers.Right) {
	return []callers.Right{callers.AggregatedRight("get", "codertemplates")},
		[]callers.Right{callers.AggregatedRight("get", "codertemplates/parameters"), callers.AggregatedRight("get", "codertemplates/versions")}
}

// reviewTemplate returns a prompt for the review of a template. If parameters or versions
// cannot be read, the prompt says so.
func reviewTemplate(ctx context.Context, kube *callers.Kube, of subject) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	tmpl := &aggregationv1alpha1.CoderTemplate{}
	if err := kube.Get(ctx, client.ObjectKey{Namespace: of.namespace, Name: of.name}, tmpl); err != nil {
		return "", &toolset.CallError{Verb: "get", Resource: "codertemplates", Namespace: of.namespace, Name: of.name, Err: err}
	}
	var parameters, versions string
	var both sync.WaitGroup
	both.Go(func() {
		var list aggregationv1alpha1.CoderTemplateParameterList
		err := of.subresource("parameters", nil).Decode(ctx, kube, &list)
		redactParameters(&list)
		parameters = part(ctx, "parameters", list, err)
	})
	both.Go(func() {
		var list aggregationv1alpha1.CoderTemplateVersionList
		err := of.subresource("versions", url.Values{"limit": {strconv.Itoa(shownVersions)}}).Decode(ctx, kube, &list)
		versions = part(ctx, "versions", list, err)
	})
	both.Wait()
	facts := block("what Coder says of the template", "json", state(tmpl)) + "\n" + parameters + "\n" + versions
	return fmt.Sprintf(reviewTask, of.namespace, of.name, facts, files(tmpl)), nil
}

// state returns the template's metadata and status as JSON.
func state(tmpl *aggregationv1alpha1.CoderTemplate) string {
	s := tmpl.Status
	raw, err := json.MarshalIndent(map[string]any{
		"displayName": clean(tmpl.Spec.DisplayName), "description": clean(tmpl.Spec.Description), "provisionerTags": tmpl.Spec.ProvisionerTags,
		"activeVersion": s.ActiveVersionName, "newestVersion": s.LatestVersionName, "newestVersionStatus": s.LatestVersionStatus,
		"newestVersionError": clean(s.LatestVersionError), "deprecated": s.Deprecated,
	}, "", "  ")
	if err != nil {
		return "(it cannot be written as JSON)"
	}
	return toolset.CleanText(string(raw))
}

func clean(words string) string {
	const most = 1000
	return redaction.Truncate(toolset.CleanText(words), most)
}

// redactParameters redacts the values of parameters whose names are those of secrets.
func redactParameters(list *aggregationv1alpha1.CoderTemplateParameterList) {
	for i := range list.Items {
		p := &list.Items[i]
		p.DefaultValue = toolset.CleanParameter(p.Name, p.DefaultValue)
		for j := range p.Options {
			p.Options[j].Value = toolset.CleanParameter(p.Name, p.Options[j].Value)
		}
	}
	for _, preset := range list.Presets {
		for name, value := range preset.Parameters {
			preset.Parameters[name] = toolset.CleanParameter(name, value)
		}
	}
}

func (of subject) subresource(name string, query url.Values) toolset.Subresource {
	return toolset.Aggregated("codertemplates", of.namespace, of.name, name, query)
}

// part returns a block with the content of a subresource, or a line that says why it is
// missing.
func part(ctx context.Context, name string, answer any, err error) string {
	if call := (*toolset.CallError)(nil); errors.As(err, &call) {
		return fmt.Sprintf("The %s are missing here: %s.\n", name, toolset.Gap(ctx, call))
	}
	raw, err := json.MarshalIndent(answer, "", "  ")
	if err != nil {
		return fmt.Sprintf("The %s are missing here: they cannot be written as JSON.\n", name)
	}
	words, note := toolset.CleanText(string(raw)), ""
	if len(words) > mostPartBytes {
		words, note = strings.ToValidUTF8(words[:mostPartBytes], ""), ", of which the end is left out"
	}
	return block("its "+name+note, "json", words)
}

// files returns blocks with the files of a template: Terraform first, then the rest by
// name, up to mostFileBytes. It lists the files that are left out.
func files(tmpl *aggregationv1alpha1.CoderTemplate) string {
	if len(tmpl.Spec.Files) == 0 {
		size := ""
		if source := tmpl.Status.Source; source != nil {
			size = fmt.Sprintf(" It has %d files of %d bytes.", source.FileCount, source.SizeBytes)
		}
		return "The files are not shown here, because they are too large or no text." + size + " Ask the person for the ones that matter.\n"
	}
	paths := slices.Sorted(maps.Keys(tmpl.Spec.Files))
	slices.SortStableFunc(paths, func(a, b string) int { return cmp.Compare(order(a), order(b)) })
	var out strings.Builder
	var left []string
	room := mostFileBytes
	for _, path := range paths {
		content := toolset.CleanSource(path, tmpl.Spec.Files[path])
		what := fmt.Sprintf("file %q", clean(path))
		if len(content) > room {
			left = append(left, fmt.Sprintf("%q (%d bytes)", clean(path), len(content)))
			if order(path) > 0 || room == 0 {
				continue
			}
			// For the most important Terraform files, a part is better than nothing.
			what, content = "the beginning of "+what, strings.ToValidUTF8(content[:room], "")
		}
		room -= len(content)
		out.WriteString(block(what, language(path), content))
		out.WriteString("\n")
	}
	if len(left) > 0 {
		const most = 20
		fmt.Fprintf(&out, "%d files are left out or cut, because there is no more room: %s.\n", len(left), strings.Join(left[:min(len(left), most)], ", "))
	}
	return out.String()
}

// order sorts Terraform files of the root directory first.
func order(path string) int {
	switch {
	case isTerraform(path) && !strings.Contains(path, "/"):
		return 0
	case isTerraform(path):
		return 1
	default:
		return 2
	}
}

func language(path string) string {
	if isTerraform(path) {
		return "hcl"
	}
	return ""
}

func isTerraform(path string) bool { return strings.HasSuffix(path, ".tf") }

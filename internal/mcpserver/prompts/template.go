package prompts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/access"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/text"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/truncate"
)

const (
	// mostFileBytes is how much of a template's files is told, all together.
	mostFileBytes = 48 << 10
	// mostPartBytes bounds the versions, and the parameters.
	mostPartBytes = 8 << 10
	// mostAnswerBytes bounds what is read of an answer.
	mostAnswerBytes = 1 << 20
	shownVersions   = 10
	// timeLimit is how long a template is read.
	timeLimit = 8 * time.Second
)

const reviewTask = `Review the Coder template %s/%s. Look for: mistakes in the Terraform; workspaces that lose data when they stop or are rebuilt;
resources without limits; privileges, host mounts and secrets in the source; parameters without a default, a description or a
validation; providers and modules without a version; an agent that cannot start. For each finding name the file and the line, say what
happens, and show the change. Begin with what matters most. Do not push a version before the person who asks has agreed.
%s
%s`

// templateRights are what review_template needs, and what makes it fuller.
func templateRights() (needs, uses []access.Right) {
	return []access.Right{access.Aggregated("get", "codertemplates")},
		[]access.Right{access.Aggregated("get", "codertemplates/parameters"), access.Aggregated("get", "codertemplates/versions")}
}

// reviewTemplate asks for a review of a template. Parameters and versions that cannot
// be read are named, and missing.
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
		parameters = part[aggregationv1alpha1.CoderTemplateParameterList](ctx, kube, of, "parameters", nil)
	})
	both.Go(func() {
		versions = part[aggregationv1alpha1.CoderTemplateVersionList](ctx, kube, of, "versions", url.Values{"limit": {strconv.Itoa(shownVersions)}})
	})
	both.Wait()
	facts := block("what Coder says of the template", "json", state(tmpl)) + "\n" + parameters + "\n" + versions
	return fmt.Sprintf(reviewTask, of.namespace, of.name, facts, files(tmpl)), nil
}

// state is what matters of the template besides its files.
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
	return text.Clean(string(raw))
}

func clean(words string) string {
	const most = 1000
	return truncate.String(text.Clean(words), most)
}

// part is a block with the answer of a subresource, or a line that says why there is
// none.
func part[T any](ctx context.Context, kube *callers.Kube, of subject, name string, query url.Values) string {
	path := callers.SubresourcePath(aggregationv1alpha1.GroupVersion, of.namespace, "codertemplates", of.name, name)
	var answer T
	err := read(ctx, kube, path, query, &answer)
	if err != nil {
		gap := toolset.Gap(ctx, &toolset.CallError{
			Verb: "get", Resource: "codertemplates/" + name, Namespace: of.namespace, Name: of.name, Err: err,
		})
		return fmt.Sprintf("The %s are missing here: %s.\n", name, gap)
	}
	raw, err := json.MarshalIndent(answer, "", "  ")
	if err != nil {
		return fmt.Sprintf("The %s are missing here: they cannot be written as JSON.\n", name)
	}
	words, note := text.Clean(string(raw)), ""
	if len(words) > mostPartBytes {
		words, note = strings.ToValidUTF8(words[:mostPartBytes], ""), ", of which the end is left out"
	}
	return block("its "+name+note, "json", words)
}

func read(ctx context.Context, kube *callers.Kube, path string, query url.Values, into any) error {
	body, err := kube.Raw.Get(ctx, path, query)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, mostAnswerBytes)).Decode(into); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}

// files are blocks with the files of a template: Terraform first, the rest by name,
// as far as there is room. What is left out is named.
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
		content := text.Clean(tmpl.Spec.Files[path])
		what := fmt.Sprintf("file %q", clean(path))
		if len(content) > room {
			left = append(left, fmt.Sprintf("%q (%d bytes)", clean(path), len(content)))
			if order(path) > 0 || room == 0 {
				continue
			}
			// Of the Terraform that matters most, the beginning is better than nothing.
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

// order puts the Terraform of the root first.
func order(path string) int {
	switch {
	case strings.HasSuffix(path, ".tf") && !strings.Contains(path, "/"):
		return 0
	case strings.HasSuffix(path, ".tf"):
		return 1
	default:
		return 2
	}
}

func language(path string) string {
	if strings.HasSuffix(path, ".tf") {
		return "hcl"
	}
	return ""
}

package resources

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (w *world) complete(t *testing.T, ref mcp.CompleteReference, argument, typed string, before map[string]string) (*mcp.CompletionResultDetails, error) {
	t.Helper()
	result, err := w.connect(t).Complete(t.Context(), &mcp.CompleteParams{
		Ref: &ref, Argument: mcp.CompleteParamsArgument{Name: argument, Value: typed}, Context: &mcp.CompleteContext{Arguments: before},
	})
	if err != nil {
		return nil, err
	}
	return &result.Completion, nil
}

func ofTemplate(uri string) mcp.CompleteReference {
	return mcp.CompleteReference{Type: "ref/resource", URI: uri}
}
func ofPrompt(name string) mcp.CompleteReference {
	return mcp.CompleteReference{Type: "ref/prompt", Name: name}
}

func TestComplete(t *testing.T) {
	w := newWorld(t,
		newControlPlane("coder", "prod"), newControlPlane("coder", "preview"), newControlPlane("dev", "test"),
		newWorkspace("coder", "coder.ada.dev"), newWorkspace("coder", "coder.bob.dev"), newWorkspace("team", "coder.ada.dev"),
		newTemplate("coder", "coder.small", map[string]string{"main.tf": "", "modules/a.tf": "", "modules/b.tf": "", "modules/c.tf": "", "modules/d.tf": "", "modules/e.tf": "", "modules/f.tf": "", "modules/g.tf": ""}))
	in := func(namespace string) map[string]string { return map[string]string{"namespace": namespace} }
	const workspace, file = "coder://workspaces/{namespace}/{name}", "coder://templates/{namespace}/{name}/files/{+path}"
	for name, c := range map[string]struct {
		ref             mcp.CompleteReference
		argument, typed string
		before          map[string]string
		want            []string
	}{
		"namespaces":                  {ofTemplate("coder://controlplanes/{namespace}"), "namespace", "", nil, []string{"coder", "dev"}},
		"namespaces of others":        {ofTemplate(workspace), "namespace", "", nil, []string{"coder", "team"}},
		"namespaces that begin so":    {ofTemplate(workspace), "namespace", "te", nil, []string{"team"}},
		"namespaces for a prompt":     {ofPrompt("diagnose_control_plane"), "namespace", "d", nil, []string{"dev"}},
		"names of all namespaces":     {ofTemplate(workspace), "name", "coder.a", nil, []string{"coder.ada.dev"}},
		"names of a namespace":        {ofTemplate(workspace), "name", "", in("coder"), []string{"coder.ada.dev", "coder.bob.dev"}},
		"names of an empty namespace": {ofTemplate(workspace), "name", "", in("none"), []string{}},
		"names for a part":            {ofTemplate("coder://controlplanes/{namespace}/{name}/pods"), "name", "pr", in("coder"), []string{"preview", "prod"}},
		"names for a prompt":          {ofPrompt("diagnose_workspace"), "name", "coder.b", in("coder"), []string{"coder.bob.dev"}},
		"templates for a prompt":      {ofPrompt("review_template"), "name", "", nil, []string{"coder.small"}},
		"files": {ofTemplate(file), "path", "modules/", map[string]string{"namespace": "coder", "name": "coder.small"}, []string{
			"modules/a.tf", "modules/b.tf", "modules/c.tf", "modules/d.tf", "modules/e.tf", "modules/f.tf", "modules/g.tf",
		}},
		"files of none":                  {ofTemplate(file), "path", "", map[string]string{"namespace": "coder", "name": "coder.none"}, []string{}},
		"files of what is not yet known": {ofTemplate(file), "path", "", in("coder"), []string{}},
		"files of what has none":         {ofTemplate(workspace), "path", "", map[string]string{"namespace": "coder", "name": "coder.ada.dev"}, []string{}},
		"of another prompt":              {ofPrompt("other"), "namespace", "", nil, []string{}},
		"of another resource":            {ofTemplate("coder://secrets/{namespace}"), "namespace", "", nil, []string{}},
		"of another argument":            {ofTemplate(workspace), "color", "", nil, []string{}},
	} {
		got, err := w.complete(t, c.ref, c.argument, c.typed, c.before)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got.Values); diff != "" || got.HasMore {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCompletionIsBounded(t *testing.T) {
	w := newWorld(t)
	for i := range 120 {
		w.objects = append(w.objects, newControlPlane("coder", fmt.Sprintf("cp-%03d", i)))
	}
	got, err := w.complete(t, ofPrompt("diagnose_control_plane"), "name", "cp-", nil)
	if err != nil || len(got.Values) != maxCompletions || !got.HasMore || got.Total != 120 || !slices.IsSorted(got.Values) {
		t.Errorf("%d of %d values, more %t, %v", len(got.Values), got.Total, got.HasMore, err)
	}
	pages := 0
	w.funcs.List = func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		options := (&client.ListOptions{}).ApplyOptions(opts)
		if options.Limit != completionPage || options.Continue != strings.Repeat("n", pages) {
			t.Errorf("page %d: %+v", pages, options)
		}
		pages++
		list.SetContinue(strings.Repeat("n", pages))
		return nil
	}
	got, err = w.complete(t, ofPrompt("diagnose_control_plane"), "name", "", nil)
	if err != nil || pages != completionPages || !got.HasMore || len(got.Values) != 0 {
		t.Errorf("%d pages, %+v, %v", pages, got, err)
	}
}

// The metadata client inserts the namespace into the path without escaping.
func TestNothingIsAskedForWithANameThatIsAPath(t *testing.T) {
	w := newWorld(t)
	w.funcs.List = func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		t.Error("the API is asked for a list")
		return nil
	}
	for _, hostile := range []string{"../../secrets/x", "..", "a/b", "a%2fb"} {
		for argument, before := range map[string]map[string]string{
			"name": {"namespace": hostile}, "path": {"namespace": "coder", "name": hostile},
		} {
			got, err := w.complete(t, ofTemplate("coder://templates/{namespace}/{name}/files/{+path}"), argument, "", before)
			if err != nil || len(got.Values) != 0 {
				t.Errorf("%s of %v: %+v, %v", argument, before, got, err)
			}
		}
	}
}

func TestCompletionErrors(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"forbidden":   {forbidden("codercontrolplanes", ""), ""},
		"not served":  {notFound("codercontrolplanes", ""), ""},
		"unavailable": {apierrors.NewServiceUnavailable("later"), "cannot list codercontrolplanes in all namespaces now"},
	} {
		w := newWorld(t)
		w.funcs.List = func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return c.err }
		got, err := w.complete(t, ofPrompt("diagnose_control_plane"), "namespace", "", nil)
		switch {
		case c.want == "" && (err != nil || len(got.Values) != 0):
			t.Errorf("%s: %+v, %v", name, got, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

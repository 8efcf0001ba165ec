package template

import (
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// read sends a request to a subresource as the server does.
func (f *fixture) read(subresource, name, query string) (runtime.Object, error) {
	f.t.Helper()
	values, err := url.ParseQuery(query)
	f.must(err)
	s, _ := registry.NewScheme(AddToScheme)
	storage := f.kind.Subresources(oneStore{f})[subresource].(rest.GetterWithOptions)
	options, _, _ := storage.NewGetOptions()
	if err := runtime.NewParameterCodec(s).DecodeParameters(values, aggregationv1alpha1.GroupVersion, options); err != nil {
		return nil, err
	}
	return storage.Get(f.ctx, name, options)
}

// foreign returns the ID of a version of another template.
func (f *fixture) foreign() string {
	return f.coder.AddTemplateVersion(f.coder.AddTemplate("coder", "other", nil), "", nil).String()
}

// refuses sends requests that the subresource must reject.
func (f *fixture) refuses(subresource string, cases map[string]func(error) bool) {
	f.t.Helper()
	for query, right := range cases {
		_, err := f.read(subresource, "coder.starter", query)
		if !right(err) {
			f.t.Errorf("%s?%s: %v", subresource, query, err)
		}
		if apierrors.IsNotFound(err) && !strings.Contains(err.Error(), `is not a version of template "coder.starter"`) {
			f.t.Errorf("%s?%s does not say what is missing: %v", subresource, query, err)
		}
	}
	if _, err := f.read(subresource, "coder.none", ""); !apierrors.IsNotFound(err) {
		f.t.Errorf("%s of a template that there is not: %v", subresource, err)
	}
	defer f.coder.Fail(coderdtest.Fault{Status: 502})()
	if _, err := f.read(subresource, "coder.starter", ""); !apierrors.IsServiceUnavailable(err) {
		f.t.Errorf("%s of a Coder that does not answer: %v", subresource, err)
	}
}

const asking = `
data "coder_parameter" "size" {
  name         = "size"
  display_name = "Size"
  description  = "How *big*"
  type         = "number"
  form_type    = "slider"
  default      = "2"
  mutable      = true
  validation {
    min       = 0
    max       = 10
    monotonic = "increasing"
    error     = "0 to 10"
  }
}
data "coder_parameter" "region" {
  name      = "region"
  ephemeral = true
  option {
    name        = "Europe"
    value       = "eu"
    description = "Near"
  }
}
data "coder_workspace_preset" "big" {
  name        = "Big"
  description = "for builds"
  default     = true
  parameters  = {
    size   = "8"
    region = "eu"
  }
}
`

func TestParameters(t *testing.T) {
	f := newFixture(t)
	first := f.get("coder.starter").Status.ActiveVersionID
	version := f.coder.AddTemplateVersion(f.starter, "", map[string]string{mainTF: asking})
	f.must(f.watcher.SetActiveVersion(f.ctx, f.starter, version))
	want := &aggregationv1alpha1.CoderTemplateParameterList{
		VersionID: version.String(),
		Items: []aggregationv1alpha1.CoderTemplateParameter{
			{
				Name: "region", Type: "string", FormType: "radio", Required: true, Ephemeral: true,
				Options: []aggregationv1alpha1.CoderTemplateParameterOption{{Name: "Europe", Value: "eu", Description: "Near"}},
			},
			{
				Name: "size", DisplayName: "Size", Description: "How *big*", Type: "number", FormType: "slider", DefaultValue: "2", Mutable: true,
				Validation: &aggregationv1alpha1.CoderTemplateParameterValidation{
					Min: ptr.To[int32](0), Max: ptr.To[int32](10), Monotonic: "increasing", Error: "0 to 10",
				},
			},
		},
		Presets: []aggregationv1alpha1.CoderTemplatePreset{
			{Name: "Big", Description: "for builds", Default: true, Parameters: map[string]string{"size": "8", "region": "eu"}},
		},
	}
	// The mirror has not seen yet that another version is active.
	got, err := f.read("parameters", "coder.starter", "")
	f.must(err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
	got, err = f.read("parameters", "coder.starter", "version="+first)
	f.must(err)
	want = &aggregationv1alpha1.CoderTemplateParameterList{VersionID: first, Items: []aggregationv1alpha1.CoderTemplateParameter{}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("of the first version (-want +got):\n%s", diff)
	}
	f.refuses("parameters", map[string]func(error) bool{
		"version=x": apierrors.IsBadRequest, "version=" + f.foreign(): apierrors.IsNotFound, "version=" + uuid.NewString(): apierrors.IsNotFound,
	})
}

func TestParametersOfWhatIsNotBuilt(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	f.must(f.update("coder.starter", files(asking)))
	f.pass()
	newest := func() string {
		versions, err := f.watcher.TemplateVersions(f.ctx, f.starter)
		f.must(err)
		return versions[len(versions)-1].ID.String()
	}
	_, err := f.read("parameters", "coder.starter", "version="+newest())
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "is pending; its parameters are known after it has succeeded") {
		t.Errorf("while it is built: %v", err)
	}
	f.must(f.watcher.CancelVersion(f.ctx, uuid.MustParse(newest())))
	f.coder.FinishBuilds()
	_, err = f.read("parameters", "coder.starter", "version="+newest())
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "is canceled, so its parameters are not known") {
		t.Errorf("after it was cancelled: %v", err)
	}
}

func (f *fixture) readLog(query string) string {
	f.t.Helper()
	obj, err := f.read("log", "coder.starter", query)
	f.must(err)
	stream, _, _, err := obj.(rest.ResourceStreamer).InputStream(f.ctx, "", "")
	f.must(err)
	defer func() { _ = stream.Close() }()
	text, err := io.ReadAll(stream)
	f.must(err)
	return string(text)
}

func TestLog(t *testing.T) {
	f := newFixture(t)
	first := f.get("coder.starter").Status.ActiveVersionID
	second := f.coder.AddTemplateVersion(f.starter, "", nil)
	f.coder.WriteLog(uuid.MustParse(first), "Plan", "of the first")
	f.coder.WriteLog(second, "Plan", "of the second")
	for query, want := range map[string]string{
		"": "[Plan] of the second\n", "follow=true": "[Plan] of the second\n", "version=" + first: "[Plan] of the first\n",
	} {
		if got := f.readLog(query); !strings.HasSuffix(got, want) || strings.Count(got, "\n") != 1 {
			t.Errorf("log?%s: %q, want %q", query, got, want)
		}
	}
	if got := f.readLog("after=1000000"); got != "" {
		t.Errorf("after the last line: %q", got)
	}
	f.refuses("log", map[string]func(error) bool{
		"version=x": apierrors.IsBadRequest, "version=" + f.foreign(): apierrors.IsNotFound, "version=" + uuid.NewString(): apierrors.IsNotFound,
		"follow=x": apierrors.IsBadRequest, "after=x": apierrors.IsBadRequest,
	})
}

package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// templateVersions are the versions of the template dockerName.
func templateVersions() []client.Object {
	when := metav1.NewTime(time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC))
	version := func(name string, age time.Duration, status aggregationv1alpha1.CoderTemplateVersionStatus) client.Object {
		status.Template, status.VersionName, status.CreatedAt = dockerName, name, metav1.NewMicroTime(when.Add(-age))
		return &aggregationv1alpha1.CoderTemplateVersion{ObjectMeta: metav1.ObjectMeta{
			Name: dockerName + "." + name, Namespace: "coder", CreationTimestamp: metav1.NewTime(when.Add(-age)),
		}, Status: status}
	}
	return []client.Object{
		version("v1", time.Hour, aggregationv1alpha1.CoderTemplateVersionStatus{ID: activeID, Message: "first", JobStatus: "succeeded", Active: true}),
		version("v2", 0, aggregationv1alpha1.CoderTemplateVersionStatus{ID: newID, JobStatus: "failed", Error: "no provider", CreatedBy: "ada"}),
	}
}

func templateParameters() aggregationv1alpha1.CoderTemplateParameterList {
	return aggregationv1alpha1.CoderTemplateParameterList{
		VersionID: activeID,
		Items: []aggregationv1alpha1.CoderTemplateParameter{{
			Name: "cpu", Description: "how many", Type: "number", DefaultValue: "2", Mutable: true,
			Options:    []aggregationv1alpha1.CoderTemplateParameterOption{{Name: "Two", Value: "2"}, {Name: "Four", Value: "4"}},
			Validation: &aggregationv1alpha1.CoderTemplateParameterValidation{Min: ptr.To[int32](1), Max: ptr.To[int32](8), Monotonic: "increasing"},
		}, {
			Name: "region", Type: "string", Required: true, Validation: &aggregationv1alpha1.CoderTemplateParameterValidation{Regex: "^[a-z]+$"},
		}, {
			Name: "db_password", Type: "string", DefaultValue: "hunter2x", Options: []aggregationv1alpha1.CoderTemplateParameterOption{{Name: "Old", Value: "hunter1x"}},
		}},
		Presets: []aggregationv1alpha1.CoderTemplatePreset{{Name: "large", Parameters: map[string]string{"cpu": "8"}}},
	}
}

func TestGetTemplateTellsItAllButFilesAndValues(t *testing.T) {
	tmpl := dockerTemplate()
	tmpl.Spec.Description, tmpl.Spec.DefaultTTLMillis = "for all", ptr.To[int64](3600_000)
	tmpl.Spec.ProvisionerTags = map[string]string{"zone": "a"}
	tmpl.Spec.Variables = []aggregationv1alpha1.TemplateVariable{
		{Name: "image", Value: "plain-value"},
		{Name: "password", ValueFrom: &aggregationv1alpha1.TemplateVariableSource{SecretKeyRef: &aggregationv1alpha1.SecretKeySelector{Name: "registry", Key: "password"}}},
	}
	tmpl.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Active", Message: "active"}}
	kube := fakeKube(t, interceptor.Funcs{}, rawTexts{
		templatePath + "/parameters": asJSON(t, templateParameters()),
	}, append(templateVersions(), tmpl)...)
	out, err := getTemplate(t.Context(), &toolset.Call{Kube: kube}, getTemplateInput{Namespace: "coder", Name: dockerName})
	if err != nil {
		t.Fatal(err)
	}
	want := templateDetails{
		template: template{
			Name: dockerName, Namespace: "coder", DisplayName: "Docker", Organization: "coder", ActiveVersion: "v1", ActiveVersionID: activeID,
			LatestVersion: "v1", LatestVersionID: activeID, LatestVersionStatus: "succeeded",
		},
		ControlPlane: "coder", Description: "for all", DefaultTTL: "1h0m0s", FileCount: 1, SizeBytes: 8,
		Conditions: []condition{{Type: "Ready", Status: "True", Reason: "Active", Message: "active"}},
		Files:      []templateFile{{Path: "main.tf", Bytes: 8}},
		Variables:  []templateVariable{{Name: "image"}, {Name: "password", Secret: "registry/password"}},
		Tags:       map[string]string{"zone": "a"},
		Parameters: []templateParameter{
			{Name: "cpu", Description: "how many", Type: "number", DefaultValue: "2", Mutable: true, Options: []string{"2", "4"}, Validation: "min 1, max 8, increasing"},
			{Name: "region", Type: "string", Required: true, Validation: "matches ^[a-z]+$"},
			{Name: "db_password", Type: "string", DefaultValue: "[redacted]", Options: []string{"[redacted]"}},
		},
		Presets: []string{"large"},
		Versions: []templateVersion{
			{ID: newID, Name: "v2", Status: "failed", Error: "no provider", CreatedAt: "2026-05-01T10:00:00Z", CreatedBy: "ada"},
			{ID: activeID, Name: "v1", Message: "first", Status: "succeeded", Active: true, CreatedAt: "2026-05-01T09:00:00Z"},
		},
	}
	wantEqual(t, want, out.Template, cmp.AllowUnexported(templateDetails{}))
	if all := asJSON(t, out); strings.Contains(all, "plain-value") || strings.Contains(all, "before") {
		t.Errorf("a value or a file is shown: %s", all)
	}
}

// refusing is a Getter that returns an error for every request.
type refusing struct{ err error }

func (r refusing) Get(context.Context, string, url.Values) (io.ReadCloser, error) { return nil, r.err }

func TestGetTemplateWithoutItsParts(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"forbidden":   {forbidden("codertemplates/parameters"), `could not read codertemplates/parameters.aggregation.coder.com coder/coder.docker: user "" may not get codertemplates/parameters.aggregation.coder.com`},
		"not served":  {apierrors.NewNotFound(aggregationv1alpha1.Resource("codertemplates"), "x"), "could not read codertemplates/parameters.aggregation.coder.com coder/coder.docker: this cluster does not serve it"},
		"unavailable": {apierrors.NewServiceUnavailable("dial tcp 10.0.0.1: refused"), "could not read codertemplates/parameters.aggregation.coder.com coder/coder.docker: it is not available now: dial tcp (address): refused"},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fakeKube(t, interceptor.Funcs{}, nil, dockerTemplate())
			kube.Raw = refusing{tt.err}.Get
			out, err := getTemplate(t.Context(), &toolset.Call{Kube: kube}, getTemplateInput{Namespace: "coder", Name: dockerName})
			if err != nil || len(out.Template.Notes) != 1 || out.Template.Notes[0] != tt.want {
				t.Errorf("the notes are %q, %v; want %q", out.Template.Notes, err, tt.want)
			}
		})
	}
	refused := interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return forbidden("codertemplateversions")
	}}
	kube := fakeKube(t, refused, rawTexts{templatePath + "/parameters": "{}"}, dockerTemplate())
	out, err := getTemplate(t.Context(), &toolset.Call{Kube: kube}, getTemplateInput{Namespace: "coder", Name: dockerName})
	if err != nil || len(out.Template.Notes) != 1 || !strings.Contains(out.Template.Notes[0], "may not list codertemplateversions.aggregation.coder.com") {
		t.Errorf("without the versions, the notes are %q, %v", out.Template.Notes, err)
	}
	kube = fakeKube(t, interceptor.Funcs{}, nil, dockerTemplate())
	kube.Raw = refusing{context.Canceled}.Get
	_, err = getTemplate(t.Context(), &toolset.Call{Kube: kube}, getTemplateInput{Namespace: "coder", Name: dockerName})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a call that is cancelled ends with %v", err)
	}
}

func TestGetTemplateIsBounded(t *testing.T) {
	tmpl := dockerTemplate()
	tmpl.Spec.Files = map[string]string{}
	for i := range shownFiles + 1 {
		tmpl.Spec.Files[fmt.Sprintf("%03d.tf", i)] = "x"
	}
	parameters := aggregationv1alpha1.CoderTemplateParameterList{}
	for i := range shownParameters + 1 {
		parameters.Items = append(parameters.Items, aggregationv1alpha1.CoderTemplateParameter{Name: fmt.Sprint(i), Options: make([]aggregationv1alpha1.CoderTemplateParameterOption, shownOptions+1)})
	}
	objects := []client.Object{tmpl}
	for i := range shownVersions + 1 {
		objects = append(objects, &aggregationv1alpha1.CoderTemplateVersion{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s.v%d", dockerName, i), Namespace: "coder",
		}, Status: aggregationv1alpha1.CoderTemplateVersionStatus{Template: dockerName}})
	}
	kube := fakeKube(t, interceptor.Funcs{}, rawTexts{templatePath + "/parameters": asJSON(t, parameters)}, objects...)
	out, err := getTemplate(t.Context(), &toolset.Call{Kube: kube}, getTemplateInput{Namespace: "coder", Name: dockerName})
	if err != nil {
		t.Fatal(err)
	}
	d := out.Template
	if len(d.Files) != shownFiles || len(d.Parameters) != shownParameters || len(d.Parameters[0].Options) != shownOptions || len(d.Versions) != shownVersions || len(d.Notes) != 3 {
		t.Errorf("%d files, %d parameters, %d versions, notes %q", len(d.Files), len(d.Parameters), len(d.Versions), d.Notes)
	}
}

// TestGetTemplateWithLongOptions checks that options and descriptions of any size leave an answer
// that a model can read, with all that fits.
func TestGetTemplateWithLongOptions(t *testing.T) {
	long := aggregationv1alpha1.CoderTemplateParameterList{Presets: make([]aggregationv1alpha1.CoderTemplatePreset, shownPresets+1)}
	for i := range 10 {
		p := aggregationv1alpha1.CoderTemplateParameter{Name: fmt.Sprint("p", i), Type: "string"}
		for range 50 {
			p.Options = append(p.Options, aggregationv1alpha1.CoderTemplateParameterOption{Value: strings.Repeat(`{"a": 1}`, 512)})
		}
		long.Items = append(long.Items, p)
	}
	short := aggregationv1alpha1.CoderTemplateParameter{Name: "short", Options: []aggregationv1alpha1.CoderTemplateParameterOption{{Value: "a"}, {Value: "b"}}}
	long.Items = append(long.Items, short)
	described := aggregationv1alpha1.CoderTemplateParameterList{}
	for range 60 {
		described.Items = append(described.Items, aggregationv1alpha1.CoderTemplateParameter{Name: "x", Description: strings.Repeat("y", 4<<10)})
	}
	for name, tt := range map[string]struct {
		list                aggregationv1alpha1.CoderTemplateParameterList
		parameters, options int
		notes               []string
	}{
		"options": {long, 11, 2, []string{
			"options of parameters: 472 are left out, and only the beginning of 28 is shown; the files of the template have them",
			"presets: 50 of 51 are shown; the files of the template have all",
		}},
		"descriptions": {described, 29, 0, []string{"parameters: 29 of 60 are shown; the files of the template have all"}},
	} {
		raw := rawTexts{templatePath + "/parameters": asJSON(t, tt.list)}
		kube := fakeKube(t, interceptor.Funcs{}, raw, dockerTemplate())
		out, err := getTemplate(t.Context(), &toolset.Call{Kube: kube}, getTemplateInput{Namespace: "coder", Name: dockerName})
		if err != nil {
			t.Fatal(err)
		}
		d := out.Template
		if size := len(asJSON(t, out)); size > 64<<10 || len(d.Parameters) != tt.parameters || len(d.Parameters[tt.parameters-1].Options) != tt.options {
			t.Errorf("%s: %d bytes, %d parameters: %+v", name, size, len(d.Parameters), d.Parameters[len(d.Parameters)-1])
		}
		wantEqual(t, tt.notes, d.Notes)
	}
}

func TestTemplatesThatAreBareHaveNoNull(t *testing.T) {
	bare := &aggregationv1alpha1.CoderTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: dockerName}}
	raw := rawTexts{templatesPath: `{"items":null}`, templatePath + "/parameters": `{"items":null}`}
	s := connectTools(t, toolset.Env{Kube: fakeKube(t, interceptor.Funcs{}, raw, bare)})
	object := map[string]any{"namespace": "coder", "name": dockerName}
	for tool, arguments := range map[string]map[string]any{"get_template": object, "list_templates": {}} {
		if answer, isError := s.say(t, tool, arguments); isError || strings.Contains(answer, "null") {
			t.Errorf("%s answers %s", tool, answer)
		}
	}
}

func TestSetTemplateRunningIsHonest(t *testing.T) {
	for _, running := range []bool{true, false} {
		kube := fakeKube(t, refuseWrites(t), nil, dockerTemplate())
		out, err := setTemplateRunning(t.Context(), &toolset.Call{Kube: kube}, setTemplateRunningInput{Namespace: "coder", Name: dockerName, Running: running})
		if err != nil || out.Updated || out.Template.Running || out.Template.Name != dockerName || !strings.Contains(out.Message, "templates have no run state") {
			t.Errorf("the answer is %+v, %v", out, err)
		}
	}
	_, err := setTemplateRunning(t.Context(), &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, nil)}, setTemplateRunningInput{Namespace: "coder", Name: dockerName})
	wantError(t, err, `"coder.docker" not found`)
}

package tools

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func TestGetTemplateShowsRequestedFiles(t *testing.T) {
	source := map[string]string{
		"main.tf": "a = 1\n", "modules/x/main.tf": "b = 2\n", "secret.tf": `password = "hunter22"` + "\n", "README.md": "# Docker\n", "[odd": "odd\n",
	}
	for name, tt := range map[string]struct {
		patterns []string
		want     string
		note     string
	}{
		"none":          {nil, "", ""},
		"by path":       {[]string{"main.tf", "README.md"}, "README.md main.tf modules/x/main.tf", ""},
		"by pattern":    {[]string{"modules/*/*.tf"}, "modules/x/main.tf", ""},
		"all":           {[]string{"*"}, "README.md [odd main.tf modules/x/main.tf secret.tf", "differ from the source"},
		"a bad pattern": {[]string{"[odd"}, "[odd", ""},
		"none of them":  {[]string{"mian.tf"}, "", `no file matches "mian.tf"`},
	} {
		t.Run(name, func(t *testing.T) {
			tmpl := dockerTemplate()
			tmpl.Spec.Files = source
			kube := fakeKube(t, interceptor.Funcs{}, rawTexts{templatePath + "/parameters": `{}`}, tmpl)
			out, err := getTemplate(t.Context(), &toolset.Call{Kube: kube}, getTemplateInput{Namespace: "coder", Name: dockerName, Files: tt.patterns})
			if err != nil || len(out.Template.Files) != len(source) {
				t.Fatalf("the answer is %+v, %v", out, err)
			}
			var shown []string
			for _, file := range out.Template.Files {
				want, redacted := source[file.Path], file.Path == "secret.tf"
				if redacted {
					want = `password = "[redacted]"` + "\n"
				}
				if file.Text == "" {
					continue
				}
				shown = append(shown, file.Path)
				if file.Text != want || file.Redacted != redacted {
					t.Errorf("file %s is %q, redacted %t", file.Path, file.Text, file.Redacted)
				}
			}
			if got := strings.Join(shown, " "); got != tt.want {
				t.Errorf("shown are %s, want %s", got, tt.want)
			}
			if notes := strings.Join(out.Template.Notes, "\n"); (notes == "") != (tt.note == "") || !strings.Contains(notes, tt.note) {
				t.Errorf("the notes are %s", notes)
			}
		})
	}
}

func TestGetTemplateShowsABoundedText(t *testing.T) {
	tmpl := dockerTemplate()
	tmpl.Spec.Files = map[string]string{}
	for i := range shownFiles {
		tmpl.Spec.Files[fmt.Sprintf("%03d", i)] = "x"
	}
	tmpl.Spec.Files["big.tf"] = strings.Repeat("x", maxSourceBytes-9)
	tmpl.Spec.Files["small.tf"], tmpl.Spec.Files["tiny.tf"] = "0123456789", "012345678"
	details := describeTemplateDetails(tmpl)
	details.addFiles(tmpl, []string{"*.tf"})
	texts := 0
	for _, file := range details.Files {
		texts += len(file.Text)
	}
	if len(details.Files) != shownFiles+3 || texts != maxSourceBytes || len(details.Notes) != 1 || !strings.HasSuffix(details.Notes[0], "request fewer files: small.tf") {
		t.Errorf("%d files, %d bytes, notes %q", len(details.Files), texts, details.Notes)
	}
}

func TestPushTemplateChangesOneFile(t *testing.T) {
	for name, tt := range map[string]struct {
		change    func(*pushTemplateInput)
		want      map[string]string
		wantError string
	}{
		"and keeps the others": {func(in *pushTemplateInput) { in.KeepFiles = true }, map[string]string{"main.tf": "# after", "x.tf": "", "old.tf": "x [redacted]", "README.md": "# Docker"}, ""},
		"and removes one":      {func(in *pushTemplateInput) { in.RemoveFiles = []string{"old.tf"} }, map[string]string{"main.tf": "# after", "x.tf": "", "README.md": "# Docker"}, ""},
		"or only removes one":  {func(in *pushTemplateInput) { in.Files, in.RemoveFiles = nil, []string{"old.tf"} }, map[string]string{"main.tf": "# before", "README.md": "# Docker"}, ""},
		"or replaces all":      {func(*pushTemplateInput) {}, pushed().Files, ""},
		"but none as it was read": {func(in *pushTemplateInput) {
			in.KeepFiles, in.Files = true, map[string]string{"main.tf": "[redacted]"}
		}, nil, `file "main.tf" contains [redacted]`},
		"but removes none that is not there": {func(in *pushTemplateInput) { in.RemoveFiles = []string{"gone.tf"} }, nil, `template coder.docker has no file "gone.tf" to remove`},
		"but removes none that it changes":   {func(in *pushTemplateInput) { in.RemoveFiles = []string{"main.tf"} }, nil, `file "main.tf" is in files and in removeFiles`},
		"but leaves one": {func(in *pushTemplateInput) {
			in.Files, in.RemoveFiles = nil, []string{"main.tf", "old.tf", "README.md"}
		}, nil, "would have no file left"},
	} {
		t.Run(name, func(t *testing.T) {
			tmpl := dockerTemplate()
			tmpl.Spec.Files = map[string]string{"main.tf": "# before", "old.tf": "x [redacted]", "README.md": "# Docker"}
			kube := fakeKube(t, interceptor.Funcs{}, nil, tmpl)
			in := pushed()
			tt.change(&in)
			_, err := pushTemplate(t.Context(), &toolset.Call{Kube: kube}, in)
			want := tt.want
			if tt.wantError != "" {
				want = tmpl.Spec.Files
				wantError(t, err, tt.wantError)
			} else if err != nil {
				t.Error(err)
			}
			wantEqual(t, want, served(t, kube, dockerName, &aggregationv1alpha1.CoderTemplate{}).Spec.Files)
		})
	}
}

// Otherwise the files that the API does not show would be lost.
func TestPushTemplateKeepsNoFilesThatItCannotRead(t *testing.T) {
	tmpl := dockerTemplate()
	tmpl.Spec.Files, tmpl.Status.Source = nil, &aggregationv1alpha1.TemplateSource{FileCount: 300, SizeBytes: 3 << 20}
	in := pushed()
	in.KeepFiles = true
	kube := fakeKube(t, refuseWrites(t), nil, tmpl)
	_, err := pushTemplate(t.Context(), &toolset.Call{Kube: kube}, in)
	wantError(t, err, "so the others cannot be kept: give the whole source in files")
	details := templateDetails{}
	details.addFiles(tmpl, []string{"*"})
	if len(details.Notes) != 1 || !strings.Contains(details.Notes[0], "FilesAvailable") {
		t.Errorf("the notes are %q", details.Notes)
	}
}

func TestPushTemplateKeepsNoFilesThatWereHiddenMeanwhile(t *testing.T) {
	hide := func(obj client.Object) { obj.(*aggregationv1alpha1.CoderTemplate).Spec.Files = nil }
	kube := fakeKube(t, failingUpdates(hide, conflict("codertemplates")), nil, dockerTemplate())
	in := pushed()
	in.KeepFiles = true
	_, err := pushTemplate(t.Context(), &toolset.Call{Kube: kube}, in)
	wantError(t, err, "another client replaced the source of template coder.docker in the meantime")
	wantEqual(t, nil, served(t, kube, dockerName, &aggregationv1alpha1.CoderTemplate{}).Spec.Files)
}

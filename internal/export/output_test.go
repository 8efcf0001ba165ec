package export

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// Names from an untrusted Coder cannot be used to write outside of the directory.
func TestNamesOfStrangersStayInTheDirectory(t *testing.T) {
	for _, meta := range []metav1.ObjectMeta{
		{Name: "../../evil"}, {Name: "a/evil"}, {Name: ".."}, {Namespace: "../..", Name: "evil"},
	} {
		root := t.TempDir()
		o := options{output: filepath.Join(root, "a", "b"), allNamespaces: meta.Namespace != ""}
		if err := o.write([]manifest{newManifest("CoderTemplate", "templates", meta)}); err == nil {
			t.Errorf("%s/%s is written", meta.Namespace, meta.Name)
		}
		found, err := filepath.Glob(filepath.Join(root, "*", "*", "*.yaml"))
		above, aboveErr := filepath.Glob(filepath.Join(root, "*.yaml"))
		if err != nil || aboveErr != nil || len(found)+len(above) > 0 {
			t.Errorf("%s/%s: %v %v", meta.Namespace, meta.Name, found, above)
		}
		if _, err := os.Stat(filepath.Join(root, "evil.yaml")); err == nil {
			t.Errorf("%s/%s is written above the directory", meta.Namespace, meta.Name)
		}
	}
}

// Text in a comment never ends the comment.
func TestCommentsStayComments(t *testing.T) {
	m := newManifest("CoderTemplate", "templates", metav1.ObjectMeta{Name: "a.b"})
	for _, end := range []string{"\n", "\r", "\r\n", "\u0085", "\u2028", "\u2029"} {
		m.comments = []string{"one" + end + "kind: Secret"}
		text, err := m.bytes()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "# one\n# kind: Secret\napiVersion: ") {
			t.Errorf("%q gives %q", end, text)
		}
	}
}

func TestTheReportOperatesNoTerminal(t *testing.T) {
	r := &report{}
	r.leave("template %s", "\x1b]0;owned\a")
	r.note("template %s", "a\nleft out: all")
	if got, want := r.String(), "left out: template ]0;owned\nnote: template a left out: all\n"; got != want {
		t.Errorf("the report is %q, want %q", got, want)
	}
}

func TestNamesOfSecrets(t *testing.T) {
	var parameters []aggregationv1alpha1.WorkspaceParameter
	variables := aggregationv1alpha1.CoderTemplate{Spec: aggregationv1alpha1.CoderTemplateSpec{Files: map[string]string{}}}
	for _, name := range []string{"api_key_dev", "git_pat", "region", "token_2_ro", "wandb_key"} {
		parameters = append(parameters, aggregationv1alpha1.WorkspaceParameter{Name: name, Value: "plain"})
		variables.Spec.Files["main.tf"] += fmt.Sprintf("variable %q {}\n", name)
		variables.Spec.Variables = append(variables.Spec.Variables, aggregationv1alpha1.TemplateVariable{Name: name, Value: "plain"})
	}
	want := []string{"api_key_dev", "git_pat", "token_2_ro", "wandb_key"}
	if diff := cmp.Diff(want, secretParameters(parameters, map[string]bool{})); diff != "" {
		t.Errorf("the parameters that are withheld (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, secretVariables(variables)); diff != "" {
		t.Errorf("the variables that are withheld (-want +got):\n%s", diff)
	}
}

func TestDeclarationsIn(t *testing.T) {
	got := declarationsIn(map[string]string{
		"a.tf": `
variable "plain" { default = "x" }
variable "open" { sensitive = false }
variable "closed" {
  sensitive = true
  validation {
    condition     = length(var.closed) > 3
    error_message = "short"
  }
}
variable "unclear" { sensitive = var.plain == "x" }
data "coder_parameter" "one" {
  name    = "masked"
  styling = jsonencode({
    mask_input = true
  })
}
data "coder_parameter" "two" {
  name    = "shown"
  styling = jsonencode({ placeholder = "x" })
}
data "other" "three" { name = "masked too" }
resource "x" "y" {}
`,
		"b.tf.json":     `{"variable": {"json": {"sensitive": true}, "json_open": {}}}`,
		"broken.tf":     `variable "half" { sensitive = `,
		"modules/m.tf":  `variable "inner" {}`,
		"README.md":     "variable \"text\" {}",
		"terraform.tfv": `x = 1`,
	})
	want := declarations{
		variables: map[string]bool{"plain": false, "open": false, "closed": true, "unclear": true, "json": true, "json_open": false},
		masked:    map[string]bool{"masked": true},
	}
	delete(got.variables, "half") // The result for an incomplete file depends on the parser.
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(declarations{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

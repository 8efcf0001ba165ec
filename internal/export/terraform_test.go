package export

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

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

package redaction

import (
	"maps"
	"strings"
	"testing"
)

func TestTerraformCause(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"plan": {
			[]string{"Terraform 1.14.1", "Error: Unsupported attribute", `on main.tf line 230, in resource "docker_container" "workspace":`,
				`  230:   name = "coder-${data.coder_workspace.me.foobar}"`, "", `This object has no attribute named "foobar".`},
			`Error: Unsupported attribute on main.tf line 230, in resource "docker_container" "workspace": This object has no attribute named "foobar".`,
		},
		"values": {
			[]string{"Error: Resource precondition failed", "on main.tf line 14:", "    ├────────────────", `    │ var.key is "hunter2"`, "", "no node has the memory"},
			"Error: Resource precondition failed on main.tf line 14: no node has the memory",
		},
		"secret": {[]string{"Error: denied", "password=hunter2 was refused"}, "Error: denied password="},
		"stderr": {[]string{"╷", "│ Error: Invalid block", "│ ", "│   on broken.tf line 1:", "│    1: this", "╵", "│ Error: Another"}, "Error: Invalid block on broken.tf line 1:"},
		"none":   {[]string{"Terraform 1.14.1"}, ""},
	} {
		got := TerraformCause(func(yield func(string, string) bool) {
			for _, line := range c.lines {
				if !yield("plan", line) {
					return
				}
			}
		})
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" || strings.Contains(got, "hunter2") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := TerraformCause(maps.All(map[string]string{"a": "Error: " + strings.Repeat("x", 4096)})); len(got) > maxCause+len("…") {
		t.Errorf("%d bytes", len(got))
	}
}

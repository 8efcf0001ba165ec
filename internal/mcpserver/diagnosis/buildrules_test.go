package diagnosis

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// logged returns a build log in the format of the aggregated API.
func logged(stage string, lines ...string) string {
	var out strings.Builder
	for _, line := range lines {
		out.WriteString("2026-11-20T12:00:00.123456Z [" + stage + "] " + line + "\n")
	}
	return out.String()
}

var (
	// planError is the log of Coder 2.30 for a diagnostic of terraform plan -json.
	planError = logged("Setting up", "Initializing the backend...") + logged("Planning infrastructure",
		"Terraform 1.14.1", "data.coder_workspace.me: Refreshing...", "Error: Unsupported attribute",
		`on main.tf line 230, in resource "docker_container" "workspace":`,
		`  230:   name = "coder-${lower(data.coder_workspace.me.foobar)}"`, "",
		`This object has no argument, nested block, or exported attribute named "foobar".`) +
		logged("Cleaning Up", "bye")
	// startError is the log of a start that fails a precondition.
	startError = logged("Planning Infrastructure", "Plan: 0 to add, 0 to change, 0 to destroy.", "Error: Resource precondition failed",
		`on main.tf line 14, in resource "terraform_data" "node":`, `  14:       condition     = data.coder_workspace.me.name != "stuck"`,
		"    ├────────────────", `    │ data.coder_workspace.me.name is "stuck"`, "", "no node has 512 GiB of memory free") + logged("Cleaning Up", "")
	// initError is the log for the standard error of terraform init.
	initError = logged("Setting up", "╷", "│ Error: Invalid block definition", "│ ", "│   on broken.tf line 1:", "│    1: this is not Terraform",
		"│ ", "│ A block definition must have block content delimited by \"{\" and \"}\".", "╵", "╷", "│ Error: Another", "╵")
)

func TestTerraformError(t *testing.T) {
	for name, c := range map[string]struct{ log, want string }{
		"plan": {planError, `Error: Unsupported attribute
on main.tf line 230, in resource "docker_container" "workspace":
230:   name = "coder-${lower(data.coder_workspace.me.foobar)}"
This object has no argument, nested block, or exported attribute named "foobar".`},
		"init": {initError, `Error: Invalid block definition
on broken.tf line 1:
1: this is not Terraform
A block definition must have block content delimited by "{" and "}".`},
		"none":  {logged("Planning infrastructure", "Terraform 1.14.1"), ""},
		"empty": {"", ""},
		"cut":   {logged("Planning infrastructure", "Error: last line"), "Error: last line"},
		"long":  {logged("p", append([]string{"Error: long"}, strings.Fields(strings.Repeat("x ", 40))...)...), "Error: long" + strings.Repeat("\nx", 15)},
	} {
		if diff := cmp.Diff(c.want, terraformError(c.log)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFailedBuild(t *testing.T) {
	for name, c := range map[string]struct{ problem, log, what, do string }{
		"Terraform":      {"terraform plan: exit status 1", planError, "Error: Unsupported attribute on main.tf line 230", "push_template"},
		"precondition":   {"terraform plan: exit status 1", startError, `in resource "terraform_data" "node": data.coder_workspace.me.name is "stuck" no node has 512 GiB of memory free`, "push_template"},
		"init":           {"template import init error: initialize terraform: exit status 1", initError, "Error: Invalid block definition on broken.tf line 1: A block definition", "push_template"},
		"quota":          {"insufficient quota", logged("Commit quota", "This build would exceed your quota. Failing."), "owner's quota", "quota allowance"},
		"parameter":      {"missing parameter: size", "", "required parameter", "update_workspace"},
		"variable":       {"required template variables need values: [token]", "", "variable of the template", "spec.variables"},
		"reaped":         {"Coder: Build has been detected as hung for 5 minutes and has been terminated by the reaper.", "", "stopped answering", "provisioners"},
		"forbidden":      {"terraform apply: exit status 1", logged("Starting workspace", `Error: deployments.apps is forbidden: User "system:serviceaccount:coder:coder" cannot create resource "deployments" in API group "apps" in the namespace "w"`), "is forbidden", "spec.rbac.workspaceNamespaces"},
		"namespace":      {"terraform apply: exit status 1", logged("Starting workspace", `Error: namespaces "w" not found`), `namespaces "w" not found`, "create the namespace"},
		"ResourceQuota":  {"terraform apply: exit status 1", logged("Starting workspace", `Error: pods "x" is forbidden: exceeded quota: q`), "exceeded quota", "ResourceQuota"},
		"providers":      {"initialize terraform: exit status 1", logged("Setting up", "Error: Failed to query available provider packages", "Could not retrieve the list"), "Failed to query", "registry"},
		"pods":           {"terraform apply: exit status 1", logged("Starting workspace", "Error: Waiting for rollout to finish: 1 replicas wanted; 0 replicas Ready"), "Waiting for rollout", "pods of the workspace"},
		"without a log":  {"terraform plan: exit status 1", "", "terraform plan: exit status 1", "read its log"},
		"without a word": {"", "", "Coder reported no reason", "read its log"},
	} {
		what, shown, do := failedBuild(c.problem, c.log)
		if !strings.Contains(what, c.what) || !strings.Contains(do, c.do) || len(shown) > longestEvidence || len(what) > longestSentence {
			t.Errorf("%s: %q, %q, evidence %q", name, what, do, shown)
		}
	}
}

func FuzzTerraformError(f *testing.F) {
	f.Add(planError)
	f.Add(initError)
	f.Fuzz(func(t *testing.T, log string) {
		got := terraformError(log)
		if got != "" && !strings.HasPrefix(got, "Error: ") || strings.Count(got, "\n") >= 16 {
			t.Errorf("%q", got)
		}
	})
}

package export

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// direct starts a Coder with a template and a workspace, and returns the arguments for it.
func direct(t *testing.T, files map[string]string) (*coderdtest.Server, []string) {
	t.Helper()
	coder := coderdtest.New(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(coder.AddUser("root", "owner")), 0o600); err != nil {
		t.Fatal(err)
	}
	coder.AddUser("ada", "member")
	coder.AddWorkspace("ada", coder.AddTemplate("coder", "first", files), "dev")
	coder.AddTemplate("coder", "second", map[string]string{"main.tf": "# second"})
	return coder, []string{"--url", coder.URL, "--token-file", token}
}

// TestACoderItself exports all parameters except ephemeral ones.
func TestACoderItself(t *testing.T) {
	_, args := direct(t, map[string]string{"main.tf": `
data "coder_parameter" "size" {
  name = "size"
  default = "small"
  mutable = true
}
data "coder_parameter" "once" {
  name = "once"
  default = "x"
  ephemeral = true
  mutable = true
}
`})
	got := run(t, append(args, "-n", "coder")...)
	if got.code != cli.ExitOK {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
	for _, want := range []string{"name: coder.first", "name: coder.second", "name: coder.ada.dev", "- name: size\n    value: small", "namespace: coder\n"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("%q is not there:\n%s", want, got.stdout)
		}
	}
	if strings.Contains(got.stdout, "name: once\n    value") {
		t.Errorf("an ephemeral parameter is exported:\n%s", got.stdout)
	}
	if again := run(t, append(args, "-n", "coder")...); again.stdout != got.stdout {
		t.Error("a second export gives other bytes")
	}
	if without := run(t, args...); strings.Contains(without.stdout, "namespace:") {
		t.Errorf("a namespace is there although none was given:\n%s", without.stdout)
	}
}

// TestConditionalParameters exports the value of a parameter that does not exist with the default
// values of the others.
func TestConditionalParameters(t *testing.T) {
	coder, args := direct(t, nil)
	id := coder.AddWorkspace("ada", coder.AddTemplate("coder", "conditional", map[string]string{"main.tf": `
data "coder_parameter" "gpu" {
  name    = "gpu"
  default = "false"
  mutable = true
}
data "coder_parameter" "gpus" {
  count   = data.coder_parameter.gpu.value == "true" ? 1 : 0
  name    = "gpus"
  default = "1"
  mutable = true
}
`}), "trainer")
	client, err := coderd.New(coderd.Config{URL: coder.URL, Token: coder.AddUser("builder", "owner")})
	if err != nil {
		t.Fatal(err)
	}
	values := []coderd.Parameter{{Name: "gpu", Value: "true"}, {Name: "gpus", Value: "4"}}
	if _, err := client.Build(t.Context(), id, coderd.BuildRequest{Transition: coderd.TransitionStart, Parameters: values}); err != nil {
		t.Fatal(err)
	}
	got := run(t, append(args, "-n", "coder")...)
	if want := "  parameters:\n  - name: gpu\n    value: \"true\"\n  - name: gpus\n    value: \"4\"\n"; !strings.Contains(got.stdout, want) {
		t.Errorf("%q is not there:\n%s%s", want, got.stdout, got.stderr)
	}
}

// TestOneThatCannotBeRead checks that such an object is reported, and that the others are exported.
func TestOneThatCannotBeRead(t *testing.T) {
	for name, test := range map[string]struct {
		fault         coderdtest.Fault
		want          string
		there, absent string
	}{
		"the variables of a template": {
			coderdtest.Fault{PathPrefix: "/api/v2/templateversions/", Status: http.StatusInternalServerError, Times: 1},
			"left out: template first of organization coder:", "name: coder.second", "name: coder.first",
		},
		"the parameters of a build": {
			coderdtest.Fault{PathPrefix: "/api/v2/workspacebuilds/", Status: http.StatusInternalServerError},
			"left out: workspace dev of ada:", "name: coder.first", "name: coder.ada.dev",
		},
		"all workspaces": {
			coderdtest.Fault{PathPrefix: "/api/v2/workspaces", Status: http.StatusInternalServerError},
			"left out: the workspaces:", "name: coder.first", "name: coder.ada.dev",
		},
	} {
		t.Run(name, func(t *testing.T) {
			coder, args := direct(t, map[string]string{"main.tf": "# first"})
			coder.Fail(test.fault)
			got := run(t, args...)
			if got.code != cli.ExitPartial || !strings.Contains(got.stderr, test.want) {
				t.Errorf("exit code %d, want %d and %q:\n%s", got.code, cli.ExitPartial, test.want, got.stderr)
			}
			if !strings.Contains(got.stdout, test.there) || strings.Contains(got.stdout, test.absent) {
				t.Errorf("want %q and not %q:\n%s", test.there, test.absent, got.stdout)
			}
		})
	}
}

// TestUsers are exported where that is asked for.
func TestUsers(t *testing.T) {
	coder, args := direct(t, map[string]string{"main.tf": "# first"})
	coder.AddUser("coder-k8s-operator", "owner")
	coder.EditUser("ada", "Ada", true, "auditor")
	coder.SetMember("ada", "coder", "organization-admin")
	// What is not exported is not read either.
	coder.Fail(coderdtest.Fault{PathPrefix: "/api/v2/templates", Status: http.StatusForbidden})
	coder.Fail(coderdtest.Fault{PathPrefix: "/api/v2/workspaces", Status: http.StatusForbidden})
	got := run(t, append(args, "-n", "coder", "--users")...)
	if got.code != cli.ExitOK {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
	want := `kind: CoderUser
metadata:
  name: ada
  namespace: coder
spec:
  email: ada@example.com
  fullName: Ada
  loginType: password
  organizations:
  - name: coder
    roles:
    - organization-admin
  roles:
  - auditor
  suspended: true
`
	if !strings.Contains(got.stdout, want) || !strings.Contains(got.stdout, "# The password is not exported.") {
		t.Errorf("not there:\n%s\nin\n%s", want, got.stdout)
	}
	for _, never := range []string{"coder-k8s-operator", "kind: CoderWorkspace", "Passw0rd"} {
		if strings.Contains(got.stdout, never) {
			t.Errorf("%q is there:\n%s", never, got.stdout)
		}
	}
	if without := run(t, append(args, "-n", "coder")...); strings.Contains(without.stdout, "CoderUser") {
		t.Errorf("users are exported although nobody asked:\n%s", without.stdout)
	}
}

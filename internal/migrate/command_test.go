package migrate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// migrate runs the command.
func migrate(t *testing.T, stdin string, args ...string) (code int, out, errOut string) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	streams, in, outBuffer, errBuffer := genericiooptions.NewTestIOStreams()
	in.WriteString(stdin)
	code = cli.Execute(t.Context(), NewCommand(streams), args, streams)
	return code, outBuffer.String(), errBuffer.String()
}

func TestCommandLines(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing":              {[]string{"helm"}, "say where the values are"},
		"two sources":          {[]string{"helm", "--release-secret", "a", "--release", "b"}, "give it alone"},
		"another chart":        {[]string{"helm", "-f", "a", "--chart", "nginx"}, `--chart "nginx"`},
		"files are not there":  {[]string{"helm", "--take-over", "-f", "a"}, "--take-over needs --release"},
		"a dry run of nothing": {[]string{"helm", "-f", "a", "--dry-run"}, "belong to --take-over"},
		"an argument":          {[]string{"helm", "coder"}, `"coder" is not understood`},
		"from what":            {nil, "migrate helm"},
	} {
		if code, out, errOut := migrate(t, "", c.args...); code != cli.ExitUsage || !strings.Contains(errOut, c.want) || out != "" {
			t.Errorf("%s: exit code %d, %q, want %q", name, code, errOut, c.want)
		}
	}
}

func TestWhatCannotBeReadIsNamedAndTheRestGoesOn(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	write(t, good, "coder:\n  replicaCount: 2\n  resources: 7\n")
	write(t, bad, "coder:\n  env: [\n")
	code, out, errOut := migrate(t, "", "helm", "--chart", "coder", "-n", "team", "-f", bad, "-f", good, "-f", filepath.Join(dir, "none.yaml"))
	if code != cli.ExitPartial || !strings.Contains(out, "replicas: 2") || !strings.Contains(out, "namespace: team") {
		t.Errorf("exit code %d, manifest\n%s", code, out)
	}
	for _, want := range []string{bad + ":", good + ":3: coder.resources", "none.yaml"} {
		if !strings.Contains(errOut, want) {
			t.Errorf("%s is not named:\n%s", want, errOut)
		}
	}
	if code, _, errOut := migrate(t, "", "helm", "-f", bad); code != cli.ExitFailure || !strings.Contains(errOut, bad) {
		t.Errorf("where nothing can be read: exit code %d, %s", code, errOut)
	}
}

func TestOutput(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	report := filepath.Join(t.TempDir(), "report.md")
	code, out, errOut := migrate(t, "provisionerDaemon:\n  keySecretName: key\n", "helm", "-n", "team", "-f", "-", "-o", dir, "--report", report)
	if code != cli.ExitOK || out != "" {
		t.Errorf("exit code %d, output %q, %s", code, out, errOut)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "coderprovisioner-coder-provisioner.yaml"))
	if err != nil || !strings.Contains(string(raw), "kind: CoderProvisioner") {
		t.Errorf("%s, %v", raw, err)
	}
	if raw, err := os.ReadFile(report); err != nil || !strings.Contains(string(raw), "standard input:2: `provisionerDaemon.keySecretName`") {
		t.Errorf("%s, %v", raw, err)
	}
}

// Untrusted values cannot be used to write another file than the requested one.
func TestOutputStaysInItsDirectory(t *testing.T) {
	for name, values := range map[string]string{
		"a name that climbs": "nameOverride: x/../../../evil\n", "a name with a folder": "nameOverride: a/b\n", "an escape": "nameOverride: \"\\e[2J\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			code, _, errOut := migrate(t, values, "helm", "--chart", "coder", "-n", "team", "-f", "-", "-o", filepath.Join(root, "a", "b"))
			if code != cli.ExitFailure || !strings.Contains(errOut, "the name of the CoderControlPlane would be") || strings.Contains(errOut, "\x1b") {
				t.Errorf("exit code %d, %q", code, errOut)
			}
			if entries, err := os.ReadDir(root); err != nil || len(entries) > 0 {
				t.Errorf("it wrote %v (%v)", entries, err)
			}
		})
	}
	if code, _, errOut := migrate(t, "coder: {service: {enable: true}}", "helm", "-n", "team", "--release", "a;b", "-f", "-"); code != cli.ExitFailure || !strings.Contains(errOut, `the name of the release would be "a;b"`) {
		t.Errorf("exit code %d, %s", code, errOut)
	}
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

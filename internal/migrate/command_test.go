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
		"values of no chart":   {[]string{"helm", "-f", "a"}, "--values needs --chart"},
		"another chart":        {[]string{"helm", "-f", "a", "--chart", "nginx"}, `--chart "nginx"`},
		"files are not there":  {[]string{"helm", "--take-over", "-f", "a", "--chart", "coder"}, "--take-over needs --release"},
		"a dry run of nothing": {[]string{"helm", "-f", "a", "--chart", "coder", "--dry-run"}, "belong to --take-over"},
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
	if code, _, errOut := migrate(t, "", "helm", "--chart", "coder", "-f", bad); code != cli.ExitFailure || !strings.Contains(errOut, bad) {
		t.Errorf("where nothing can be read: exit code %d, %s", code, errOut)
	}
}

// Nothing is written if no value of the files belongs to the chart.
func TestFilesOfOtherThings(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		code int
		want string
	}{
		"another object":    {"{apiVersion: v1, kind: ConfigMap, data: {a: b}}", cli.ExitFailure, "nothing in the values in - is a value of the chart coder"},
		"an unrelated file": {"name: build\non: [push]", cli.ExitFailure, "nothing in the values in -"},
		"nothing":           {"", cli.ExitFailure, "nothing in the values in -"},
		"null":              {"coder: null", cli.ExitFailure, "nothing in the values in -"},
		"several documents": {"coder: {replicaCount: 1}\n---\na: b", cli.ExitFailure, "standard input:2: is the second YAML document"},
		"a mapping that is null": {"coder: {image: null, serviceAccount: null, service: {type: ClusterIP}}", cli.ExitPartial,
			"coder.image is not a mapping"},
	} {
		code, manifest, report := migrate(t, tc.file, "helm", "-f", "-", "--chart", "coder")
		if code != tc.code || !strings.Contains(report, tc.want) || (manifest != "") != (code == cli.ExitPartial) {
			t.Errorf("%s: exit code %d, manifest %q, report\n%s", name, code, manifest, report)
		}
	}
}

func TestOutput(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	report := filepath.Join(t.TempDir(), "report.md")
	code, out, errOut := migrate(t, "provisionerDaemon:\n  keySecretName: key\n", "helm", "--chart", "coder-provisioner", "-n", "team", "-f", "-", "-o", dir, "--report", report)
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
	if code, _, errOut := migrate(t, "coder: {service: {enable: true}}", "helm", "--chart", "coder", "-n", "team", "--release", "a;b", "-f", "-"); code != cli.ExitFailure || !strings.Contains(errOut, `the name of the release would be "a;b"`) {
		t.Errorf("exit code %d, %s", code, errOut)
	}
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

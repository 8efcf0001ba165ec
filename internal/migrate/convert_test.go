package migrate

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files")

// Each values file in testdata/convert has an expected manifest and report.
func TestGoldenManifests(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "convert", "*-values.yaml"))
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files of values: %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), "-values.yaml")
		t.Run(name, func(t *testing.T) {
			manifest, told := Convert(source(t, file))
			text, err := manifest.YAML()
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+"-manifest.yaml", text)
			var out bytes.Buffer
			if err := told.Write(&out); err != nil {
				t.Fatal(err)
			}
			golden(t, name+"-report.md", out.Bytes())
			for _, secret := range []string{"hunter2", "s3cr3t", "correct-horse"} {
				if bytes.Contains(text, []byte(secret)) || bytes.Contains(out.Bytes(), []byte(secret)) {
					t.Errorf("the secret %q is told", secret)
				}
			}
			if err := fits(manifest.Kind, "image", manifest.Spec["image"]); err != nil {
				t.Error(err)
			}
		})
	}
}

func source(t *testing.T, file string) Source {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	set, err := ParseValues(filepath.Base(file), raw)
	if err != nil {
		t.Fatal(err)
	}
	chart, release := ChartCoder, "coder"
	if strings.Contains(file, "provisioner") {
		chart, release = ChartProvisioner, "builders"
	}
	return Source{Description: filepath.Base(file), Chart: chart, Release: release, Namespace: "coder", Values: set}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", "convert", name)
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// TestEachValueOfTheChartsIsUnderstood sets each value of the charts to its default: no value is
// unknown, and each one fits.
func TestEachValueOfTheChartsIsUnderstood(t *testing.T) {
	for chart, file := range map[string]string{ChartCoder: "coder", ChartProvisioner: "provisioner"} {
		content := chartValues(t, file)
		_, told := Convert(Source{Chart: chart, Release: "coder", Namespace: "coder", Values: ValuesOf("defaults", content)})
		for _, entry := range told.Of(Unreadable) {
			t.Errorf("chart %s: %s %s", chart, entry.Value, entry.Note)
		}
	}
}

// TestDefaultsAreThoseOfTheCharts compares the defaults in this package with the charts in the
// source of Coder's client library.
func TestDefaultsAreThoseOfTheCharts(t *testing.T) {
	for chart, file := range map[string]string{ChartCoder: "coder", ChartProvisioner: "provisioner"} {
		theirs := ValuesOf("chart", chartValues(t, file))
		ours := defaults(chart)
		for _, path := range ours.Leaves(func(string) bool { return false }) {
			got, _ := ours.Get(path)
			if want, has := theirs.Get(path); !has || !reflect.DeepEqual(got, want) {
				t.Errorf("chart %s: the default of %s is %v here and %v there", chart, path, got, want)
			}
		}
	}
}

func chartValues(t *testing.T, chart string) map[string]any {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/coder/coder/v2").CombinedOutput()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		t.Skipf("the source of Coder is not in the module cache: %v\n%s", err, out)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "helm", chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]any{}
	if err := yaml.Unmarshal(raw, &content); err != nil {
		t.Fatal(err)
	}
	return content
}

func TestSecrets(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        bool
	}{
		{"CODER_OIDC_CLIENT_SECRET", "hunter2", true},
		{"CODER_EXTERNAL_TOKEN_ENCRYPTION_KEYS", "abc", true},
		{"CODER_PG_CONNECTION_URL", "postgres://coder:hunter2@db/coder", true},
		{"CODER_PG_CONNECTION_URL", "postgres://coder@db/coder", false},
		{"CODER_OIDC_CLIENT_SECRET", "", false},
		{"CODER_OIDC_CLIENT_ID", "coder", false},
		{"HTTP_PROXY", "http://user:hunter2@proxy:3128", true},
		{"HTTP_PROXY", "http://proxy:3128", false},
		{"ANYTHING", "ghp_0123456789abcdef0123", true},
		{"CODER_SESSION_TOKEN_TTL", "24h", false},
		{"CODER_EXTERNAL_AUTH_0_TOKEN_URL", "https://git.example.com/token", false},
		{"CODER_TLS_KEY_FILE", "/tls/tls.key", false},
		{"CODER_DISABLE_PASSWORD_AUTH", "true", false},
		{"REFERENCE_TOKEN", "$(OTHER)", false},
	} {
		if got := secretVariable(c.name, c.value); got != c.want {
			t.Errorf("%s=%s is a secret: %v, want %v", c.name, c.value, got, c.want)
		}
	}
}

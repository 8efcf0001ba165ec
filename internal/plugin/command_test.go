package plugin

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestVersion(t *testing.T) {
	api := sampleAPI(t)
	api.apply(t, `apiVersion: apps/v1
kind: Deployment
metadata: {name: coder-k8s, namespace: coder-system, labels: {app.kubernetes.io/name: coder-k8s}}
spec: {template: {spec: {containers: [{name: coder-k8s, image: "example.com/coder-k8s:v1"}]}}}`)
	api.answer("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, map[string]any{"gitVersion": "v1.37.0"})
	})
	newHarness().run(t, api, "version").want(t, 0, "Deployment coder-k8s   example.com/coder-k8s:v1\n", "")
	newHarness().run(t, api, "version", "-o", "json").want(t, 0, `"kubernetes": "v1.37.0"`, "")
	newHarness().run(t, api, "version", "-n", "coder").want(t, 0, "Coder coder/coder      v2.30.0\n", "")
	for status, remark := range map[string]string{"True": "v2.39.0\n", "False": "v2.39.0 (not supported)\n\ncoder/coder: nobody tried it\n", "Unknown": "v2.39.0 (not a release)\n\ncoder/coder: nobody"} {
		api.setStatus(planes, "coder", fields{"version": "v2.39.0", "conditions": []any{condition("VersionSupported", status, "NewerVersion", "nobody tried it")}})
		newHarness().run(t, api, "version", "-n", "coder").want(t, 0, remark, "")
		newHarness().run(t, api, "version", "-n", "coder", "-o", "json").want(t, 0, `"supported": "`+status+`"`, "")
		newHarness().run(t, api, "status", "-n", "coder", "-o", "json").want(t, 4, `"versionSupported": "`+status+`"`, "")
	}
	api.answer("GET /apis/coder.com/v1alpha1/namespaces/coder/codercontrolplanes", refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "no rights"))
	newHarness().run(t, api, "version", "-n", "coder").want(t, 0, "Kubernetes", "The versions of Coder could not be read: no rights")
	api.Close()
	newHarness().run(t, api, "version").want(t, 0, "kubectl coder", "The version of Kubernetes could not be read")
	newHarness().run(t, api, "version", "--client").want(t, 0, "kubectl coder", "")
}

func TestCompletion(t *testing.T) {
	api := sampleAPI(t)
	api.apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}")
	api.setStatus(workspaces, "coder.ada.dev", fields{"agents": []any{fields{"name": "main", "apps": []any{fields{"slug": "code"}}}}})
	for line, want := range map[string][]string{
		"stop -n coder coder.a":           {"coder.ada.dev"},
		"logs -n coder t":                 {"template/coder.hello"},
		"template push -n coder coder":    {"coder.hello"},
		"template promote -n coder coder": {"coder.hello"},
		"open -n coder con":               {"controlplane/coder"},
		"status -o y":                     {"yaml"},
		"comp":                            {"completion"},
		"ssh -n coder ws/coder.ad":        {"ws/coder.ada.dev"},
		"start -n coder --owner a":        {"ada"},
		"start -n coder --template h":     {"hello"},
		"logs -n coder bo.api --build":    {"4"},
		"status -n te":                    {"team"},
		"version --operator-namespace te": {"team"},
		"open -n coder ada.dev c":         {"code"},
	} {
		fields := strings.Fields(line)
		if strings.HasPrefix(fields[len(fields)-1], "--") {
			fields = append(fields, "")
		}
		got := newHarness().run(t, api, append([]string{"__complete", "--server", api.URL}, fields...)...)
		for _, name := range want {
			if !strings.Contains("\n"+got.out, "\n"+name) {
				t.Errorf("%s completes to %q, want %q", line, got.out, name)
			}
		}
		if strings.Contains(got.out, "coder.bo.dev") {
			t.Errorf("%s completes to %q", line, got.out)
		}
	}
	script, err := os.ReadFile("../../cmd/kubectl-coder/kubectl_complete-coder")
	if err != nil {
		t.Fatal(err)
	}
	if got := newHarness().run(t, api, "completion", "kubectl"); got.out != string(script) || !strings.Contains(got.out, "exec kubectl-coder __complete") {
		t.Errorf("kubectl's program is %q, and in the repository %q", got.out, script)
	}
	config := filepath.Join(directory(t, map[string]string{"config": kubeconfig}), "config")
	newHarness().run(t, api, "__complete", "--kubeconfig", config, "status", "--context", "pro").want(t, 0, "production\n:4\n", "ShellCompDirectiveNoFileComp")
	newHarness().run(t, api, "completion", "bash").want(t, 0, "__start_kubectl-coder", "")
	newHarness().run(t, api, "completion").want(t, 2, "", "give one of kubectl, bash")
}

// TestNothingOfCoder checks that the plugin contains nothing of Coder's own modules, which have
// another license.
func TestNothingOfCoder(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "../../cmd/kubectl-coder").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.Lines(string(out)) {
		if strings.HasPrefix(name, "github.com/coder/") {
			t.Errorf("it contains %s", name)
		}
	}
}

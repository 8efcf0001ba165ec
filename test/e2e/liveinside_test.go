//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// testLiveMCP lets an AI tool work in a workspace with toolset inside of the MCP server,
// which is off until then.
func testLiveMCP(t *testing.T, object string) {
	maker := newRobot(t, sampleNamespace, "e2e-inside", "view", "coder-k8s-workspace-access")
	outsider := newRobot(t, sampleNamespace, "e2e-outside", "view")
	if offered(t, maker.connect(t, modernProtocol, maker.throughService(t), newDeeds()))["run_in_workspace"] {
		t.Error("toolset inside is on by default")
	}
	objects, err := kubetest.Installation(t.Context(), "mcp-inside")
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if object.GetName() == "coder-k8s-mcp-inside" {
			raw, err := object.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			apply(t, string(raw))
		}
	}
	kubectl(t, "-n", "coder-system", "patch", "deploy/coder-k8s", "--type=json", "-p",
		`[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--mcp-toolsets=controlplane,workspace,template,observe,inside"}]`)
	t.Cleanup(func() {
		cleanup("-n", "coder-system", "rollout", "undo", "deploy/coder-k8s")
		cleanup("-n", "coder-system", "rollout", "status", "deploy/coder-k8s", "--timeout=5m")
		cleanup("delete", "clusterrole,clusterrolebinding", "coder-k8s-mcp-inside", "--ignore-not-found")
	})
	serving(t)
	did := newDeeds()
	for _, protocol := range []string{modernProtocol, legacyProtocol} {
		t.Run(protocol, func(t *testing.T) {
			liveMCPWork(t, maker.connect(t, protocol, maker.throughService(t), did), object, "~/mcp-"+protocol)
		})
	}
	checkAudit(t, maker, did)
	t.Run("who may not enter", func(t *testing.T) {
		a := outsider.connect(t, modernProtocol, outsider.throughService(t), newDeeds())
		if said := a.refused(t, "run_in_workspace", map[string]any{"name": object, "command": "id", "confirm": object}); !containsAll(said, outsider.user(), "may not") {
			t.Errorf("it is told %s", said)
		}
	})
}

// offered returns the names of the tools that a caller is shown.
func offered(t *testing.T, a *assistant) map[string]bool {
	t.Helper()
	listed, err := a.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, tool := range listed.Tools {
		names[tool.Name] = true
	}
	return names
}

// liveMCPWork runs commands and changes a file, as an AI tool does to fix a bug.
func liveMCPWork(t *testing.T, a *assistant, object, directory string) {
	t.Helper()
	arguments := func(more map[string]any) map[string]any {
		more["name"] = object
		return more
	}
	run := func(command string) map[string]any {
		t.Helper()
		return a.confirmed(t, "run_in_workspace", arguments(map[string]any{"command": command}))
	}
	// kube-apiserver learns of the new rights in its own time.
	polltest.Eventually(t, "it may look into the workspace", func() error {
		if result := a.call(t, "list_workspace_files", arguments(map[string]any{"path": "."})); result.IsError {
			return fmt.Errorf("%s", words(result))
		}
		return nil
	})
	answer := run("mkdir " + directory + " && cd " + directory + " && pwd; echo err >&2; exit 3")
	path := strings.TrimSpace(fmt.Sprint(answer["stdout"]))
	if answer["exitCode"] != 3.0 || answer["stderr"] != "err\n" || !strings.HasPrefix(path, "/home/") {
		t.Fatalf("the command ended with %v", answer)
	}
	file := path + "/main.py"
	a.confirmed(t, "write_workspace_file", arguments(map[string]any{"path": file, "content": "print(6 * 6)\n"}))
	read := a.does(t, "read_workspace_file", arguments(map[string]any{"path": file}))
	if read["content"] != "print(6 * 6)\n" || read["untrusted"] == "" || read["version"] == nil {
		t.Errorf("what was written is read as %v", read)
	}
	edit := arguments(map[string]any{"path": file, "oldText": "6 * 6", "newText": "6 * 7", "version": read["version"]})
	if edited := a.confirmed(t, "edit_workspace_file", edit); edited["replacements"] != 1.0 {
		t.Errorf("the edit says %v", edited)
	}
	if said := a.refused(t, "read_workspace_file", arguments(map[string]any{"path": path + "/none"})); !strings.Contains(said, "there is no") {
		t.Errorf("a file that is not there: %s", said)
	}
	if answer = run("python3 " + file); answer["stdout"] != "42\n" || answer["exitCode"] != 0.0 {
		t.Errorf("the mended program ended with %v", answer)
	}
	if answer = a.does(t, "list_workspace_ports", arguments(map[string]any{})); !strings.Contains(fmt.Sprint(answer), "8000") {
		t.Errorf("the ports are %v", answer)
	}
}

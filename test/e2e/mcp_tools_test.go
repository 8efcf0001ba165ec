//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// testMCPTools calls every tool in both eras, as an admin of the namespace, and
// checks the effects in Kubernetes and in Coder.
func testMCPTools(t *testing.T) {
	keeper, did := newRobot(t, sampleNamespace, "e2e-keeper", "admin"), newDeeds()
	unlicensedParts(t)
	var offered []string
	for _, protocol := range []string{legacyProtocol, modernProtocol} {
		t.Run(protocol, func(t *testing.T) {
			a := keeper.connect(t, protocol, keeper.throughService(t), did)
			listed, err := a.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			offered = nil
			for _, tool := range listed.Tools {
				offered = append(offered, tool.Name)
			}
			t.Run("looks", func(t *testing.T) { mcpLooks(t, a) })
			t.Run("template", func(t *testing.T) { mcpTemplate(t, a) })
			t.Run("control plane", func(t *testing.T) { mcpControlPlane(t, a) })
		})
	}
	if len(offered) != 25 {
		t.Errorf("%d tools are offered to an admin of the namespace, not 25: %q", len(offered), offered)
	}
	for _, tool := range offered {
		if len(did.took[tool]) == 0 {
			t.Errorf("%s was never called with success", tool)
		}
	}
	did.logDurations(t)
	checkAudit(t, keeper, did)
}

// unlicensedParts creates a provisioner and a proxy, which this Coder does not
// support.
func unlicensedParts(t *testing.T) {
	t.Helper()
	kubectl(t, "apply", "-f", "../../config/samples/coderprovisioner.yaml", "-f", "../../config/samples/coderworkspaceproxy.yaml")
	t.Cleanup(func() {
		cleanup("-n", sampleNamespace, "delete", "coderprovisioner/zone-a", "coderworkspaceproxy/sydney", "--ignore-not-found", "--timeout=5m")
	})
	for _, object := range []string{"coderprovisioner/zone-a", "coderworkspaceproxy/sydney"} {
		waitCondition(t, "Ready", "False", "NotSupported", "-n", sampleNamespace, object)
	}
	// Events are written asynchronously.
	polltest.Eventually(t, "an Event tells of the provisioner", func() error {
		events := kubectl(t, "-n", sampleNamespace, "get", "events.events.k8s.io", "--field-selector=reason=NotSupported", "-o", "jsonpath={.items[*].regarding.name}")
		if !strings.Contains(events, "zone-a") {
			return fmt.Errorf("the Events with the reason NotSupported are about %q", events)
		}
		return nil
	})
}

// coderPods are the names of the pods of the sample control plane that run.
func coderPods(t *testing.T) string {
	t.Helper()
	return kubectl(t, "-n", sampleNamespace, "get", "pods", "-l", "app.kubernetes.io/name=coder-control-plane",
		"--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].metadata.name}")
}

// mcpLooks calls the read-only tools for the sample control plane.
func mcpLooks(t *testing.T, a *assistant) {
	// It must be Ready before the tools read it once.
	waitCondition(t, "Ready", "True", "Ready", "-n", sampleNamespace, "ccp", "coder")
	waitCondition(t, "Ready", "True", "Running", "-n", sampleNamespace, "cws", "coder.admin.hello")
	pod := coderPods(t)
	for _, c := range []struct {
		tool      string
		arguments map[string]any
		want      []string
	}{
		{"check_health", nil, []string{a.user, `"status":"ok"`, `"aggregatedAPI":"available"`, `"notReady":0`, "CoderProvisioner/zone-a", `"version":"v1.`}},
		{"list_control_planes", nil, []string{`"name":"coder"`, `"phase":"Ready"`, `"readyReplicas":1`}},
		{"get_control_plane_status", map[string]any{"name": "coder"}, []string{`"phase":"Ready"`, coderImage, "OperatorAccess"}},
		{"list_control_plane_pods", map[string]any{"name": "coder"}, []string{pod, `"phase":"Running"`, `"readyContainers":1`}},
		{"get_control_plane_deployment_status", map[string]any{"name": "coder"}, []string{`"availableReplicas":1`, coderImage}},
		{"get_service_status", map[string]any{"name": "coder"}, []string{`"readyEndpoints":1`, `"port":80`}},
		{"diagnose_control_plane", map[string]any{"name": "coder"}, []string{`"healthy":true`, "CoderControlPlane coder/coder works"}},
		{"list_provisioners", nil, []string{`"name":"zone-a"`, `"reason":"NotSupported"`}},
		{"list_workspace_proxies", nil, []string{`"name":"sydney"`, `"reason":"NotSupported"`}},
		{"get_events", map[string]any{"kind": "CoderProvisioner", "name": "zone-a"}, []string{`"reason":"NotSupported"`, `"type":"Warning"`}},
		{"get_pod_logs", map[string]any{"name": pod, "tailLines": 5}, []string{`"container":"coder"`, `"truncated":true`, `"note":`}},
		{"get_workspace", map[string]any{"name": "coder.admin.hello"}, []string{`"phase":"Running"`, `"conditions":[`}},
		{"diagnose_workspace", map[string]any{"name": "coder.admin.hello"}, []string{`"healthy":true`}},
		{"set_template_running", map[string]any{"name": "coder.hello", "running": true}, []string{`"updated":false`, "no run state"}},
	} {
		arguments := map[string]any{}
		for name, value := range c.arguments {
			arguments[name] = value
		}
		result := a.call(t, c.tool, arguments)
		if said := words(result); result.IsError || !containsAll(said, c.want...) {
			t.Errorf("%s does not say %q: %.1500s", c.tool, c.want, said)
		}
	}
	if said := a.refused(t, "get_workspace", map[string]any{"name": "coder.admin.nobody"}); !containsAll(said, "there is no", "coder.admin.nobody", "list them") {
		t.Errorf("a workspace that does not exist: %s", said)
	}
}

// mcpTemplate creates a template with two versions, and a workspace that uses it.
func mcpTemplate(t *testing.T, a *assistant) {
	name := "coder.mcp-" + a.protocol
	files := func(machine string) map[string]any {
		return map[string]any{"main.tf": "resource \"terraform_data\" \"machine\" {\n  input = " + machine + "\n}\n"}
	}
	t.Cleanup(func() {
		cleanup("-n", sampleNamespace, "delete", "cws", "coder.admin.mcp-"+a.protocol, "--ignore-not-found", "--timeout=5m")
		cleanup("-n", sampleNamespace, "delete", "ctpl", name, "--ignore-not-found", "--timeout=5m")
	})
	progress := a.progress.Load()
	pushed := a.does(t, "push_template", map[string]any{"name": name, "files": files(`"small"`), "create": true, "wait": true})
	first := field(pushed, "template", "activeVersionID")
	a.hearsProgress(t, progress)
	pushed = a.confirmed(t, "push_template", map[string]any{"name": name, "files": files(`"large"`), "wait": true})
	second := field(pushed, "template", "activeVersionID")
	if first == "" || second == "" || first == second {
		t.Fatalf("the first version is %q, and the second %q", first, second)
	}
	for _, c := range []struct {
		tool      string
		arguments map[string]any
		want      []string
	}{
		{"list_templates", map[string]any{}, []string{name, "coder.hello", second}},
		{"get_template", map[string]any{"name": name, "files": []string{"*.tf"}}, []string{first, second, `"path":"main.tf"`, `input = \"large\"`}},
		{"get_build_logs", map[string]any{"template": name, "versionID": first}, []string{`"status":"succeeded"`, first, "terraform_data.machine"}},
	} {
		if said := words(a.call(t, c.tool, c.arguments)); !containsAll(said, c.want...) {
			t.Errorf("%s does not say %q: %.1500s", c.tool, c.want, said)
		}
	}
	failed := a.confirmedResult(t, "push_template", map[string]any{
		"name": name, "files": map[string]any{"other.tf": "resource \"terraform_data\" \"other\" {\n  input = var.nothing\n}\n"}, "keepFiles": true, "wait": true,
	})
	answer, _ := failed.StructuredContent.(map[string]any)
	if !failed.IsError || !containsAll(words(failed), "failed: ", "get_build_logs shows the whole log") ||
		!containsAll(fmt.Sprint(answer["logs"]), "Reference to undeclared input variable") || field(answer, "template", "activeVersionID") != second {
		t.Errorf("a version that cannot be built: error %t, %s", failed.IsError, words(failed))
	}
	mcpWorkspace(t, a, name, first)
}

// mcpWorkspace tests a workspace from its creation to its deletion, with an update to
// another version of its template.
func mcpWorkspace(t *testing.T, a *assistant, template, first string) {
	client, name := login(t, sampleNamespace, "coder"), "coder.admin.mcp-"+a.protocol
	own := strings.TrimPrefix(name, "coder.admin.")
	is := func(answer map[string]any, phase string) {
		t.Helper()
		if got := field(answer, "workspace", "phase"); got != phase {
			t.Errorf("the workspace is %s, not %s: %v", got, phase, answer)
		}
	}
	progress := a.progress.Load()
	is(a.does(t, "create_workspace", map[string]any{"owner": "admin", "name": own, "template": template, "wait": true}), "Running")
	a.hearsProgress(t, progress)
	buildStatus(t, client, "admin", own, "running")
	if said := words(a.call(t, "list_workspaces", map[string]any{"template": template[len("coder."):], "limit": 1})); !containsAll(said, name, `"phase":"Running"`) {
		t.Errorf("list_workspaces: %s", said)
	}
	is(a.confirmed(t, "set_workspace_running", map[string]any{"name": name, "running": false, "wait": true}), "Stopped")
	buildStatus(t, client, "admin", own, "stopped")
	is(a.does(t, "set_workspace_running", map[string]any{"name": name, "running": true, "wait": true}), "Running")

	promoted := a.confirmed(t, "promote_template_version", map[string]any{"name": template, "versionID": first})
	if got := field(promoted, "template", "activeVersionID"); got != first {
		t.Errorf("version %s is active, not %s", got, first)
	}
	is(a.confirmed(t, "update_workspace", map[string]any{"name": name, "versionID": "active", "ttl": "8h", "wait": true}), "Running")
	workspace := buildStatus(t, client, "admin", own, "running")
	if got := workspace.LatestBuild.TemplateVersionID.String(); got != first || workspace.TTL == nil || *workspace.TTL != 8*time.Hour {
		t.Errorf("in Coder it has version %s, not %s, and stops after %v", got, first, workspace.TTL)
	}
	if said := words(a.call(t, "get_build_logs", map[string]any{"workspace": name})); !containsAll(said, `"status":"running"`, "Apply complete!") {
		t.Errorf("get_build_logs: %.1500s", said)
	}
	if said := words(a.call(t, "delete_workspace", map[string]any{"name": name, "dryRun": true})); !strings.Contains(said, "would be accepted") {
		t.Errorf("a dry run of the deletion: %s", said)
	}
	if gone := a.confirmed(t, "delete_workspace", map[string]any{"name": name, "wait": true}); gone["gone"] != true {
		t.Errorf("after the deletion: %v", gone)
	}
	if _, err := client.WorkspaceByName(t.Context(), "admin", own); !coderd.IsNotFound(err) {
		t.Errorf("the workspace is still in Coder: %v", err)
	}
}

// mcpControlPlane tests changes of the sample control plane, and restarts it.
func mcpControlPlane(t *testing.T, a *assistant) {
	before := asked(t, "-n", sampleNamespace, "ccp", "coder")
	for _, change := range []map[string]any{{"restart": true}, {"replicas": 2}, {"image": "registry.invalid/coder:none"}} {
		change["name"], change["dryRun"] = "coder", true
		answer := a.does(t, "change_control_plane", change)
		if answer["changed"] != false || fmt.Sprint(answer["before"]) == fmt.Sprint(answer["after"]) {
			t.Errorf("a dry run with %v: %v", change, answer)
		}
	}
	if after := asked(t, "-n", sampleNamespace, "ccp", "coder"); after != before {
		t.Errorf("dry runs have changed the control plane: %s to %s", before, after)
	}
	if a.protocol == legacyProtocol {
		return
	}
	old := coderPods(t)
	answer := a.confirmed(t, "change_control_plane", map[string]any{"name": "coder", "restart": true, "wait": true})
	if answer["changed"] != true || answer["ready"] != true {
		t.Errorf("the restart: %v", answer)
	}
	polltest.Eventually(t, "another pod has taken the place of the one before", func() error {
		if now := coderPods(t); strings.Contains(now, old) || now == "" {
			return fmt.Errorf("the pods are %q, and were %q", now, old)
		}
		return nil
	})
	listed(t, "coder.admin.hello")
}

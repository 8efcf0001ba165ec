package diagnosis

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// failedWorkspace returns a workspace whose newest build failed.
func failedWorkspace(problem string) *aggregationv1alpha1.CoderWorkspace {
	message := "the start build failed: " + problem
	ws := aWorkspace("failed", no("Ready", "BuildFailed", message), yes("Stalled", "BuildFailed", message+"; see the log of the build"),
		no("BuildSucceeded", "BuildFailed", message))
	ws.Status.LatestBuild.Error = problem
	return ws
}

func lostWorkspace(reason, message string) *aggregationv1alpha1.CoderWorkspace {
	ws := aWorkspace("running", no("Ready", reason, message), yes("BuildSucceeded", "BuildSucceeded", "the start build succeeded"),
		no("AgentsConnected", reason, message))
	ws.Status.Agents = []aggregationv1alpha1.WorkspaceAgent{{Name: "main", Status: "timeout", LifecycleState: "created"}}
	return ws
}

func runningWorkspace() *aggregationv1alpha1.CoderWorkspace {
	return aWorkspace("running", yes("Ready", "Running", "the workspace is running"), yes("BuildSucceeded", "BuildSucceeded", "the start build succeeded"),
		yes("AgentsConnected", "AgentsConnected", "all agents are connected"), yes("Synced", "Synced", "the spec is applied to Coder"))
}

// of returns a fixture with a workspace, its control plane and its template.
func of(ws *aggregationv1alpha1.CoderWorkspace, others ...client.Object) *fixture {
	return &fixture{objects: append([]client.Object{ws, aControlPlane(working()...), aTemplate()}, others...), raw: map[string]string{}}
}

func inWorkspace[T client.Object](object T) T {
	object.SetLabels(map[string]string{aggregationv1alpha1.LabelWorkspaceID: aWorkspace("running").Status.ID})
	return object
}

func TestWorkspaceProblems(t *testing.T) {
	const object = "CoderWorkspace/coder.ada.dev"
	unsynced := func() *aggregationv1alpha1.CoderWorkspace {
		return aWorkspace("running", yes("Ready", "Running", "runs"), no("Synced", "CoderUnreachable", "Coder is not available, so this is the last known state: x"))
	}
	refused := inWorkspace(aReplicaSet("4", 0, 1))
	refused.Status.Conditions = []appsv1.ReplicaSetCondition{{
		Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: `pods "x" is forbidden: exceeded quota: q`,
	}}
	deleted := failedWorkspace("terraform destroy: exit status 1")
	deleted.DeletionTimestamp, deleted.Finalizers = &now, []string{"example.com/x"}
	deleted.Status.Conditions = append(deleted.Status.Conditions, yes("DeletionFailed", "DeletionFailed", "the delete build failed: exit status 1; the deletion is retried"))
	lost := func() *aggregationv1alpha1.CoderWorkspace {
		return lostWorkspace("AgentsUnavailable", `agent "main" is not connected (timeout); check that its pod runs the agent`)
	}
	alone := of(runningWorkspace())
	alone.objects = alone.objects[:1]
	withoutTemplate := of(runningWorkspace())
	withoutTemplate.objects = withoutTemplate.objects[:2]
	silent := of(unsynced())
	silent.objects[1] = aControlPlane(brokenPart("DeploymentAvailable", "ImagePullFailed", "image x cannot be pulled")...)
	for name, c := range map[string]struct {
		fixture *fixture
		want    expectation
	}{
		"runs":               {of(runningWorkspace()), expectation{healthy: true}},
		"control plane gone": {alone, expectation{object: ourself, says: "it does not exist", do: "create the control plane again"}},
		"template gone":      {withoutTemplate, expectation{healthy: true, object: "CoderTemplate/coder.k8s", says: "it does not exist", do: "list_templates"}},
		"Coder is away":      {of(unsynced()), expectation{object: object, says: "Coder is not available"}},
		"Coder is away, and its control plane says why": {silent, expectation{object: ourself, says: "image x cannot be pulled"}},
		"deletion fails": {of(deleted), expectation{object: object, says: "the delete build failed"}},
		"deletion waits": {of(deleted), expectation{object: object, says: "example.com/x", do: "controllers"}},
		"change refused": {of(aWorkspace("stopped", no("Ready", "ChangeRefused", "Coder rejected the spec: spec.parameters[size]: required"))), expectation{object: object, says: "spec.parameters[size]: required"}},
		"build failed":   {of(failedWorkspace("insufficient quota")), expectation{object: object, says: "insufficient quota", do: "log of the build"}},
		"canceled":       {of(aWorkspace("canceled", no("Ready", "BuildCanceled", "the start build was canceled"))), expectation{object: object, says: "the start build was canceled"}},
		"waits for provisioners": {
			of(aWorkspace("pending", no("Ready", "BuildPending", "the start build waits for a provisioner")), aProvisioner(false)),
			expectation{object: "CoderProvisioner/builders", says: "no license allows"},
		},
		"agent away": {of(lost()), expectation{object: object, says: "(timeout)", do: "check that its pod runs the agent"}},
		"its pod waits": {
			of(lost(), inWorkspace(unschedulable("0/1 nodes are available: 1 Insufficient memory."))), expectation{object: coderPod, says: "Insufficient memory", do: "in the template"},
		},
		"its image": {
			of(failedWorkspace("Waiting for rollout to finish"), inWorkspace(aPod("4", waits("ErrImagePull", "manifest unknown")))),
			expectation{object: coderPod, says: "the registry has no such image or tag", do: "the image in the template"},
		},
		"quota of the namespace": {of(lost(), refused), expectation{object: "ReplicaSet/coder-r4", says: "exceeded quota: q", do: "in the template"}},
		"dormant":                {of(aWorkspace("stopped", yes("Ready", "Dormant", "the workspace is stopped and dormant; set spec.dormant to false"))), expectation{healthy: true, object: object, says: "dormant", do: "spec.dormant"}},
		"stopped":                {of(aWorkspace("stopped", yes("Ready", "Stopped", "the workspace is stopped, as its spec requests"), no("AgentsConnected", "Stopped", "it is not running"))), expectation{healthy: true}},
		"under way":              {of(aWorkspace("starting", no("Ready", "BuildRunning", "the start build is in progress"))), expectation{object: object, says: "in progress"}},
	} {
		t.Run(name, func(t *testing.T) { c.want.check(t, c.fixture.workspace(t)) })
	}
}

// TestLogs checks which lines of which logs are in the report of a workspace.
func TestLogs(t *testing.T) {
	const path = "/apis/aggregation.coder.com/v1alpha1/namespaces/coder/coderworkspaces/coder.ada.dev/log"
	w := of(failedWorkspace("terraform plan: exit status 1"))
	w.raw[path] = planError
	if r := w.workspace(t); len(r.Logs) != 1 || !strings.HasPrefix(r.Logs[0].Text, "Error: Unsupported attribute\non main.tf line 230") ||
		r.Logs[0].Where != "build 4" || r.Build.Template != "coder.k8s" || r.Build.Version != "v3" || r.Build.Status != "failed" {
		t.Errorf("%+v %+v", r.Logs, r.Build)
	}
	w.raw[path] = logged("Setting up", strings.Fields(strings.Repeat("x ", 40))...) + logged("Setting up", "no disk left")
	if r := w.workspace(t); len(r.Logs) != 1 || strings.Count(r.Logs[0].Text, "\n") != shownLogLines-1 || !strings.HasSuffix(r.Logs[0].Text, "[Setting up] no disk left") {
		t.Errorf("%+v", r.Logs)
	}
	failing := runningWorkspace()
	failing.Status.Agents = []aggregationv1alpha1.WorkspaceAgent{{Name: "main", Status: "connected", LifecycleState: "start_error"}}
	w = of(failing)
	w.raw[path] = "npm: command not found"
	if r := w.workspace(t); len(r.Logs) != 1 || r.Logs[0].Where != "the scripts of agent main" || r.Logs[0].Text != "npm: command not found" {
		t.Errorf("%+v", r.Logs)
	}
	lost := of(lostWorkspace("AgentsUnavailable", "timeout"), inWorkspace(aPod("4", runs(true))))
	lost.raw[podLog] = "curl: (6) Could not resolve host: coder.example\n"
	if r := lost.workspace(t); len(r.Logs) != 1 || !strings.Contains(r.Logs[0].Text, "Could not resolve host") {
		t.Errorf("%+v", r.Logs)
	}
}

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
	// initError is the log for the standard error of terraform init.
	initError = logged("Setting up", "╷", "│ Error: Invalid block definition", "│ ", "│   on broken.tf line 1:", "│    1: this is not Terraform",
		"│ ", "│ A block definition must have block content delimited by \"{\" and \"}\".", "╵", "╷", "│ Error: Another", "╵")
)

func TestTemplateName(t *testing.T) {
	for name, want := range map[string]string{
		"coder.ada.dev": "coder.k8s", "second.coder.ada.dev": "second.coder.k8s", "odd": "k8s", "": "k8s",
	} {
		ws := runningWorkspace()
		ws.Name = name
		if got := firstTemplateName(ws); got != want {
			t.Errorf("the template of %q is %q, want %q", name, got, want)
		}
	}
	ws := runningWorkspace()
	ws.Spec.TemplateName = "K8s"
	if got := firstTemplateName(ws); got != "coder.k8s" {
		t.Errorf("the template with a capital letter is %q", got)
	}
}

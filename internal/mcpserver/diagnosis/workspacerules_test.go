package diagnosis

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

func workspaceFactsOf(ws *aggregationv1alpha1.CoderWorkspace, change ...func(*workspaceFacts)) *workspaceFacts {
	f := &workspaceFacts{object: ws, template: aTemplate(), controlPlane: aControlPlane(working()...)}
	f.remedy = workspaceRemedies()
	for _, c := range change {
		c(f)
	}
	return f
}

// failedWorkspace returns a workspace whose newest build failed.
func failedWorkspace(problem string) *aggregationv1alpha1.CoderWorkspace {
	message := "the start build failed: " + problem
	ws := aWorkspace("failed", no("Ready", "BuildFailed", message), yes("Stalled", "BuildFailed", message), no("BuildSucceeded", "BuildFailed", message))
	ws.Status.LatestBuild.Error = problem
	return ws
}

func pendingWorkspace() *aggregationv1alpha1.CoderWorkspace {
	const message = "the start build waits for a provisioner"
	return aWorkspace("pending", no("Ready", "BuildPending", message), yes("Reconciling", "BuildPending", message),
		condition("BuildSucceeded", "Unknown", "BuildPending", message))
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

func TestWorkspaceRules(t *testing.T) {
	const object = "CoderWorkspace/coder.ada.dev"
	for name, c := range map[string]struct {
		facts *workspaceFacts
		want  expectation
	}{
		"runs": {workspaceFactsOf(runningWorkspace()), expectation{healthy: true}},
		"control plane gone": {
			workspaceFactsOf(runningWorkspace(), func(f *workspaceFacts) { f.controlPlane, f.controlPlaneMissing = nil, true }),
			expectation{severity: "error", where: "CoderControlPlane/coder", what: "no longer exists"},
		},
		"Coder cannot be asked, and its control plane says why": {
			workspaceFactsOf(aWorkspace("running", yes("Ready", "Running", "runs"), no("Synced", "CoderUnreachable", "Coder is not available, so this is the last known state: x")),
				func(f *workspaceFacts) {
					f.controlPlane = aControlPlane(brokenPart("DeploymentAvailable", "ImagePullFailed", "image x cannot be fetched")...)
				}),
			expectation{severity: "error", where: "CoderControlPlane/coder", what: "image x cannot be fetched", do: "diagnose_control_plane"},
		},
		"Coder is scaled to nothing": {
			workspaceFactsOf(aWorkspace("running", yes("Ready", "Running", "runs"), no("Synced", "CoderUnreachable", "x")),
				func(f *workspaceFacts) {
					f.controlPlane = aControlPlane(yes("Ready", "ScaledToZero", "spec.replicas is 0, so no pod runs"))
				}),
			expectation{severity: "error", where: "CoderControlPlane/coder", what: "spec.replicas is 0"},
		},
		"Coder cannot be asked, nobody knows why": {
			workspaceFactsOf(aWorkspace("running", yes("Ready", "Running", "runs"), no("Synced", "CoderUnreachable", "the particular words")),
				func(f *workspaceFacts) { f.controlPlane = nil }),
			expectation{severity: "error", where: object, what: "the particular words", do: "diagnose_control_plane"},
		},
		"deletion fails": {
			workspaceFactsOf(failedWorkspace("terraform destroy: exit status 1"), func(f *workspaceFacts) {
				f.object.DeletionTimestamp = &now
				f.object.Status.Conditions = append(f.object.Status.Conditions, yes("DeletionFailed", "DeletionFailed", "the delete build failed: exit status 1; the deletion is retried"))
				f.buildLog = logged("Planning infrastructure", "Error: Kubernetes cluster unreachable")
			}),
			expectation{severity: "error", where: object, what: "the delete build failed", evidence: "cluster unreachable", do: "orphan=true"},
		},
		"change refused": {
			workspaceFactsOf(aWorkspace("stopped", no("Ready", "ChangeRefused", "Coder rejected the spec: spec.parameters[size]: required"),
				no("Synced", "ChangeRefused", "Coder rejected the spec: spec.parameters[size]: required"))),
			expectation{severity: "error", where: object, what: "spec.parameters[size]: required", do: "update_workspace"},
		},
		"build failed": {
			workspaceFactsOf(failedWorkspace("terraform plan: exit status 1"), func(f *workspaceFacts) { f.buildLog = planError }),
			expectation{severity: "error", where: object + ", build 4", what: "from template coder.k8s, version v3, failed: Error: Unsupported attribute", evidence: "foobar", do: "push_template"},
		},
		"quota": {
			workspaceFactsOf(failedWorkspace("insufficient quota")),
			expectation{severity: "error", where: object + ", build 4", what: "quota in Coder does not allow it", do: "allowance"},
		},
		"required parameter": {
			workspaceFactsOf(failedWorkspace("missing parameter: size")),
			expectation{severity: "error", where: object + ", build 4", what: "a required parameter has no value", evidence: "size", do: "update_workspace"},
		},
		"build that waited for a pod": {
			workspaceFactsOf(failedWorkspace("terraform apply: exit status 1"), func(f *workspaceFacts) {
				f.buildLog = logged("Starting workspace", "Error: Waiting for rollout to finish: 1 replicas wanted; 0 replicas Ready")
				f.current = []corev1.Pod{*aPod("1", waits("ErrImagePull", "manifest unknown"))}
			}),
			expectation{severity: "error", where: "Pod/coder-r1-x, container coder", what: "the registry has no such image or tag", do: "the image in the template"},
		},
		"canceled": {
			workspaceFactsOf(aWorkspace("canceled", no("Ready", "BuildCanceled", "the start build was canceled"), no("BuildSucceeded", "BuildCanceled", "the start build was canceled"))),
			expectation{severity: "error", where: object, what: "build 4 was canceled"},
		},
		"waits, no provisioner has the tags": {
			workspaceFactsOf(pendingWorkspace(), func(f *workspaceFacts) {
				f.template.Spec.ProvisionerTags = map[string]string{"scope": "organization", "gpu": "yes"}
				f.provisioners = []coderv1alpha1.CoderProvisioner{aProvisioner(true, map[string]string{"gpu": "no"})}
			}),
			expectation{severity: "error", where: object + ", build 4", what: "no CoderProvisioner in this namespace has the tags {gpu=yes}", evidence: "tags {gpu=no}", do: "provisionerTags"},
		},
		"waits, the provisioner is not ready": {
			workspaceFactsOf(pendingWorkspace(), func(f *workspaceFacts) {
				f.template.Spec.ProvisionerTags = map[string]string{"gpu": "yes"}
				f.provisioners = []coderv1alpha1.CoderProvisioner{aProvisioner(false, map[string]string{"gpu": "yes", "zone": "a"})}
			}),
			expectation{severity: "error", where: object + ", build 4", what: "the provisioners with its tags are not ready", evidence: "no license allows"},
		},
		"waits, one is ready": {
			workspaceFactsOf(pendingWorkspace(), func(f *workspaceFacts) { f.provisioners = []coderv1alpha1.CoderProvisioner{aProvisioner(true, nil)} }),
			expectation{severity: "warning", where: object + ", build 4", what: "may be busy"},
		},
		"waits, those of Coder": {
			workspaceFactsOf(pendingWorkspace(), func(f *workspaceFacts) {
				f.provisioners = []coderv1alpha1.CoderProvisioner{aProvisioner(true, map[string]string{"gpu": "yes"})}
			}),
			expectation{severity: "warning", where: object + ", build 4", what: "the built-in provisioners of Coder", do: "CODER_PROVISIONER_DAEMONS"},
		},
		"agent does not connect": {
			workspaceFactsOf(lostWorkspace("AgentsUnavailable", "agents that are not connected: main is timeout")),
			expectation{severity: "error", where: object, what: "main is timeout", do: "access URL"},
		},
		"agent cannot resolve Coder": {
			workspaceFactsOf(lostWorkspace("AgentsUnavailable", "agents that are not connected: main is timeout"), func(f *workspaceFacts) {
				f.current = []corev1.Pod{*aPod("1", runs(true))}
				f.logs = []containerLog{aLog("+ curl -fsSL http://coder.example/bin/coder-linux-amd64\ncurl: (6) Could not resolve host: coder.example\n", false)}
			}),
			expectation{severity: "error", where: object, what: "cannot resolve the address of Coder", evidence: "coder.example", do: "access URL"},
		},
		"agent connects": {
			workspaceFactsOf(lostWorkspace("AgentsConnecting", "agents that have not connected yet: main")),
			expectation{severity: "warning", where: object, what: "main"},
		},
		"the pod of the agent": {
			workspaceFactsOf(lostWorkspace("AgentsUnavailable", "agents that are not connected: main is timeout"), func(f *workspaceFacts) {
				f.current = []corev1.Pod{*unschedulable("0/1 nodes are available: 1 Insufficient memory.")}
			}),
			expectation{severity: "error", where: "Pod/coder-r1-x", what: "Insufficient memory", do: "the resources in the template"},
		},
		"quota of the namespace": {
			workspaceFactsOf(lostWorkspace("AgentsUnavailable", "agents that are not connected: main is timeout"), func(f *workspaceFacts) {
				f.sets = []appsv1.ReplicaSet{*aReplicaSet("1", 0, 1)}
				f.events = []corev1.Event{*anEvent("ReplicaSet", "coder-r1", "FailedCreate", `Error creating: pods "x" is forbidden: exceeded quota: q`)}
			}),
			expectation{severity: "error", where: "ReplicaSet/coder-r1", what: "exceeded quota: q", do: "the resources in the template"},
		},
		"startup script": {
			workspaceFactsOf(runningWorkspace(), func(f *workspaceFacts) {
				f.object.Status.Healthy = ptr.To(false)
				f.object.Status.Agents = []aggregationv1alpha1.WorkspaceAgent{{Name: "main", Status: "connected", LifecycleState: "start_error"}}
			}),
			expectation{severity: "error", where: object, what: "startup script of agent main failed", do: "coder_script"},
		},
		"dormant": {
			workspaceFactsOf(aWorkspace("stopped", yes("Ready", "Dormant", "the workspace is stopped and dormant")), func(f *workspaceFacts) { f.object.Spec.Dormant = ptr.To(true) }),
			expectation{severity: "warning", where: object, what: "dormant", do: "dormant to false", healthy: true},
		},
		"stopped": {
			workspaceFactsOf(aWorkspace("stopped", yes("Ready", "Stopped", "the workspace is stopped, as its spec requests")), func(f *workspaceFacts) { f.object.Status.LatestBuild.Reason = "autostop" }),
			expectation{severity: "info", where: object, what: "asked for by autostop", do: "set_workspace_running", healthy: true},
		},
		"template gone": {
			workspaceFactsOf(runningWorkspace(), func(f *workspaceFacts) { f.template, f.templateMissing = nil, true }),
			expectation{severity: "warning", where: "CoderTemplate/coder.k8s", what: "the template no longer exists", healthy: true},
		},
		"template deprecated": {
			workspaceFactsOf(runningWorkspace(), func(f *workspaceFacts) {
				f.template.Status.Deprecated, f.template.Status.DeprecationMessage = true, "use k9s"
			}),
			expectation{severity: "info", where: "CoderTemplate/coder.k8s", what: "deprecated", evidence: "use k9s", healthy: true},
		},
		"template version failed": {
			workspaceFactsOf(runningWorkspace(), func(f *workspaceFacts) {
				s := &f.template.Status
				s.LatestVersionID, s.LatestVersionName, s.LatestVersionStatus, s.LatestVersionError = "b", "v4", "failed", "initialize terraform: exit status 1"
				f.versionLog = initError
			}),
			expectation{severity: "warning", where: "CoderTemplate/coder.k8s", what: "newest version v4 failed: Error: Invalid block definition", evidence: "broken.tf", do: "push_template", healthy: true},
		},
		"outdated": {
			workspaceFactsOf(runningWorkspace(), func(f *workspaceFacts) { f.object.Status.Outdated = true }),
			expectation{severity: "info", where: object, what: "newer active version", do: "update_workspace", healthy: true},
		},
		"under way": {
			workspaceFactsOf(aWorkspace("starting", no("Ready", "BuildRunning", "x"), condition("BuildSucceeded", "Unknown", "BuildRunning", "x")),
				func(f *workspaceFacts) {
					f.buildLog = logged("Starting workspace", "kubernetes_pod.main: Still creating...")
				}),
			expectation{severity: "info", where: object + ", build 4", what: "in progress since 2026-11-20T12:00:00Z", evidence: "Still creating"},
		},
		"a change is pending": {
			workspaceFactsOf(aWorkspace("running", no("Ready", "ChangeWaits", "a change is pending"), no("Synced", "ChangeWaits", "a change of the spec waits"))),
			expectation{severity: "warning", where: object, what: "a change of the spec waits"},
		},
		"being deleted": {
			workspaceFactsOf(aWorkspace("running", no("Ready", "Deleting", "the workspace will be deleted in Coder after these finalizers are removed: example.com/x")), func(f *workspaceFacts) { f.object.DeletionTimestamp = &now }),
			expectation{severity: "warning", where: object, what: "example.com/x"},
		},
		"not ready, and nothing more": {
			workspaceFactsOf(aWorkspace("running", no("Ready", "Odd", "the particular words"))),
			expectation{severity: "error", where: object, what: "the particular words"},
		},
	} {
		t.Run(name, func(t *testing.T) { c.want.check(t, reportWorkspace(c.facts)) })
	}
}

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
	renamed := aTemplate()
	renamed.Name = "coder.first"
	if got := (&workspaceFacts{object: ws, template: renamed}).templateName(); got != "coder.first" {
		t.Errorf("the template that was found is %q", got)
	}
}

// TestEmptyWorkspace checks that nothing panics for an object without status.
func TestEmptyWorkspace(t *testing.T) {
	f := &workspaceFacts{object: &aggregationv1alpha1.CoderWorkspace{}}
	f.current = []corev1.Pod{{}}
	if r := reportWorkspace(f); r.Healthy || r.Summary == "" {
		t.Errorf("%+v", r)
	}
}

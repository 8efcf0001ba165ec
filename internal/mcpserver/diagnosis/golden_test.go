package diagnosis

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

var update = flag.Bool("update", false, "write the golden reports")

// golden returns the reports of six situations, as a model gets them. The evals on the real
// cluster cause the same failures.
func golden() map[string]struct {
	fixture *fixture
	examine func(*fixture, *testing.T) *Report
	// cause must be in the summary.
	cause string
} {
	return map[string]struct {
		fixture *fixture
		examine func(*fixture, *testing.T) *Report
		cause   string
	}{
		"crash-looping-control-plane": {crashFixture(), (*fixture).controlPlane, "create oidc config"},
		"bad-image":                   {imageFixture(), (*fixture).controlPlane, "the registry's name does not resolve; check spec.image"},
		"unreachable-database":        {databaseFixture(), (*fixture).controlPlane, "check that PostgreSQL runs"},
		"failed-template-build":       {templateFixture(), (*fixture).controlPlane, "the log says: Error: Invalid block definition on broken.tf line 1:"},
		"workspace-that-cannot-start": {forbiddenBuildFixture(), (*fixture).workspace, `namespaces "team-a" not found`},
		"caller-without-rights":       {blindFixture(), (*fixture).controlPlane, "could not be read (events, pods, replicasets)"},
	}
}

func TestGoldenReports(t *testing.T) {
	for name, c := range golden() {
		t.Run(name, func(t *testing.T) {
			r := c.examine(c.fixture, t)
			if !strings.Contains(r.Summary, c.cause) {
				t.Errorf("the summary does not name the cause: %s", r.Summary)
			}
			got, err := json.MarshalIndent(r, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".golden.json")
			if *update {
				if err := os.WriteFile(path, append(got, '\n'), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimSpace(string(want)), string(got)); diff != "" {
				t.Errorf("-want +got, write it with -update:\n%s", diff)
			}
		})
	}
}

func imageFixture() *fixture {
	const image = "registry.invalid/coder:none"
	pod := aPod("4", waits("ImagePullBackOff", `Back-off pulling image "registry.invalid/coder:none": ErrImagePull: no such host`))
	pod.Spec.Containers[0].Image = image
	cp := aControlPlane(brokenPart("DeploymentAvailable", "ImagePullFailed",
		`image "registry.invalid/coder:none" of container "coder" cannot be fetched: the registry's name does not resolve; check spec.image, spec.imagePullPolicy and spec.imagePullSecrets`)...)
	cp.Spec.Image = image
	return &fixture{objects: []client.Object{
		cp, aReplicaSet("4", 1, 1), pod,
		anEvent("Pod", "coder-r4-xxxxx", "Failed", `Failed to pull image "registry.invalid/coder:none": rpc error: code = Unknown desc = failed to pull and unpack image `+
			`"registry.invalid/coder:none": failed to resolve reference "registry.invalid/coder:none": failed to do request: Head "https://registry.invalid/v2/coder/manifests/none": `+
			`dial tcp: lookup registry.invalid on 10.0.0.2:53: no such host`),
		anEvent("CoderControlPlane", "coder", "ImagePullFailed", "the image cannot be fetched"),
	}}
}

func databaseFixture() *fixture {
	// It terminated twice and is running its next attempt.
	status := runs(false)
	status.RestartCount, status.LastTerminationState.Terminated = 2, &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}
	const cause = "dial tcp 127.0.0.1:1: connect: connection refused"
	return &fixture{
		objects: []client.Object{
			aControlPlane(brokenPart("DeploymentAvailable", "DatabaseUnreachable",
				"Coder cannot use its database: "+cause+"; check that PostgreSQL runs, and correct host and port in the connection URL")...),
			aReplicaSet("4", 1, 1), aPod("4", status),
			anEvent("Pod", "coder-r4-xxxxx", "Unhealthy", "Readiness probe failed: Get \"http://10.244.0.9:8080/healthz\": context deadline exceeded"),
		},
		raw: map[string]string{
			podLog: "Started HTTP listener at http://0.0.0.0:8080\n" +
				"2026-11-20 12:24:44.379 [warn]  ping postgres: retrying  error=\"" + cause + "\"  try=1\n",
			podLog + "?previous": "2026-11-20 12:24:14.379 [warn]  ping postgres: retrying  error=\"" + cause + "\"  try=11\n" +
				"Encountered an error running \"coder server\", see \"coder server --help\" for more information\n" +
				"error: connect to postgres: connect to postgres: unable to connect after 11 tries; last error: " + cause + "\n",
		},
	}
}

func templateFixture() *fixture {
	broken := aTemplate()
	broken.Status.LatestVersionStatus, broken.Status.LatestVersionError = "failed", "template import init error: initialize terraform: exit status 1"
	broken.Status.LatestVersionID, broken.Status.LatestVersionName = "b", "v4"
	const message = `building version "v4" failed: template import init error: initialize terraform: exit status 1; version "v3" stays active`
	broken.Status.Conditions = []metav1.Condition{no("Ready", "BuildFailed", message), yes("Stalled", "BuildFailed", message+"; correct the template, and push it again")}
	status := runs(true)
	return &fixture{
		objects: []client.Object{aControlPlane(working()...), aReplicaSet("4", 1, 1), aPod("4", status), broken},
		raw:     map[string]string{"/apis/aggregation.coder.com/v1alpha1/namespaces/coder/codertemplates/coder.k8s/log": initError},
	}
}

func forbiddenBuildFixture() *fixture {
	ws := failedWorkspace(`Error: Failed to create deployment: namespaces "team-a" not found on main.tf line 228`)
	return &fixture{
		objects: []client.Object{ws, aControlPlane(working()...), aTemplate()},
		raw: map[string]string{"/apis/aggregation.coder.com/v1alpha1/namespaces/coder/coderworkspaces/coder.ada.dev/log": logged("Starting workspace",
			"kubernetes_deployment.main[0]: Creating...", `Error: Failed to create deployment: namespaces "team-a" not found`,
			`on main.tf line 228, in resource "kubernetes_deployment" "main":`, `  228: resource "kubernetes_deployment" "main" {`) +
			logged("Cleaning Up", "")},
	}
}

// blindFixture returns an API in which the operator knows no cause, and the caller may not
// read the object that shows it.
func blindFixture() *fixture {
	return &fixture{
		objects:   []client.Object{aControlPlane(brokenPart("DeploymentAvailable", "Progressing", "0 of 1 pods are ready")...)},
		forbidden: []string{pods, "log", events, replicaSets},
	}
}

// now is the time of all events in these tests.
var now = metav1.NewTime(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: now, ObservedGeneration: 1}
}

func yes(kind, reason, message string) metav1.Condition {
	return condition(kind, metav1.ConditionTrue, reason, message)
}

func no(kind, reason, message string) metav1.Condition {
	return condition(kind, metav1.ConditionFalse, reason, message)
}

// aControlPlane returns coder/coder with these conditions.
func aControlPlane(conditions ...metav1.Condition) *coderv1alpha1.CoderControlPlane {
	cp := &coderv1alpha1.CoderControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "coder", Generation: 1, UID: "cp"}}
	cp.Spec.Image, cp.Spec.Replicas = "ghcr.io/coder/coder:v2.30.0", ptr.To[int32](1)
	cp.Status.ObservedGeneration, cp.Status.Conditions = 1, conditions
	return cp
}

// brokenPart returns the conditions of a control plane that is not Ready because of one
// part.
func brokenPart(kind, reason, message string) []metav1.Condition {
	return []metav1.Condition{
		no("Ready", reason, message), yes("Reconciling", reason, message), no(kind, reason, message),
	}
}

func working() []metav1.Condition {
	return []metav1.Condition{
		yes("Ready", "Ready", "Coder runs, and the operator has access to it"), yes("ResourcesApplied", "Applied", "all objects that the spec requires are applied"),
		yes("DeploymentAvailable", "Available", "1 of 1 pods are ready"), yes("CoderReachable", "Reachable", "Coder v2.30.0 answers"),
		yes("OperatorAccess", "TokenAccepted", "Coder accepts the operator's token"), yes("Served", "Served", "templates and workspaces are served; their names have no prefix"),
	}
}

var ourLabels = map[string]string{
	coderv1alpha1.LabelName: coderv1alpha1.ControlPlaneName, coderv1alpha1.LabelInstance: "coder", coderv1alpha1.LabelManagedBy: coderv1alpha1.ManagedBy,
}

// aReplicaSet returns the ReplicaSet of a revision, with its actual and desired number of
// pods.
func aReplicaSet(revision string, has, wanted int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "coder", Name: "coder-r" + revision, UID: types.UID("set" + revision), Labels: ourLabels,
			Annotations: map[string]string{podproblem.RevisionAnnotation: revision},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To(wanted)}, Status: appsv1.ReplicaSetStatus{Replicas: has},
	}
}

// aPod returns a pod of a revision whose container coder has this status.
func aPod(revision string, status corev1.ContainerStatus) *corev1.Pod {
	status.Name = "coder"
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "coder", Name: "coder-r" + revision + "-xxxxx", Labels: ourLabels,
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "coder-r" + revision, UID: types.UID("set" + revision), Controller: ptr.To(true)}},
		},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "coder", Image: "ghcr.io/coder/coder:v2.30.0"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{status}},
	}
	if status.Ready {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	if status.State.Waiting != nil {
		pod.Status.Phase = corev1.PodPending
	}
	return pod
}

func waits(reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

func runs(isReady bool) corev1.ContainerStatus {
	return corev1.ContainerStatus{Ready: isReady, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

// crashed returns the status of a container in CrashLoopBackOff.
func crashed(code int32, reason string, times int32) corev1.ContainerStatus {
	status := waits("CrashLoopBackOff", "back-off 40s restarting failed container")
	status.RestartCount = times
	status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}
	return status
}

func unschedulable(message string) *corev1.Pod {
	pod := aPod("4", corev1.ContainerStatus{})
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message},
	}}
	return pod
}

func anEvent(kind, name, reason, message string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "coder", Name: name + "." + reason},
		InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: "coder", Name: name},
		Type:           corev1.EventTypeWarning, Reason: reason, Message: message, LastTimestamp: now, Count: 3,
	}
}

// aWorkspace returns coder/coder.ada.dev, whose newest build has this status.
func aWorkspace(status string, conditions ...metav1.Condition) *aggregationv1alpha1.CoderWorkspace {
	ws := &aggregationv1alpha1.CoderWorkspace{
		ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "coder.ada.dev", Labels: map[string]string{
			aggregationv1alpha1.LabelControlPlaneName: "coder", aggregationv1alpha1.LabelControlPlaneNamespace: "coder",
		}},
		Spec: aggregationv1alpha1.CoderWorkspaceSpec{Organization: "coder", TemplateName: "k8s", Running: ptr.To(true)},
	}
	ws.Status = aggregationv1alpha1.CoderWorkspaceStatus{
		ID: "11111111-2222-3333-4444-555555555555", LatestBuildStatus: status, OrganizationName: "coder", TemplateName: "k8s", Conditions: conditions,
		LatestBuild: &aggregationv1alpha1.WorkspaceBuild{
			Number: 4, Transition: "start", Status: status, Reason: "initiator", TemplateVersionName: "v3", CreatedAt: &now,
		},
	}
	return ws
}

func aTemplate() *aggregationv1alpha1.CoderTemplate {
	return &aggregationv1alpha1.CoderTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "coder.k8s", Labels: map[string]string{aggregationv1alpha1.LabelControlPlaneName: "coder"}},
		Status: aggregationv1alpha1.CoderTemplateStatus{
			OrganizationName: "coder", TemplateName: "k8s",
			Conditions: []metav1.Condition{yes("Ready", "Active", `version "v3" is active`)}, ActiveVersionID: "a", ActiveVersionName: "v3", LatestVersionID: "a", LatestVersionName: "v3", LatestVersionStatus: "succeeded",
		},
	}
}

func aProvisioner(ready bool) *coderv1alpha1.CoderProvisioner {
	p := &coderv1alpha1.CoderProvisioner{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "builders"}}
	p.Spec.ControlPlaneRef = &coderv1alpha1.ControlPlaneReference{Name: "coder"}
	p.Status.Conditions = []metav1.Condition{yes("Ready", "Ready", "the daemons run")}
	if !ready {
		p.Status.Conditions = []metav1.Condition{no("Ready", "NotEntitled", "no license allows external provisioners")}
	}
	return p
}

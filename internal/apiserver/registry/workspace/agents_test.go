package workspace

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/workspacepods"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// fixedPods reports a fixed problem, and a deleted pod only for a running workspace, as the watcher
// does. If blind, it behaves like the watcher of a replica that does not watch.
type fixedPods struct {
	problem *workspacepods.Problem
	blind   bool
}

func (p *fixedPods) Problem(_ types.NamespacedName, _ uuid.UUID, builtAt time.Time, shown *workspacepods.Problem) *workspacepods.Problem {
	if p.blind {
		return shown
	}
	if p.problem != nil && p.problem.Reason == aggregationv1alpha1.ReasonPodGone && builtAt.IsZero() {
		return nil
	}
	return p.problem
}

// TestPodsOnAnotherReplica covers a write on a replica that does not watch the pods. The problem
// that the mirror reported stays until the next build.
func TestPodsOnAnotherReplica(t *testing.T) {
	k, _ := newKind(t)
	image := &workspacepods.Problem{Reason: aggregationv1alpha1.ReasonImagePullFailed, Message: "pod x: no image"}
	w := workspaceWith("start", "running", coderd.Agent{Name: "a", Status: "connected"})
	k.pods = &fixedPods{problem: image}
	seen := k.mustConvert(t, w, nil, nil)
	k.pods = &fixedPods{blind: true}
	if diff := cmp.Diff(seen, k.mustConvert(t, w, nil, seen)); diff != "" {
		t.Errorf("on another replica (-want +got):\n%s", diff)
	}
	w.LatestBuild.Number++
	if got := conditionOf(k.mustConvert(t, w, nil, seen), "PodsHealthy"); got != "" {
		t.Errorf("after the next build PodsHealthy is %q", got)
	}
}

// TestLabelKeepsDeletedPod checks that a change of the metadata, for which Coder is not read, keeps the
// condition about a deleted pod.
func TestLabelKeepsDeletedPod(t *testing.T) {
	k, _ := newKind(t)
	k.pods = &fixedPods{problem: &workspacepods.Problem{Reason: aggregationv1alpha1.ReasonPodGone, Message: "pod x is gone"}}
	seen := k.mustConvert(t, workspaceWith("start", "running", coderd.Agent{Name: "a", Status: "disconnected"}), nil, nil)
	labelled := k.relabelled(seen, seen, &metadata.Record{Labels: map[string]string{"a": "b"}}, intent{})
	if diff := cmp.Diff(seen.Status.Conditions, labelled.Status.Conditions); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPodsThatStall checks that a problem of the pods needs a user if it lasts, and that another
// replica keeps this.
func TestPodsThatStall(t *testing.T) {
	for name, c := range map[string]struct {
		build string
		pods  workspacepods.Problem
		want  string
	}{
		"it just began":                          {"running", workspacepods.Problem{Reason: aggregationv1alpha1.ReasonImagePullFailed}, "False ImagePullFailed"},
		"it lasts":                               {"running", workspacepods.Problem{Reason: aggregationv1alpha1.ReasonImagePullFailed, Lasting: true}, "True ImagePullFailed"},
		"a node may be added":                    {"running", workspacepods.Problem{Reason: aggregationv1alpha1.ReasonUnschedulable, Lasting: true}, "False Unschedulable"},
		"it is built":                            {"starting", workspacepods.Problem{Reason: aggregationv1alpha1.ReasonImagePullFailed, Lasting: true}, "True ImagePullFailed"},
		"it just began, while it is built":       {"starting", workspacepods.Problem{Reason: aggregationv1alpha1.ReasonImagePullFailed}, "False ImagePullFailed"},
		"a node may be added, while it is built": {"starting", workspacepods.Problem{Reason: aggregationv1alpha1.ReasonVolumeMountFailed, Lasting: true}, "False VolumeMountFailed"},
		"the build failed":                       {"failed", workspacepods.Problem{Reason: aggregationv1alpha1.ReasonImagePullFailed}, "True ImagePullFailed"},
		"the build failed, for a volume":         {"failed", workspacepods.Problem{Reason: aggregationv1alpha1.ReasonVolumeMountFailed}, "True VolumeMountFailed"},
	} {
		k, _ := newKind(t)
		c.pods.Message = "pod x: no image"
		k.pods = &fixedPods{problem: &c.pods}
		w := workspaceWith("start", c.build, coderd.Agent{Name: "a", Status: "connecting"})
		ws := k.mustConvert(t, w, nil, nil)
		if got := conditionOf(ws, "Stalled"); got != c.want {
			t.Errorf("%s: Stalled is %s, want %s", name, got, c.want)
		}
		k.pods = &fixedPods{blind: true}
		if diff := cmp.Diff(ws, k.mustConvert(t, w, nil, ws)); diff != "" {
			t.Errorf("%s: on another replica (-want +got):\n%s", name, diff)
		}
	}
}

// TestBuildWaitsForPods checks that a build that waits for a pod, and one that failed because it waited in
// vain, show the problem of the pod and not what Terraform says.
func TestBuildWaitsForPods(t *testing.T) {
	const problem = `pod team/dev: a volume cannot be mounted (FailedMount): secret "x" not found`
	for status, build := range map[string]string{
		"starting": "the start build is in progress",
		"failed":   "the start build failed: events is forbidden",
	} {
		k, _ := newKind(t)
		k.pods = &fixedPods{problem: &workspacepods.Problem{Reason: aggregationv1alpha1.ReasonVolumeMountFailed, Message: problem}}
		w := workspaceWith("start", status)
		if status == "failed" {
			w.LatestBuild.Error = "events is forbidden"
		}
		ws := k.mustConvert(t, w, nil, nil)
		if got := messageOf(ws, "Ready"); got != problem+"; "+build {
			t.Errorf("%s: Ready says %q", status, got)
		}
		if got := row(ws, registry.Ages{Clock: k.Clock}); got[len(got)-1] != "VolumeMountFailed" {
			t.Errorf("%s: column Reason is %q", status, got[len(got)-1])
		}
		if got := messageOf(ws, "Stalled"); status == "failed" && got != problem+"; "+build {
			t.Errorf("Stalled says %q", got)
		}
	}
}

func TestHealth(t *testing.T) {
	image := &workspacepods.Problem{Reason: aggregationv1alpha1.ReasonImagePullFailed, Message: "pod x: no image"}
	connected, connecting := coderd.Agent{Name: "a", Status: "connected"}, coderd.Agent{Name: "a", Status: "connecting", Unhealthy: "no"}
	for name, c := range map[string]struct {
		workspace     coderd.Workspace
		problem       *workspacepods.Problem
		healthy       *bool
		column, ready string
		pods          string
	}{
		"connected":       {workspaceWith("start", "running", connected), nil, ptr.To(true), "Healthy", "True Running", ""},
		"no agents":       {workspaceWith("start", "running"), nil, ptr.To(true), "Healthy", "True Running", ""},
		"connecting":      {workspaceWith("start", "running", connecting), nil, nil, "Connecting", "False AgentsConnecting", ""},
		"lost":            {workspaceWith("start", "running", coderd.Agent{Name: "a", Status: "timeout"}), nil, ptr.To(false), "Unhealthy", "False AgentsUnavailable", ""},
		"a script failed": {workspaceWith("start", "running", coderd.Agent{Name: "a", Status: "connected", Unhealthy: "x"}), nil, ptr.To(false), "Unhealthy", "False AgentsUnhealthy", ""},
		"one connects, one fails": {workspaceWith("start", "running", connecting, coderd.Agent{Name: "b", Status: "connected", Unhealthy: "x"}), nil, nil,
			"Connecting", "False AgentsConnecting", ""},
		"pod, not connected":  {workspaceWith("start", "running", connecting), image, ptr.To(false), "Unhealthy", "False ImagePullFailed", "False ImagePullFailed"},
		"pod, connected":      {workspaceWith("start", "running", connected), image, ptr.To(false), "Unhealthy", "False ImagePullFailed", "False ImagePullFailed"},
		"pod, while starting": {workspaceWith("start", "starting"), image, nil, "-", "False ImagePullFailed", "False ImagePullFailed"},
		"pod, build failed":   {workspaceWith("start", "failed"), image, nil, "-", "False ImagePullFailed", "False ImagePullFailed"},
		"pod, stopped":        {workspaceWith("stop", "stopped"), image, nil, "-", "True Stopped", ""},
	} {
		t.Run(name, func(t *testing.T) {
			k, _ := newKind(t)
			k.pods = &fixedPods{problem: c.problem}
			ws := k.mustConvert(t, c.workspace, nil, nil)
			if diff := cmp.Diff(c.healthy, ws.Status.Healthy); diff != "" {
				t.Errorf("healthy (-want +got):\n%s", diff)
			}
			if got := conditionOf(ws, "Ready"); got != c.ready {
				t.Errorf("Ready is %s, want %s", got, c.ready)
			}
			if got := conditionOf(ws, "PodsHealthy"); got != c.pods {
				t.Errorf("PodsHealthy is %q, want %q", got, c.pods)
			}
			if got := row(ws, registry.Ages{Clock: k.Clock})[4]; got != c.column {
				t.Errorf("column Health is %s, want %s", got, c.column)
			}
			if diff := cmp.Diff(ws, k.mustConvert(t, c.workspace, nil, ws)); diff != "" {
				t.Errorf("the same again differs (-first +second):\n%s", diff)
			}
		})
	}
}

func TestAgents(t *testing.T) {
	at := time.Date(2026, time.March, 1, 12, 0, 0, 999, time.UTC)
	w := coderd.Workspace{Name: "dev", OwnerName: "ada", Agents: []coderd.Agent{
		{Name: "zoo", Status: "disconnected", Unhealthy: "agent has lost connection", DisconnectedAt: &at},
		{
			Name: "main", Status: "connected", LifecycleState: "ready", Version: "v2.30.0", OperatingSystem: "linux", Architecture: "amd64",
			Directory: "/home/coder", ReadyAt: &at,
			Apps: []coderd.App{
				{Slug: "web", DisplayName: "Web", Health: "healthy"},
				{Slug: "own", SubdomainName: "own--main--dev--ada", Health: "disabled"},
				{Slug: "docs", ExternalURL: "https://docs.example.com/x"},
				{Slug: "top", Command: "top -d 1"},
				{Slug: "secret", Hidden: true},
			},
		},
	}}
	public := connections.Connection{AccessURL: "https://coder.example.com/", WildcardHost: "*.apps.example.com"}
	stamp := metav1.NewTime(at.Truncate(time.Second))
	want := []aggregationv1alpha1.WorkspaceAgent{
		{
			Name: "main", Status: "connected", LifecycleState: "ready", Version: "v2.30.0", OperatingSystem: "linux", Architecture: "amd64",
			Directory: "/home/coder", ReadyAt: &stamp,
			Apps: []aggregationv1alpha1.WorkspaceApp{
				{Slug: "docs", URL: "https://docs.example.com/x"},
				{Slug: "own", URL: "https://own--main--dev--ada.apps.example.com/"},
				{Slug: "top", URL: "https://coder.example.com/@ada/dev.main/terminal?command=top+-d+1"},
				{Slug: "web", DisplayName: "Web", Health: "healthy", URL: "https://coder.example.com/@ada/dev.main/apps/web/"},
			},
		},
		{Name: "zoo", Status: "disconnected", Unhealthy: "agent has lost connection", DisconnectedAt: &stamp},
	}
	if diff := cmp.Diff(want, agentsOf(w, public)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	unknown := agentsOf(w, connections.Connection{})[0].Apps
	if unknown[1].URL != "/@ada/dev.main/apps/own/" || unknown[3].URL != "/@ada/dev.main/apps/web/" {
		t.Errorf("without an access URL: %+v", unknown)
	}
}

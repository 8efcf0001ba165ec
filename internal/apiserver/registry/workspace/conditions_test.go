package workspace

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

var built = time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC)

func workspaceWith(transition coderd.Transition, status string, agents ...coderd.Agent) coderd.Workspace {
	return coderd.Workspace{
		ID: uuid.MustParse("00000000-0000-0000-0000-000000000001"), Name: "Dev", OwnerName: "ada", OrganizationName: "coder",
		TemplateName: "starter", CreatedAt: built, UpdatedAt: built, LastUsedAt: built, Agents: agents,
		LatestBuild: coderd.Build{Transition: transition, Status: status, CreatedAt: built, UpdatedAt: built, Error: "why"},
	}
}

func TestConditions(t *testing.T) {
	connected, connecting, lost := coderd.Agent{Name: "a", Status: "connected"}, coderd.Agent{Name: "b", Status: "connecting"}, coderd.Agent{Name: "c", Status: "timeout"}
	for name, c := range map[string]struct {
		workspace                                  coderd.Workspace
		phase                                      string
		ready, reconciling, stalled, build, agents string
		deleting                                   bool
	}{
		"pending":           {workspaceWith("start", "pending"), "Pending", "False BuildPending", "True", "False", "Unknown BuildPending", "False Stopped", false},
		"starting":          {workspaceWith("start", "starting"), "Starting", "False BuildRunning", "True", "False", "Unknown BuildRunning", "False Stopped", false},
		"running":           {workspaceWith("start", "running", connected), "Running", "True Running", "False", "False", "True BuildSucceeded", "True AgentsConnected", false},
		"no agents":         {workspaceWith("start", "running"), "Running", "True Running", "False", "False", "True BuildSucceeded", "True NoAgents", false},
		"an agent connects": {workspaceWith("start", "running", connected, connecting), "Running", "False AgentsConnecting", "True", "False", "True BuildSucceeded", "False AgentsConnecting", false},
		"an agent is lost":  {workspaceWith("start", "running", connecting, lost), "Running", "False AgentsUnavailable", "False", "False", "True BuildSucceeded", "False AgentsUnavailable", false},
		"stopping":          {workspaceWith("stop", "stopping"), "Stopping", "False BuildRunning", "True", "False", "Unknown BuildRunning", "False Stopped", false},
		"stopped":           {workspaceWith("stop", "stopped"), "Stopped", "True Stopped", "False", "False", "True BuildSucceeded", "False Stopped", false},
		"failed":            {workspaceWith("start", "failed"), "Failed", "False BuildFailed", "False", "True", "False BuildFailed", "False Stopped", false},
		"canceling":         {workspaceWith("start", "canceling"), "Canceling", "False BuildRunning", "True", "False", "Unknown BuildRunning", "False Stopped", false},
		"canceled":          {workspaceWith("start", "canceled"), "Canceled", "False BuildCanceled", "False", "True", "False BuildCanceled", "False Stopped", false},
		"deletion queued":   {workspaceWith("delete", "pending"), "Deleting", "False Deleting", "True", "False", "Unknown BuildPending", "False Stopped", true},
		"deleting":          {workspaceWith("delete", "deleting"), "Deleting", "False Deleting", "True", "False", "Unknown BuildRunning", "False Stopped", true},
		"deletion failed":   {workspaceWith("delete", "failed"), "Failed", "False BuildFailed", "False", "True", "False BuildFailed", "False Stopped", false},
	} {
		t.Run(name, func(t *testing.T) {
			ws, err := fromCoder(connections.Connection{ControlPlane: types.NamespacedName{Namespace: "n", Name: "cp"}, NamePrefix: "cp."}, c.workspace)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, condition := range ws.Status.Conditions {
				got[condition.Type] = string(condition.Status) + " " + condition.Reason
				if condition.Type == "Reconciling" || condition.Type == "Stalled" {
					got[condition.Type] = string(condition.Status)
				}
				if !condition.LastTransitionTime.Equal(&metav1.Time{Time: built.Truncate(time.Second)}) || condition.Message == "" || condition.ObservedGeneration != 1 {
					t.Errorf("%+v", condition)
				}
			}
			want := map[string]string{"Ready": c.ready, "Reconciling": c.reconciling, "Stalled": c.stalled, "BuildSucceeded": c.build, "AgentsConnected": c.agents}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if ws.Status.Phase != c.phase || (ws.DeletionTimestamp != nil) != c.deleting {
				t.Errorf("phase %s, deletionTimestamp %v", ws.Status.Phase, ws.DeletionTimestamp)
			}
			if ws.Name != "cp.coder.ada.dev" || ws.CreationTimestamp.Nanosecond() != 0 {
				t.Errorf("name %s, created %s", ws.Name, ws.CreationTimestamp)
			}
		})
	}
}

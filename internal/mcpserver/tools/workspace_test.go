package tools

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func TestGetWorkspaceTellsItAll(t *testing.T) {
	when := metav1.NewTime(time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC))
	ws := devWorkspace("Running")
	ws.Labels = map[string]string{aggregationv1alpha1.LabelControlPlaneName: "coder"}
	ws.Spec.TTLMillis, ws.Spec.AutostartSchedule = ptr.To[int64](8*3600_000), ptr.To("30 9 * * 1-5")
	ws.Spec.Parameters = []aggregationv1alpha1.WorkspaceParameter{{Name: "cpu", Value: "4"}, {Name: "key", Value: "ghp_0123456789abcdefghijABCDEFGHIJ012345"}}
	ws.Spec.TemplateVersionPreset = "large"
	ws.Status.Agents = []aggregationv1alpha1.WorkspaceAgent{{Name: "main", Status: "connected", LifecycleState: "ready"}}
	ws.Status.LatestBuild.CreatedAt, ws.Status.LatestBuild.Reason = &when, "initiator"
	ws.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Running", Message: "the workspace runs", LastTransitionTime: when}}
	out, err := getWorkspace(t.Context(), &toolset.Call{Kube: fakeKube(t, interceptor.Funcs{}, nil, ws)}, objectInput{Namespace: "coder", Name: devName})
	if err != nil {
		t.Fatal(err)
	}
	want := workspaceDetails{
		workspace:    workspace{Name: devName, Namespace: "coder", Running: true, Phase: "Running", Owner: "ada", Organization: "coder", Template: "docker"},
		ControlPlane: "coder",
		Conditions:   []servedCondition{{Type: "Ready", Status: "True", Reason: "Running", Message: "the workspace runs", Since: "2026-05-01T10:00:00Z"}},
		Build: &workspaceBuild{Number: 3, Transition: "start", Status: "running", Reason: "initiator", Version: "v1", VersionID: activeID,
			CreatedAt: "2026-05-01T10:00:00Z"},
		Agents:     []workspaceAgent{{Name: "main", Status: "connected", LifecycleState: "ready"}},
		Parameters: map[string]string{"cpu": "4", "key": "ghp_[redacted]"},
		Preset:     "large",
		Schedule:   workspaceSchedule{TTL: "8h0m0s", Autostart: "30 9 * * 1-5", AutomaticUpdates: "never"},
	}
	if diff := cmp.Diff(want, out.Workspace, cmp.AllowUnexported(workspaceDetails{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGetWorkspaceOfAnUnbuiltOneHasNoNull(t *testing.T) {
	ws := &aggregationv1alpha1.CoderWorkspace{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: devName}}
	s := connectTools(t, toolset.Env{Kube: fakeKube(t, interceptor.Funcs{}, nil, ws)})
	answer, isError := s.say(t, "get_workspace", map[string]any{"namespace": "coder", "name": devName})
	want := `{"workspace":{"name":"coder.ada.dev","namespace":"coder","running":false,"conditions":[],"agents":[],"parameters":{},` +
		`"schedule":{"ttl":"never","autostart":"never","dormant":false}}}`
	if answer != want || isError {
		t.Errorf("the answer is %s\nwant %s", answer, want)
	}
}

func TestExcerptsAreShortAndWhole(t *testing.T) {
	for name, s := range map[string]string{
		"short":                      "all of it",
		"as long as fits":            strings.Repeat("x", maxExcerpt),
		"longer":                     strings.Repeat("x", maxExcerpt+1),
		"characters of three bytes":  strings.Repeat("€", maxExcerpt),
		"with a terminal's sequence": "\x1b[31mred\x1b[0m",
	} {
		got := excerpt(s)
		kept := strings.TrimSuffix(got, "…")
		if len(kept) > maxExcerpt || !strings.HasPrefix(strings.ReplaceAll(strings.ReplaceAll(s, "\x1b[31m", ""), "\x1b[0m", ""), kept) {
			t.Errorf("%s: %d bytes: %q", name, len(got), got)
		}
		if cut := len(s) > maxExcerpt; cut != strings.HasSuffix(got, "…") {
			t.Errorf("%s: %q does not say whether it was cut", name, got)
		}
	}
}

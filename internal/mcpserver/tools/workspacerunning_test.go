package tools

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func TestSetWorkspaceRunning(t *testing.T) {
	for name, tt := range map[string]struct {
		phase       string
		in          setWorkspaceRunningInput
		after       []func(client.Object)
		refuse      error
		wantStarted []string
		wantUpdated bool
		wantPhase   string
		wantMessage string
		wantError   string
	}{
		"starts a stopped one":            {phase: "Stopped", in: setWorkspaceRunningInput{Running: true}, wantStarted: []string{"start"}, wantUpdated: true, wantPhase: "Pending"},
		"leaves one that runs":            {phase: "Running", in: setWorkspaceRunningInput{Running: true}, wantPhase: "Running"},
		"leaves one that is stopped":      {phase: "Stopped", in: setWorkspaceRunningInput{}, wantPhase: "Stopped"},
		"leaves one that is starting":     {phase: "Starting", in: setWorkspaceRunningInput{Running: true}, wantPhase: "Starting"},
		"builds again what failed":        {phase: "Failed", in: setWorkspaceRunningInput{Running: true}, wantStarted: []string{"start"}, wantUpdated: true, wantPhase: "Pending"},
		"builds again what was canceled":  {phase: "Canceled", in: setWorkspaceRunningInput{Running: true}, wantStarted: []string{"start"}, wantUpdated: true, wantPhase: "Pending"},
		"stops when told to":              {phase: "Running", in: setWorkspaceRunningInput{Confirm: devName}, wantStarted: []string{"stop"}, wantUpdated: true, wantPhase: "Pending"},
		"stops nothing unasked":           {phase: "Running", in: setWorkspaceRunningInput{}, wantError: "nothing was done yet: ask the user"},
		"stops nothing for another":       {phase: "Running", in: setWorkspaceRunningInput{Confirm: "coder.ada.other"}, wantError: "nothing was done: confirm is"},
		"says that it is forbidden":       {phase: "Stopped", in: setWorkspaceRunningInput{Running: true}, refuse: forbidden("coderworkspaces/start"), wantError: "create coderworkspaces/start.aggregation.coder.com coder/coder.ada.dev"},
		"asks nobody what is forbidden":   {phase: "Running", in: setWorkspaceRunningInput{}, refuse: forbidden("coderworkspaces/stop"), wantError: "create coderworkspaces/stop.aggregation.coder.com coder/coder.ada.dev"},
		"passes a conflict on":            {phase: "Stopped", in: setWorkspaceRunningInput{Running: true}, refuse: conflict("coderworkspaces"), wantError: "somebody else has changed it"},
		"waits until it runs":             {phase: "Stopped", in: setWorkspaceRunningInput{Running: true, Wait: true}, after: []func(client.Object){inPhase("Starting", ""), inPhase("Running", "")}, wantStarted: []string{"start"}, wantUpdated: true, wantPhase: "Running"},
		"waits for what is under way":     {phase: "Starting", in: setWorkspaceRunningInput{Running: true, Wait: true}, after: []func(client.Object){inPhase("Running", "")}, wantPhase: "Running"},
		"waits until it is stopped":       {phase: "Running", in: setWorkspaceRunningInput{Confirm: devName, Wait: true}, after: []func(client.Object){inPhase("Stopping", ""), inPhase("Stopped", "")}, wantStarted: []string{"stop"}, wantUpdated: true, wantPhase: "Stopped"},
		"says why the build failed":       {phase: "Stopped", in: setWorkspaceRunningInput{Running: true, Wait: true}, after: []func(client.Object){inPhase("Starting", ""), inPhase("Failed", "no quota")}, wantStarted: []string{"start"}, wantUpdated: true, wantPhase: "Failed", wantMessage: "the start build failed: no quota; get_build_logs shows the whole log"},
		"says that it vanished meanwhile": {phase: "Stopped", in: setWorkspaceRunningInput{Running: true, Wait: true}, after: []func(client.Object){nil}, wantStarted: []string{"start"}, wantUpdated: true, wantPhase: "Pending", wantMessage: "the workspace was deleted in the meantime"},
		"says how far it is":              {phase: "Stopped", in: setWorkspaceRunningInput{Running: true, Wait: true, TimeoutSeconds: 1}, wantStarted: []string{"start"}, wantError: "last seen: Pending: the build is in progress"},
	} {
		t.Run(name, func(t *testing.T) {
			api := &steps{t: t, after: tt.after, refuse: tt.refuse}
			tt.in.Namespace, tt.in.Name = "coder", devName
			if tt.in.TimeoutSeconds == 0 {
				tt.in.TimeoutSeconds = 10
			}
			out, err := setWorkspaceRunning(t.Context(), &toolset.Call{Kube: fakeKube(t, api.funcs(), nil, devWorkspace(tt.phase))}, tt.in)
			if !slices.Equal(api.started, tt.wantStarted) {
				t.Errorf("the API is asked to %v, want %v", api.started, tt.wantStarted)
			}
			if tt.wantError != "" {
				wantError(t, err, tt.wantError)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if out.Updated != tt.wantUpdated || out.Workspace.Phase != tt.wantPhase || out.Message != tt.wantMessage || out.Workspace.Running != tt.in.Running {
				t.Errorf("the answer is %+v", out)
			}
		})
	}
	_, err := setWorkspaceRunning(t.Context(), &toolset.Call{Kube: fakeKube(t, refuseWrites(t), nil)}, setWorkspaceRunningInput{Namespace: "coder", Name: devName})
	wantError(t, err, `"coder.ada.dev" not found`)
}

func TestSetWorkspaceRunningTellsItsProgress(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	api := &steps{t: t, clock: clk, after: []func(client.Object){inPhase("Starting", ""), inPhase("Running", "")}}
	s := connectTools(t, toolset.Env{Kube: fakeKube(t, api.funcs(), nil, devWorkspace("Stopped")), Clock: clk})
	answer, isError := s.say(t, "set_workspace_running", map[string]any{"namespace": "coder", "name": devName, "running": true, "wait": true})
	want := `{"workspace":{"name":"coder.ada.dev","namespace":"coder","running":true,"phase":"Running","owner":"ada","organization":"coder","template":"docker"},"updated":true}`
	if isError || answer != want {
		t.Fatalf("the answer is %s\nwant %s", answer, want)
	}
	s.wantProgress(t, "Pending: the build is in progress", "Starting: the build is in progress")
}

// The response to an action is the workspace and not the request's body. The fake client
// does not reproduce that.
func TestStartIsARequestThatTheAPITakes(t *testing.T) {
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		phase := "Stopped"
		if len(asked) > 1 {
			phase = "Starting"
		}
		body := `{"apiVersion":"aggregation.coder.com/v1alpha1","kind":"CoderWorkspace","metadata":{"namespace":"coder","name":"coder.ada.dev"},"spec":{"running":false},"status":{"phase":"` + phase + `"}}`
		if _, err := w.Write([]byte(body)); err != nil {
			t.Error(err)
		}
	}))
	defer api.Close()
	out, err := setWorkspaceRunning(t.Context(), &toolset.Call{Kube: realKube(t, api.URL)}, setWorkspaceRunningInput{Namespace: "coder", Name: devName, Running: true})
	if err != nil || out.Workspace.Phase != "Starting" {
		t.Errorf("the answer is %+v, %v", out, err)
	}
	want := strings.Split(strings.ReplaceAll("GET PATH|POST PATH/start|GET PATH", "PATH", devPath), "|")
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

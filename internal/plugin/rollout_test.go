package plugin

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

const newVersion = "22222222-2222-2222-2222-222222222222"

// rolloutAPI has ten workspaces of template hello, r0 to r9, that run. r0 has the active version. A patch starts a build of r, which
// finish ends.
type rolloutAPI struct {
	*fakeAPI
	building map[string]bool
	// most is the maximum number of builds at the same time.
	most int
	// order are the workspaces in the order of their updates.
	order []string
}

func newRolloutAPI(t *testing.T) *rolloutAPI {
	t.Helper()
	api := &rolloutAPI{fakeAPI: sampleAPI(t), building: map[string]bool{}}
	api.setStatus(templates, "coder.hello", fields{"activeVersionID": newVersion})
	for name := range api.objects[workspaces] {
		delete(api.objects[workspaces], name)
	}
	for i := range 10 {
		version := "old"
		if i == 0 {
			version = newVersion
		}
		api.apply(t, fmt.Sprintf(`
apiVersion: aggregation.coder.com/v1alpha1
kind: CoderWorkspace
metadata: {name: coder.ada.r%[1]d, namespace: coder, labels: {aggregation.coder.com/control-plane-name: coder}}
spec: {templateVersionID: %[2]s, running: true}
status: {ownerName: ada, organizationName: coder, templateName: hello, phase: Running, latestBuild: {number: 1},
  conditions: [{type: Ready, status: "True"}], lastUsedAt: %[3]q}`, i, version, noon.Add(-time.Hour).Format(time.RFC3339)))
		name := fmt.Sprintf("coder.ada.r%d", i)
		api.answer("PATCH "+inCoder+"/coderworkspaces/"+name, func(w http.ResponseWriter, _ *http.Request) {
			api.change(workspaces, "coder/"+name, func(o fields) { o["spec"].(fields)["templateVersionID"] = newVersion })
			becomes(api.fakeAPI, name, "Stopping", 2)
			api.building[name] = true
			api.order = append(api.order, strings.TrimPrefix(name, "coder.ada."))
			api.most = max(api.most, len(api.building))
			respond(w, http.StatusOK, api.objects[workspaces]["coder/"+name].Object)
		})
	}
	return api
}

// finish ends all builds, with this error for those of a workspace.
func (api *rolloutAPI) finish(broken, message string) {
	for name := range api.building {
		delete(api.building, name)
		if name == broken {
			becomes(api.fakeAPI, name, "Failed", 2, condition("Stalled", "True", "BuildFailed", message))
			continue
		}
		becomes(api.fakeAPI, name, "Running", 3, condition("Ready", "True", "Running", ""))
	}
}

// update runs kubectl coder update for the workspaces of hello.
func (api *rolloutAPI) update(t *testing.T, broken string, flags ...string) answer {
	t.Helper()
	api.order, api.most = nil, 0
	h := newHarness()
	h.clock.after = func(int) { api.finish(broken, "no such image") }
	return h.run(t, api.fakeAPI, append([]string{"-n", "coder", "update", "--template", "hello", "--yes"}, flags...)...)
}

func TestRollout(t *testing.T) {
	api := newRolloutAPI(t)
	// A dry run changes nothing.
	if got := api.update(t, "", "--max-unavailable", "3", "--dry-run"); got.code != 0 || len(api.objects[workspaces]) != 10 {
		t.Errorf("a dry run: %+v", got)
	}
	api = newRolloutAPI(t)
	// r4 fails: those that have begun are waited for, and no more begin.
	got := api.update(t, "coder.ada.r4", "--max-unavailable", "20%")
	if got.code != 3 || !strings.Contains(got.err, "r4: no such image") || !strings.Contains(got.err, "stopped, because 1 failed: 5 workspaces were not updated") {
		t.Errorf("the failure: %+v", got)
	}
	if api.most != 2 || strings.Join(api.order, " ") != "r1 r2 r3 r4" || strings.Count(got.out, " updated\n") != 3 {
		t.Errorf("the order is %v, at most %d at the same time: %s", api.order, api.most, got.out)
	}
	// The same command continues. The failed one has the version already.
	got = api.update(t, "", "--max-unavailable", "20%")
	if got.code != 0 || strings.Join(api.order, " ") != "r5 r6 r7 r8 r9" || !strings.Contains(got.err, "coder.ada.r4 has the active version already") {
		t.Errorf("continued: %v %+v", api.order, got)
	}
	// More failures may be allowed, and an update that does not end is one.
	api = newRolloutAPI(t)
	got = api.update(t, "coder.ada.r1", "--max-unavailable", "1", "--max-failures", "2")
	if got.code != 3 || len(api.order) != 9 {
		t.Errorf("with two failures allowed: %v %+v", api.order, got)
	}
	api = newRolloutAPI(t)
	got = newHarness().run(t, api.fakeAPI, "-n", "coder", "update", "--template", "hello", "--yes", "--max-unavailable", "2", "--timeout", "1m")
	if got.code != 1 || len(api.order) != 2 || !strings.Contains(got.err, "it is not updated after 1m0s: Stopping") {
		t.Errorf("builds that do not end: %v %+v", api.order, got)
	}
}

// TestRolloutSparesUsers: a workspace that somebody uses is left as it is, also if its use begins during the rollout.
func TestRolloutSparesUsers(t *testing.T) {
	api := newRolloutAPI(t)
	used := func(name string, at time.Time) {
		api.setStatus(workspaces, name, fields{"lastUsedAt": at.Format(time.RFC3339)})
	}
	used("coder.ada.r1", noon.Add(-10*time.Minute))
	api.change(workspaces, "coder/coder.ada.r2", func(o fields) { o["spec"].(fields)["running"] = false })
	api.setStatus(workspaces, "coder.ada.r2", fields{"phase": "Stopped", "lastUsedAt": noon.Format(time.RFC3339)})
	if got := api.update(t, "", "--only-stopped", "--dry-run"); got.code != 0 || strings.Count(got.out, "dry run") != 1 || !strings.Contains(got.out, "r2 updated") ||
		strings.Count(got.err, "is not stopped: skipped") != 8 {
		t.Errorf("--only-stopped: %+v", got)
	}
	h := newHarness()
	h.clock.after = func(int) {
		used("coder.ada.r9", h.clock.now)
		api.finish("", "")
	}
	got := h.run(t, api.fakeAPI, "-n", "coder", "update", "--template", "hello", "--yes", "--max-unavailable", "2", "--idle", "30m")
	if got.code != 0 || strings.Join(api.order, " ") != "r2 r3 r4 r5 r6 r7 r8" || strings.Count(got.err, "skipped") != 2 {
		t.Errorf("--idle: %v %+v", api.order, got)
	}
}

// TestUseThatBeginsBeforeTheUpdate: without --max-unavailable too, a workspace is read again before it is stopped, for example because
// the question was answered late.
func TestUseThatBeginsBeforeTheUpdate(t *testing.T) {
	api := newRolloutAPI(t)
	api.answer("GET /apis/coder.com/v1alpha1/namespaces/coder/codercontrolplanes", func(w http.ResponseWriter, _ *http.Request) {
		// The workspaces have been listed.
		api.setStatus(workspaces, "coder.ada.r9", fields{"lastUsedAt": noon.Format(time.RFC3339)})
		respond(w, http.StatusOK, fields{"apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlaneList", "items": []any{}})
	})
	got := api.update(t, "", "--idle", "30m")
	if got.code != 0 || strings.Join(api.order, " ") != "r1 r2 r3 r4 r5 r6 r7 r8" || !strings.Contains(got.err, "r9 was used at") {
		t.Errorf("%v %+v", api.order, got)
	}
}

// TestRolloutLeavesTestsAlone: a workspace of a CoderTemplateTest keeps its version, unless it is named. One that is deleted during the
// rollout is no failure.
func TestRolloutLeavesTestsAlone(t *testing.T) {
	api := newRolloutAPI(t)
	api.change(planes, "coder/coder", func(o fields) { o["spec"].(fields)["templateTests"] = fields{"ownerUsername": "Template-Tester"} })
	api.setStatus(workspaces, "coder.ada.r3", fields{"ownerName": "template-tester"})
	h := newHarness()
	h.clock.after = func(int) {
		delete(api.objects[workspaces], "coder/coder.ada.r9")
		api.finish("", "")
	}
	got := h.run(t, api.fakeAPI, "-n", "coder", "update", "--template", "hello", "--yes", "--max-unavailable", "2")
	if got.code != 0 || strings.Join(api.order, " ") != "r1 r2 r4 r5 r6 r7 r8" ||
		!strings.Contains(got.err, "r3 belongs to a test of its version: skipped") || !strings.Contains(got.err, "r9 was deleted meanwhile: skipped") {
		t.Errorf("%v %+v", api.order, got)
	}
	if got := h.run(t, api.fakeAPI, "-n", "coder", "update", "coder.ada.r3", "--yes"); got.code != 0 || api.order[len(api.order)-1] != "r3" {
		t.Errorf("the named workspace of a test: %v %+v", api.order, got)
	}
}

// TestRolloutLeavesNewerVersions: a workspace that got another version during the rollout is not brought back to the one that was
// active when the rollout began.
func TestRolloutLeavesNewerVersions(t *testing.T) {
	api := newRolloutAPI(t)
	h := newHarness()
	h.clock.after = func(int) {
		api.change(workspaces, "coder/coder.ada.r9", func(o fields) { o["spec"].(fields)["templateVersionID"] = "newer" })
		api.finish("", "")
	}
	got := h.run(t, api.fakeAPI, "-n", "coder", "update", "--template", "hello", "--yes", "--max-unavailable", "2")
	if got.code != 0 || strings.Join(api.order, " ") != "r1 r2 r3 r4 r5 r6 r7 r8" || !strings.Contains(got.err, "r9 got another version meanwhile: skipped") {
		t.Errorf("%v %+v", api.order, got)
	}
}

func TestRolloutOptions(t *testing.T) {
	runEach(t, sampleAPI(t), map[string]answer{
		"update --all --only-stopped --idle 30m":        {2, "", "give --only-stopped or --idle, not both"},
		"update --all --idle 30s":                       {2, "", "give at least 5m0s"},
		"update --all --max-unavailable 0":              {2, "", `--max-unavailable "0"`},
		"update --all --max-unavailable 101%":           {2, "", `--max-unavailable "101%"`},
		"update --all --max-unavailable some":           {2, "", `--max-unavailable "some"`},
		"update --all --max-failures 0":                 {2, "", "--max-failures 0: give 1 or more"},
		"update --template nothing --max-unavailable 1": {1, "", "there is no such workspace"},
		"update dev --template hello":                   {2, "", "give names, or choose"},
	})
	for text, want := range map[string]int{"5": 5, "10%": 2, "1%": 1, "100%": 25, "50": 50} {
		if got, err := (&rollout{unavailable: text}).most(25); got != want || err != nil {
			t.Errorf("%s of 25 is %d (%v), want %d", text, got, err, want)
		}
	}
	ws := func(phase string, running bool, used *metav1.Time) *aggregationv1alpha1.CoderWorkspace {
		return &aggregationv1alpha1.CoderWorkspace{Spec: aggregationv1alpha1.CoderWorkspaceSpec{Running: ptr.To(running)},
			Status: aggregationv1alpha1.CoderWorkspaceStatus{Phase: phase, LastUsedAt: used}}
	}
	ago := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(-d)} }
	stopped, idle := rollout{onlyStopped: true}, rollout{idle: 30 * time.Minute}
	for what, c := range map[string]struct {
		o    rollout
		ws   *aggregationv1alpha1.CoderWorkspace
		used bool
	}{
		"no option":                   {rollout{}, ws("Running", true, ago(0)), false},
		"only stopped: it is":         {stopped, ws("Stopped", false, ago(0)), false},
		"only stopped: it runs":       {stopped, ws("Running", true, ago(time.Hour)), true},
		"only stopped: it will start": {stopped, ws("Stopped", true, nil), true},
		"only stopped: it failed":     {stopped, ws("Failed", false, nil), true},
		"idle: stopped":               {idle, ws("Stopped", false, ago(0)), false},
		"idle: for long":              {idle, ws("Running", true, ago(30*time.Minute)), false},
		"idle: not for long":          {idle, ws("Running", true, ago(29*time.Minute)), true},
		"idle: not known":             {idle, ws("Running", true, nil), true},
		"idle: Coder's clock is fast": {idle, ws("Running", true, ago(-time.Minute)), true},
	} {
		if got := c.o.inUse(c.ws, noon); (got != "") != c.used {
			t.Errorf("%s: %q, want that it is in use: %t", what, got, c.used)
		}
	}
}

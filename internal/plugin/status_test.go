package plugin

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/installation"
)

const (
	planes     = "/apis/coder.com/v1alpha1/codercontrolplanes"
	templates  = "/apis/aggregation.coder.com/v1alpha1/codertemplates"
	workspaces = "/apis/aggregation.coder.com/v1alpha1/coderworkspaces"
	inCoder    = "/apis/aggregation.coder.com/v1alpha1/namespaces/coder"
)

// sampleAPI returns the API with a small installation in namespace coder.
func sampleAPI(t *testing.T) *fakeAPI {
	t.Helper()
	manifests, err := os.ReadFile("testdata/coder.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return newFakeAPI(t, string(manifests))
}

// renamedAPI is sampleAPI after renames in Coder. Template hello is bar now, and the workspaces have
// other names. Workspace coder.bo.dev was created after that. Template coder.bar was bar before.
func renamedAPI(t *testing.T) *fakeAPI {
	t.Helper()
	api := sampleAPI(t)
	api.apply(t, `apiVersion: aggregation.coder.com/v1alpha1
kind: CoderTemplate
metadata: {name: coder.bar, namespace: coder, labels: {aggregation.coder.com/control-plane-name: coder}}
status: {organizationName: coder, templateName: baz, activeVersionID: 33333333-3333-3333-3333-333333333333}`)
	api.setStatus(templates, "coder.hello", fields{"templateName": "bar"})
	for _, name := range []string{"coder.ada.dev", "coder.bo.api", "coder.bo.dev"} {
		api.setStatus(workspaces, name, fields{"templateName": "bar", "workspaceName": "new"})
	}
	api.change(workspaces, "coder/coder.bo.dev", func(o fields) { o["spec"].(fields)["templateName"] = "bar" })
	return api
}

func TestStatusScreens(t *testing.T) {
	since := noon.Add(-3 * time.Minute)
	broken := []installation.Problem{{
		Object: "APIService v1alpha1.aggregation.coder.com", What: "is not available: no endpoints\x1b[2J", Do: "look at Deployment coder-k8s", Since: &since,
	}}
	for name, c := range map[string]struct {
		args     []string
		coloured bool
		problems []installation.Problem
	}{
		"status.golden":          {args: []string{"-n", "coder"}},
		"status-coloured.golden": {args: []string{"-n", "coder"}, coloured: true, problems: broken},
		"status-wide.golden":     {args: []string{"-A", "-o", "wide"}},
		"status-json.golden":     {args: []string{"-A", "-o", "json"}, problems: broken},
		"status-yaml.golden":     {args: []string{"-n", "coder", "-o", "yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newHarness()
			d.coloured, d.problems = c.coloured, c.problems
			got := d.run(t, sampleAPI(t), append([]string{"status"}, c.args...)...)
			if got.code != 4 || got.err != "" {
				t.Errorf("exit code %d, standard error %q", got.code, got.err)
			}
			golden(t, name, got.out)
		})
	}
}

// TestStatusCodes checks the exit codes.
func TestStatusCodes(t *testing.T) {
	forbidden := refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "you may not list that")
	away := refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "no endpoints available")
	for name, c := range map[string]struct {
		prepare func(d *harness, api *fakeAPI)
		args    []string
		code    int
		out     string
		err     string
	}{
		"nothing there": {args: []string{"-n", "empty"}, out: "No problems."},
		"nothing there in any namespace": {args: []string{"-A"}, out: "There is no control plane on this cluster.", prepare: func(_ *harness, api *fakeAPI) {
			for _, objects := range api.objects {
				clear(objects)
			}
		}},
		"installation broken": {args: []string{"-n", "empty"}, code: 4, out: "Problems (1)", prepare: func(d *harness, _ *fakeAPI) {
			d.problems = []installation.Problem{{Object: "it", What: "is broken", Do: "mend it"}}
		}},
		"installation not to be seen": {args: []string{"-n", "empty"}, code: 3, out: "Not checked: the installation: no rights", prepare: func(d *harness, _ *fakeAPI) {
			d.checkError = errors.New("no rights")
		}},
		"installation not requested": {args: []string{"-n", "empty", "--installation=false"}, out: "No problems.", prepare: func(d *harness, _ *fakeAPI) {
			d.checkError = errors.New("no rights")
		}},
		"one kind forbidden": {args: []string{"-n", "empty"}, code: 3, out: "Not checked: codercontrolplanes.coder.com: you may not list that", prepare: func(_ *harness, api *fakeAPI) {
			api.answer("GET /apis/coder.com/v1alpha1/namespaces/empty/codercontrolplanes", forbidden)
		}},
		"aggregated API away": {args: []string{"-n", "empty"}, code: 4, out: "There is no control plane in namespace empty (-A shows all namespaces).\n\nProblems (1)\nresource coderworkspaces.aggregation.coder.com\n  cannot be read now", prepare: func(_ *harness, api *fakeAPI) {
			api.answer("GET /apis/aggregation.coder.com/v1alpha1/namespaces/empty/coderworkspaces", away)
		}},
		"aggregated API away, with a control plane": {args: []string{"-n", "coder"}, code: 4, out: "Workspaces   unknown, because they could not be read", prepare: func(_ *harness, api *fakeAPI) {
			api.answer("GET "+inCoder+"/coderworkspaces", away)
		}},
		"control planes forbidden": {args: []string{"-n", "empty"}, code: 3, out: "Templates    none\nWorkspaces   none\n\nNot checked", prepare: func(_ *harness, api *fakeAPI) {
			api.answer("GET /apis/coder.com/v1alpha1/namespaces/empty/codercontrolplanes", forbidden)
		}},
		"kind missing": {args: []string{"-n", "empty"}, code: 4, out: "resource coderprovisioners.coder.com\n  is not served", prepare: func(_ *harness, api *fakeAPI) {
			delete(api.objects, "/apis/coder.com/v1alpha1/coderprovisioners")
		}},
		"nothing to be seen": {args: []string{"-n", "empty"}, code: 1, err: "kubectl coder: the cluster cannot be reached", prepare: func(d *harness, api *fakeAPI) {
			d.checkError = errors.New("no cluster")
			api.Close()
		}},
		"only the installation's problems to be seen": {args: []string{"-n", "empty"}, code: 4, out: "Problems (1)", prepare: func(d *harness, api *fakeAPI) {
			d.problems, d.checkError = []installation.Problem{{Object: "it", What: "is broken", Do: "mend it"}}, errors.New("no rights")
			api.answerEmpty(forbidden)
		}},
		"interval too short": {args: []string{"--watch", "--interval", "1ms"}, code: 2, err: "--interval is 1ms, and must be at least 1s"},
		"format unknown":     {args: []string{"-o", "xml"}, code: 2, err: "must be wide, json or yaml"},
		"argument":           {args: []string{"coder"}, code: 2, err: "takes none"},
	} {
		t.Run(name, func(t *testing.T) {
			d, api := newHarness(), sampleAPI(t)
			if c.prepare != nil {
				c.prepare(d, api)
			}
			d.run(t, api, append([]string{"status"}, c.args...)...).want(t, c.code, c.out, c.err)
		})
	}
}

// answerEmpty sets the response for lists of all kinds in namespace empty.
func (f *fakeAPI) answerEmpty(handler http.HandlerFunc) {
	for _, kind := range []string{
		"coder.com/v1alpha1/namespaces/empty/codercontrolplanes", "coder.com/v1alpha1/namespaces/empty/coderprovisioners",
		"coder.com/v1alpha1/namespaces/empty/coderworkspaceproxies", "aggregation.coder.com/v1alpha1/namespaces/empty/codertemplates",
		"aggregation.coder.com/v1alpha1/namespaces/empty/coderworkspaces",
	} {
		f.answer("GET /apis/"+kind, handler)
	}
}

// TestStatusFaults checks that objects with the same fault are one line with a count, and that
// objects that are scaled to zero are shown as such.
func TestStatusFaults(t *testing.T) {
	api := sampleAPI(t)
	for _, name := range []string{"a", "b", "c"} {
		api.apply(t, strings.ReplaceAll(`apiVersion: aggregation.coder.com/v1alpha1
kind: CoderWorkspace
metadata: {name: coder.cy.NAME, namespace: coder}
status:
  phase: Running
  healthy: false
  conditions:
  - {type: Ready, status: "False", reason: AgentsUnavailable, message: "agent \"main\" of NAME is disconnected", lastTransitionTime: "2026-03-01T11:30:00Z"}`, "NAME", name))
	}
	api.setStatus(planes, "coder", fields{"conditions": []any{condition("Ready", "True", "ScaledToZero", "no pod is wanted")}})
	alone := newHarness().run(t, api, "status", "-n", "coder")
	for _, want := range []string{"True    ScaledToZero   1/1", "6: 3 Unhealthy, 1 Failed, 1 Running, 1 Stopped", "CoderWorkspace coder/coder.cy.b for 30m\n", "  do: kubectl -n coder logs --all-containers --prefix --tail=-1 -l com.coder.workspace.id=; if its pods are not there, in pods-of-ada\n"} {
		if !strings.Contains(alone.out, want) {
			t.Errorf("there is no %q in\n%s", want, alone.out)
		}
	}
	for _, name := range []string{"coder.cy.a", "coder.cy.b", "coder.cy.c"} {
		becomes(api, name, "Running", 1, condition("Ready", "False", "AgentsUnavailable", "the agent is disconnected"))
	}
	newHarness().run(t, api, "status", "-n", "coder").want(t, 4, "3 CoderWorkspaces (coder/coder.cy.a, coder/coder.cy.b, coder/coder.cy.c)\n  not ready, AgentsUnavailable: the agent is disconnected\n", "")
}

// TestStatusOfWhatIsReadyAndDoesNotWork checks that a false condition is shown even if it does not
// affect Ready.
func TestStatusOfWhatIsReadyAndDoesNotWork(t *testing.T) {
	api := sampleAPI(t)
	api.setStatus(planes, "coder", fields{"conditions": []any{
		condition("Ready", "True", "Ready", "Coder runs"), condition("WorkspaceAccess", "Unknown", "Reconciling", "not granted yet"),
		condition("HighAvailabilityEntitled", "False", "NotEntitled", "2 replicas are requested"),
		condition("DatabaseExclusive", "False", "DatabaseShared", "another uses it"),
		condition("VersionSupported", "False", "NewerVersion", "it was not tested"),
		condition("DeploymentAvailable", "True", "DatabaseSecretMissing", "new pods cannot start"),
	}})
	got := newHarness().run(t, api, "status", "-n", "coder")
	got.want(t, 4, "  condition HighAvailabilityEntitled is False, NotEntitled: 2 replicas are requested\n  do: kubectl -n coder describe codercontrolplane coder\n", "")
	if !strings.Contains(got.out, "  condition DatabaseExclusive is False, DatabaseShared: another uses it\n") {
		t.Errorf("a shared database is not shown:\n%s", got.out)
	}
	if !strings.Contains(got.out, "  condition DeploymentAvailable is True, DatabaseSecretMissing: new pods cannot start\n") {
		t.Errorf("a missing Secret is not shown:\n%s", got.out)
	}
	// Such a Coder is no problem until something fails.
	if !strings.Contains(got.out, "v2.30.0 (not supported)") || strings.Contains(got.out, "it was not tested") {
		t.Errorf("the version is not shown, or shown as a problem:\n%s", got.out)
	}
	if strings.Contains(got.out, "WorkspaceAccess") {
		t.Errorf("what is not known yet is shown as wrong:\n%s", got.out)
	}
}

// TestStatusWatch checks that a changed report is printed again, and that the exit code is the one
// of the last report.
func TestStatusWatch(t *testing.T) {
	d, api := newHarness(), sampleAPI(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d.ctx = ctx
	d.clock.after = func(wait int) {
		switch wait {
		case 2:
			api.mu.Lock()
			delete(api.objects[workspaces], "coder/coder.bo.api")
			delete(api.objects["/apis/coder.com/v1alpha1/coderprovisioners"], "coder/build")
			api.mu.Unlock()
		case 4:
			cancel()
		}
	}
	got := d.run(t, api, "status", "-n", "coder", "--watch")
	if got.code != 130 || got.err != "" || strings.Count(got.out, "Control planes") != 2 || !strings.Contains(got.out, "Problems (2)") || !strings.HasSuffix(got.out, "No problems.\n") {
		t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
	}
}

// TestStatusWatchFailure checks that the error of a report that cannot be read does not control the
// terminal.
func TestStatusWatchFailure(t *testing.T) {
	d, api := newHarness(), sampleAPI(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d.ctx = ctx
	d.clock.after = func(wait int) {
		if wait == 2 {
			cancel()
		}
	}
	d.checkError = errors.New("no \x1b[2Jrights\u009b")
	api.answerEmpty(refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "you may not list that"))
	got := d.run(t, api, "status", "-n", "empty", "--watch")
	if !strings.Contains(got.err, "the state could not be read: ") || !strings.Contains(got.err, "no [2Jrights") || strings.ContainsAny(got.err, "\x1b\u009b") {
		t.Errorf("standard error is %q", got.err)
	}
}

// TestWorkspaceHints checks that a command names the namespace and the pod that have the problem.
func TestWorkspaceHints(t *testing.T) {
	w := &aggregationv1alpha1.CoderWorkspace{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "coder.ada.dev"}}
	w.Status.ID = "1"
	const label = " -l com.coder.workspace.id=1"
	for _, c := range []struct{ pod, reason, want string }{
		{"", "AgentsUnavailable", "kubectl -n coder logs --all-containers --prefix --tail=-1" + label + "; if its pods are not there, in a or b"},
		{"pod team/ada-0: ", "AgentsUnavailable", "kubectl -n team logs --all-containers --prefix --tail=-1 ada-0"},
		{"pod team/ada-0: ", "ContainerCrashed", "kubectl -n team logs --all-containers --ignore-errors --prefix --previous ada-0"},
		{"pod team/ada-0: ", "ImagePullFailed", "kubectl -n team describe pods ada-0"},
		{"pod $(x)/ada-0: ", "ImagePullFailed", "kubectl -n coder describe pods" + label},
	} {
		w.Status.Conditions = nil
		if c.pod != "" {
			w.Status.Conditions = []metav1.Condition{{Type: aggregationv1alpha1.ConditionPodsHealthy, Status: metav1.ConditionFalse, Message: c.pod + "it does not work"}}
		}
		if got := workspaceHint(w, c.reason, []string{"a", "b"}); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.pod, c.reason, got, c.want)
		}
	}
}

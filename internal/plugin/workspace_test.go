package plugin

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// taking makes the API accept an action of a workspace.
func taking(api *fakeAPI, verb string, names ...string) {
	for _, name := range names {
		api.answer("POST "+inCoder+"/coderworkspaces/"+name+"/"+verb, func(w http.ResponseWriter, _ *http.Request) {
			respond(w, http.StatusCreated, map[string]any{"apiVersion": "aggregation.coder.com/v1alpha1", "kind": "CoderWorkspaceAction"})
		})
	}
}

// becomes sets the state of a workspace in the API.
func becomes(api *fakeAPI, name, phase string, build int64, conditions ...any) {
	api.setStatus(workspaces, name, fields{"phase": phase, "conditions": conditions, "latestBuild": fields{"number": build}})
}

func condition(kind, status, reason, message string) map[string]any {
	return map[string]any{"type": kind, "status": status, "reason": reason, "message": message}
}

func TestWorkspaceCommandLines(t *testing.T) {
	for line, want := range map[string]answer{
		"start":                           {2, "", "which workspaces?"},
		"start --all -l a=b":              {2, "", "give -l or --all, not both"},
		"start dev --all":                 {2, "", "give names, or choose"},
		"start dev --owner ada":           {2, "", "give names, or choose"},
		"start -l a==b==c":                {2, "", "--selector"},
		"start dev -n coder":              {2, "", `"dev" could be any of coder.ada.dev, coder.bo.dev: give the whole name`},
		"start template/x":                {2, "", `this command does not support "template"`},
		"start nobody -n coder":           {1, "", `"nobody" not found in namespace coder, which has coder.ada.dev, coder.bo.api, coder.bo.dev; kubectl get coderworkspaces -A lists all`},
		"start --all -n empty":            {1, "", "there is no such workspace in namespace empty"},
		"stop ada.dev -n coder":           {2, "", "Stop workspace coder.ada.dev of ada? Its processes are stopped. This cannot be confirmed"},
		"restart --all -n coder":          {2, "", "Restart 3 workspaces (coder/coder.ada.dev, coder/coder.bo.api, coder/coder.bo.dev)?"},
		"start bo.dev -n coder":           {0, "coderworkspace.aggregation.coder.com/coder.bo.dev start requested\n", ""},
		"start cws/bo.dev -n coder":       {0, "coder.bo.dev start requested\n", ""},
		"start bo.dev -n coder -o name":   {0, "coderworkspace.aggregation.coder.com/coder.bo.dev\n", ""},
		"start bo.dev -n coder -o json":   {0, `"kind": "CoderWorkspace"`, ""},
		"start --all -n coder -o yaml":    {0, "kind: CoderWorkspaceList", ""},
		"start bo.dev -n coder --dry-run": {0, "coder.bo.dev started (server dry run)\n", ""},
		"stop ada.dev -n coder --yes":     {0, "coder.ada.dev stop requested\n", ""},
		"stop ada.dev -n coder --dry-run": {0, "coder.ada.dev stopped (server dry run)\n", ""},
		"start ada.dev -n coder":          {0, "coderworkspace.aggregation.coder.com/coder.ada.dev is running already\n", ""},
		"stop bo.dev -n coder":            {0, "coderworkspace.aggregation.coder.com/coder.bo.dev is stopped already\n", ""},
		"start ada.dev -n coder -o json":  {0, `"name": "coder.ada.dev"`, ""},
		"update nobody -n coder":          {1, "", `"nobody" not found in namespace coder, which has coder.ada.dev`},
		"orphan ada.dev -n coder":         {2, "", "Delete workspace coder.ada.dev of ada in Coder only? It cannot be brought back. What is listed above"},
		"orphan --all -n coder":           {2, "", "Delete 3 workspaces (coder/coder.ada.dev, coder/coder.bo.api, coder/coder.bo.dev) in Coder only? They cannot be brought back."},
		"orphan ada.dev -n coder --yes":   {0, "coder.ada.dev deletion requested\n", "workspace coder.ada.dev: Pod pods-of-ada/ada-dev stays\n"},
		"delete ada.dev":                  {2, "", "kubectl coder orphan NAME if no provisioner can build it does that"},
		"frobnicate":                      {2, "", `"frobnicate" is not a command of kubectl coder`},
		"statsu":                          {2, "", `"statsu" is not a command of kubectl coder; did you mean status?`},
		"get":                             {2, "", `kubectl get coderworkspaces,codertemplates does that`},
		"template psuh":                   {2, "", `did you mean push?`},
		"start --frobnicate":              {2, "", "unknown flag: --frobnicate"},
	} {
		t.Run(line, func(t *testing.T) {
			api := sampleAPI(t)
			taking(api, "start", "coder.ada.dev", "coder.bo.api", "coder.bo.dev")
			taking(api, "stop", "coder.ada.dev")
			taking(api, "orphan", "coder.ada.dev")
			newHarness().run(t, api, strings.Fields(line)...).want(t, want.code, want.out, want.err)
			if nothing := want.code != 0 || strings.Contains(want.out, "already"); nothing && len(api.writes) > 0 {
				t.Errorf("it wrote %q", api.writes)
			}
		})
	}
}

// TestCompleteName checks that a complete name is not used as the end of a name in another control
// plane.
func TestCompleteName(t *testing.T) {
	api := newFakeAPI(t, `apiVersion: aggregation.coder.com/v1alpha1
kind: CoderTemplate
metadata: {name: second.coder.hello, namespace: coder}
---
apiVersion: aggregation.coder.com/v1alpha1
kind: CoderWorkspace
metadata: {name: second.coder.ada.dev, namespace: coder}
spec: {running: true}
status: {phase: Running}`)
	taking(api, "stop", "second.coder.ada.dev")
	run := func(line string, words ...string) answer {
		return newHarness().run(t, api, append(strings.Fields(line), words...)...)
	}
	run("stop -n coder coder.ada.dev --yes").want(t, 1, "", `coderworkspaces "coder.ada.dev" not found; kubectl get coderworkspaces -A lists all`)
	if got := run("__complete --server", api.URL, "stop", "-n", "coder", "coder"); strings.Contains(got.out, "coder.ada.dev") {
		t.Errorf("the completion offers %q", got.out)
	}
	run("template push -n coder coder.hello --create", directory(t, map[string]string{"main.tf": "# one\n"})).
		want(t, 0, "codertemplate.aggregation.coder.com/coder.hello created\n", "")
	run("stop -n coder ada.dev --yes").want(t, 0, "second.coder.ada.dev stop requested\n", "")
	want := []string{
		"POST " + inCoder + "/codertemplates?fieldManager=kubectl-coder",
		"POST " + inCoder + "/coderworkspaces/second.coder.ada.dev/stop",
	}
	if !slices.Equal(api.writes, want) {
		t.Errorf("the writes are %q, want %q", api.writes, want)
	}
}

func TestWorkspaceSelection(t *testing.T) {
	for line, names := range map[string][]string{
		"--all":                {"coder.ada.dev", "coder.bo.api", "coder.bo.dev"},
		"-l team=compilers":    {"coder.ada.dev", "coder.bo.api"},
		"--all --owner bo":     {"coder.bo.api", "coder.bo.dev"},
		"--all -A --owner ada": {"coder.ada.dev"},
		"--all --owner Ada":    {"coder.ada.dev"},
		// The name of the template's object selects the same workspaces.
		"--all --template coder.hello": {"coder.ada.dev", "coder.bo.api", "coder.bo.dev"},
		"--all --template bar":         {"coder.ada.dev", "coder.bo.api", "coder.bo.dev"},
		"coder.ada.dev bo.api":         {"coder.ada.dev", "coder.bo.api"},
	} {
		t.Run(line, func(t *testing.T) {
			api := renamedAPI(t)
			taking(api, "restart", names...)
			got := newHarness().run(t, api, append([]string{"restart", "--yes", "-n", "coder"}, strings.Fields(line)...)...)
			var want []string
			for _, name := range names {
				want = append(want, "POST "+inCoder+"/coderworkspaces/"+name+"/restart")
			}
			slices.Sort(api.writes)
			if !slices.Equal(api.writes, want) || got.code != 0 {
				t.Errorf("exit code %d, writes\n%q, want\n%q\n%s", got.code, api.writes, want, got.err)
			}
		})
	}
}

// TestWorkspaceQuestions checks that a disruptive action requires a confirmation.
func TestWorkspaceQuestions(t *testing.T) {
	for input, want := range map[string]answer{
		"y\n":   {0, "stop requested", "[y/N]"},
		"yes\n": {0, "stop requested", "[y/N]"},
		"n\n":   {1, "", "not confirmed: nothing was done"},
		"":      {1, "", "not confirmed: nothing was done"},
	} {
		d, api := newHarness(), sampleAPI(t)
		taking(api, "stop", "coder.ada.dev")
		d.interactive, d.input = true, input
		d.run(t, api, "stop", "-n", "coder", "coder.ada.dev").want(t, want.code, want.out, want.err)
		if (len(api.writes) > 0) != (want.code == 0) {
			t.Errorf("%q: it wrote %q", input, api.writes)
		}
	}
}

// TestAggregatedAPIAway checks that the error contains the cause.
func TestAggregatedAPIAway(t *testing.T) {
	api := sampleAPI(t)
	api.answer("GET "+inCoder+"/coderworkspaces/coder.ada.dev", refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "no endpoints"))
	newHarness().run(t, api, "start", "-n", "coder", "coder.ada.dev").want(t, 1, "", "kubectl coder: no endpoints\nkubectl coder: kubectl coder status shows what is wrong\n")
	// If the list of workspaces cannot be read, a short name is not reported as "not found".
	api.answer("GET "+inCoder+"/coderworkspaces", refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "Coder cannot be reached"))
	api.setStatus(planes, "coder", fields{"conditions": []any{condition("Ready", "False", "CrashLooping", "it fell over")}})
	newHarness().run(t, api, "start", "-n", "coder", "dev").want(t, 1, "", "kubectl coder: Coder cannot be reached\nkubectl coder: control plane coder/coder is CrashLooping: it fell over\n")
}

// TestUpdate checks that the active version of the template is written to the spec, unless it is
// set already.
func TestUpdate(t *testing.T) {
	const v2 = "22222222-2222-2222-2222-222222222222"
	api := renamedAPI(t)
	api.setStatus(templates, "coder.hello", fields{"activeVersionID": v2})
	api.change(workspaces, "coder/coder.bo.api", func(o fields) { o["spec"].(fields)["templateVersionID"] = v2 })
	var bodies []string
	for _, name := range []string{"coder.ada.dev", "coder.bo.dev"} {
		api.answer("PATCH "+inCoder+"/coderworkspaces/"+name, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			bodies = append(bodies, string(body))
			respond(w, http.StatusOK, map[string]any{"apiVersion": "aggregation.coder.com/v1alpha1", "kind": "CoderWorkspace", "metadata": map[string]any{"name": name, "namespace": "coder"}})
		})
	}
	newHarness().run(t, api, "update", "-n", "coder", "ada.dev").want(t, 2, "", "Update workspace coder.ada.dev of ada? Its processes are stopped.")
	newHarness().run(t, api, "update", "-n", "coder", "--all", "--yes").
		want(t, 0, "coder.ada.dev update requested\ncoderworkspace.aggregation.coder.com/coder.bo.dev update requested\n", "coder.bo.api has the active version already\n")
	if want := `{"spec":{"templateVersionID":"` + v2 + `"}}`; len(bodies) != 2 || bodies[0] != want || bodies[1] != want {
		t.Errorf("the patches are %q", bodies)
	}
	api.setStatus(workspaces, "coder.bo.dev", fields{"templateName": "gone"})
	newHarness().run(t, api, "update", "-n", "coder", "bo.dev", "--yes").
		want(t, 1, "", `template "gone" of workspace coder/coder.bo.dev was not found in organization "coder"; if it was renamed in Coder a moment ago, try again`)
}

// TestEphemeralParameter checks that the values are sent, also to a workspace that runs, whose server decides.
func TestEphemeralParameter(t *testing.T) {
	api := sampleAPI(t)
	var body string
	api.answer("POST "+inCoder+"/coderworkspaces/coder.ada.dev/start", func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		body = string(sent)
		refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "the workspace is already started")(w, r)
	})
	newHarness().run(t, api, "start", "-n", "coder", "ada.dev", "--ephemeral-parameter", "a=b,c=d", "--ephemeral-parameter", "e=").
		want(t, 1, "", "the workspace is already started")
	if want := `"ephemeralParameters":[{"name":"a","value":"b,c=d"},{"name":"e","value":""}]`; !strings.Contains(body, want) {
		t.Errorf("the body is %s, want %s", body, want)
	}
	newHarness().run(t, api, "restart", "-n", "coder", "ada.dev", "--ephemeral-parameter", "a").want(t, 2, "", `"a": give name=value`)
}

// TestWorkspacePartly checks that the command continues after a refused workspace.
func TestWorkspacePartly(t *testing.T) {
	api := sampleAPI(t)
	taking(api, "start", "coder.bo.dev")
	api.answer("POST "+inCoder+"/coderworkspaces/coder.bo.api/start", refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "you may not"))
	newHarness().run(t, api, "start", "-n", "coder", "coder.bo.api", "coder.bo.dev").
		want(t, 3, "coder.bo.dev start requested", "workspace coder/coder.bo.api: you may not")
	newHarness().run(t, api, "start", "-n", "coder", "coder.bo.api").want(t, 1, "", "workspace coder/coder.bo.api: you may not")
}

// TestWorkspaceRefusedAndWaitEnds checks that a refused workspace is named although the wait for the
// others ends early.
func TestWorkspaceRefusedAndWaitEnds(t *testing.T) {
	const interrupted = "kubectl coder: interrupted; the requested change continues without this command\n"
	for name, c := range map[string]struct {
		// interrupt is the request or the wait at which the user interrupts the command.
		interrupt string
		code      int
		err       string
	}{
		"timeout":                 {code: 1, err: "after 3s 1 of 1 workspaces are not yet started: coder.bo.dev is Stopped"},
		"Ctrl-C":                  {interrupt: "wait 1", code: 130, err: interrupted},
		"Ctrl-C during a request": {interrupt: "request 2", code: 130, err: interrupted},
	} {
		t.Run(name, func(t *testing.T) {
			d, api := newHarness(), sampleAPI(t)
			taking(api, "start", "coder.bo.dev")
			api.answer("POST "+inCoder+"/coderworkspaces/coder.bo.api/start", refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "you may not"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			d.ctx = ctx
			interrupt := func(at string) {
				if at == c.interrupt {
					cancel()
				}
			}
			d.clock.after = func(wait int) { interrupt(fmt.Sprint("wait ", wait)) }
			// The first request is for the name, before the start.
			requests, dev := 0, api.objects[workspaces]["coder/coder.bo.dev"].Object
			api.answer("GET "+inCoder+"/coderworkspaces/coder.bo.dev", func(w http.ResponseWriter, r *http.Request) {
				requests++
				if interrupt(fmt.Sprint("request ", requests)); ctx.Err() != nil {
					<-r.Context().Done()
				}
				respond(w, http.StatusOK, dev)
			})
			got := d.run(t, api, "start", "-n", "coder", "coder.bo.api", "coder.bo.dev", "--wait", "--timeout", "3s")
			for _, text := range []string{"kubectl coder: workspace coder/coder.bo.api: you may not\n", c.err} {
				got.want(t, c.code, "coder.bo.dev start requested\n", text)
			}
		})
	}
}

// TestWorkspaceWait follows a build to its end, with output as lines and on a terminal.
func TestWorkspaceWait(t *testing.T) {
	running := condition("Ready", "True", "Running", "the workspace is running")
	starting := condition("Ready", "False", "BuildRunning", "the start build is in progress")
	stopped := condition("Ready", "True", "Stopped", "the workspace is stopped, as its spec requests")
	failed := condition("Stalled", "True", "BuildFailed", "the start build failed: no quota")
	for name, c := range map[string]struct {
		line  string
		steps map[int]func(api *fakeAPI)
		live  bool
		want  answer
	}{
		"start": {line: "start bo.dev --wait", steps: map[int]func(*fakeAPI){
			1: func(api *fakeAPI) { becomes(api, "coder.bo.dev", "Starting", 3, starting) },
			4: func(api *fakeAPI) { becomes(api, "coder.bo.dev", "Running", 3, running) },
		}, want: answer{0, "coder.bo.dev started\n", "coder.bo.dev: Starting, the start build is in progress (after 1s)\ncoder.bo.dev: Running, the workspace is running (after 4s)\n"}},
		"start on a terminal": {line: "start bo.dev --wait", live: true, steps: map[int]func(*fakeAPI){
			1: func(api *fakeAPI) { becomes(api, "coder.bo.dev", "Running", 3, running) },
		}, want: answer{0, "coder.bo.dev started\n", "\r\x1b[K[--------------------] 0/1 0s  coder.bo.dev: Stopped, the workspace is stopped, as its spec reques…" +
			"\r\x1b[K[####################] 1/1 1s  coder.bo.dev: Running, the workspace is running\r\x1b[K"}},
		// A restart is not finished while the workspace still runs as before.
		"restart": {line: "restart ada.dev --wait --yes", steps: map[int]func(*fakeAPI){
			2: func(api *fakeAPI) { becomes(api, "coder.ada.dev", "Stopped", 2, stopped) },
			3: func(api *fakeAPI) { becomes(api, "coder.ada.dev", "Running", 3, running) },
		}, want: answer{0, "coder.ada.dev restarted\n", "Stopped, the workspace is stopped, as its spec requests (after 2s)"}},
		// The failure of an earlier build does not affect this one.
		"failed before": {line: "start bo.api --wait", steps: map[int]func(*fakeAPI){
			2: func(api *fakeAPI) { becomes(api, "coder.bo.api", "Running", 5, running) },
		}, want: answer{0, "coder.bo.api started\n", "Running"}},
		"fails": {line: "start bo.api --wait", steps: map[int]func(*fakeAPI){
			2: func(api *fakeAPI) { becomes(api, "coder.bo.api", "Failed", 5, starting, failed) },
		}, want: answer{1, "", "workspace coder/coder.bo.api: the start build failed: no quota; kubectl coder logs -n coder coder.bo.api shows"}},
		// The build was requested before this command.
		"fails while it starts": {line: "start bo.dev --wait --timeout 9s", steps: map[int]func(*fakeAPI){
			0: func(api *fakeAPI) { becomes(api, "coder.bo.dev", "Starting", 3, starting) },
			2: func(api *fakeAPI) { becomes(api, "coder.bo.dev", "Failed", 3, starting, failed) },
		}, want: answer{1, "", "workspace coder/coder.bo.dev: the start build failed: no quota; kubectl coder logs"}},
		// No provisioner takes the build that is there already.
		"no provisioner": {line: "stop bo.dev --wait --yes", steps: map[int]func(*fakeAPI){
			0: func(api *fakeAPI) {
				becomes(api, "coder.bo.dev", "Pending", 3, condition("Stalled", "True", "NoProvisioner", "no provisioner has region=mars"))
			},
		}, want: answer{1, "", "workspace coder/coder.bo.dev: no provisioner has region=mars"}},
		"one of two fails": {line: "start bo.api bo.dev --wait", steps: map[int]func(*fakeAPI){
			1: func(api *fakeAPI) {
				becomes(api, "coder.bo.api", "Failed", 5, starting, failed)
				becomes(api, "coder.bo.dev", "Running", 3, running)
			},
		}, want: answer{3, "coder.bo.dev started\n", "workspace coder/coder.bo.api: the start build failed"}},
		"deleted": {line: "start bo.dev --wait", steps: map[int]func(*fakeAPI){
			1: func(api *fakeAPI) {
				api.mu.Lock()
				delete(api.objects[workspaces], "coder/coder.bo.dev")
				api.mu.Unlock()
			},
		}, want: answer{1, "", "workspace coder/coder.bo.dev: it was deleted in the meantime"}},
		"too long": {line: "start bo.dev --wait --timeout 3s", want: answer{1, "coder.bo.dev start requested\n", "after 3s 1 of 1 workspaces are not yet started: coder.bo.dev is Stopped"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, api := newHarness(), sampleAPI(t)
			d.live = c.live
			for _, verb := range []string{"start", "stop", "restart"} {
				taking(api, verb, "coder.ada.dev", "coder.bo.api", "coder.bo.dev")
			}
			d.clock.after = func(wait int) {
				if step := c.steps[wait]; step != nil {
					step(api)
				}
			}
			d.clock.after(0)
			d.run(t, api, append([]string{"-n", "coder"}, strings.Fields(c.line)...)...).want(t, c.want.code, c.want.out, c.want.err)
		})
	}
}

// TestOrphan checks that what stays is listed before the question, and that the command waits until the
// workspace is gone.
func TestOrphan(t *testing.T) {
	d, api := newHarness(), sampleAPI(t)
	taking(api, "orphan", "coder.ada.dev")
	api.setStatus(workspaces, "coder.ada.dev", fields{"id": "of-ada"})
	api.apply(t, `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: home, namespace: other, labels: {com.coder.workspace.id: of-ada}}`)
	d.clock.after = func(wait int) {
		switch wait {
		case 1:
			// A deletion that failed before.
			becomes(api, "coder.ada.dev", "Deleting", 1, condition("DeletionFailed", "True", "DeletionFailed", "no provisioner"))
		case 2:
			api.mu.Lock()
			delete(api.objects[workspaces], "coder/coder.ada.dev")
			api.mu.Unlock()
		}
	}
	got := d.run(t, api, "-n", "coder", "orphan", "ada.dev", "--yes", "--wait")
	got.want(t, 0, "coder.ada.dev deleted\n", "workspace coder.ada.dev: PersistentVolumeClaim other/home stays\n")
}

// TestStartOfRunningWorkspace checks that start requests nothing for a workspace that runs and has a
// problem, except if the problem is that Coder refused a change.
func TestStartOfRunningWorkspace(t *testing.T) {
	start := func(reason, message string, flags ...string) (answer, []string) {
		api := sampleAPI(t)
		taking(api, "start", "coder.ada.dev")
		becomes(api, "coder.ada.dev", "Running", 1, condition("Ready", "False", reason, message), condition("Stalled", "True", reason, message))
		got := newHarness().run(t, api, append([]string{"-n", "coder", "start", "ada.dev"}, flags...)...)
		return got, api.writes
	}
	got, writes := start("OutOfMemory", "the container was out of memory")
	got.want(t, 0, "coder.ada.dev is running already\n", "")
	got, waiting := start("OutOfMemory", "the container was out of memory", "--wait", "--timeout", "9s")
	got.want(t, 1, "", "workspace coder/coder.ada.dev: the container was out of memory; kubectl coder logs")
	if len(writes)+len(waiting) > 0 {
		t.Errorf("it wrote %q and %q", writes, waiting)
	}
	got, _ = start("ChangeRefused", "Coder rejected the spec")
	got.want(t, 0, "coder.ada.dev start requested\n", "")
}

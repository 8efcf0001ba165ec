package plugin

import (
	"strings"
	"testing"
)

// building sets the build of a workspace, and its agent.
func building(api *fakeAPI, name, status string, number int64, agent string, conditions ...any) {
	agents := []any{}
	if agent != "" {
		agents = append(agents, fields{"name": "main", "status": agent})
	}
	build := fields{"number": number, "status": status, "transition": "start"}
	api.setStatus(workspaces, name, fields{"phase": "", "conditions": conditions, "latestBuild": build, "agents": agents})
}

// TestStartBeforeEntering checks that --start starts a workspace, waits until its agent is
// connected, and prints progress.
func TestStartBeforeEntering(t *testing.T) {
	failed := condition("Stalled", "True", "BuildFailed", "the start build failed: no quota")
	longLine := strings.Repeat("x", 70_000)
	for name, c := range map[string]struct {
		flags string
		// steps are the states after each second. The first one is the state before the command.
		steps []func(api *fakeAPI)
		want  answer
		// writes reports whether the start was requested.
		writes bool
	}{
		"it runs": {steps: []func(*fakeAPI){
			func(api *fakeAPI) { building(api, "coder.bo.dev", "running", 2, "connected") },
		}, want: answer{0, "in\n", ""}},
		"no such agent": {flags: "--agent=other", steps: []func(*fakeAPI){
			func(api *fakeAPI) { building(api, "coder.bo.dev", "running", 2, "timeout") },
		}, want: answer{0, "in\n", ""}},
		// OpenSSH changes the name of a host to lower case.
		"an agent in other case": {flags: "--agent=MAIN", steps: []func(*fakeAPI){
			func(api *fakeAPI) { building(api, "coder.bo.dev", "running", 2, "connecting") },
			func(api *fakeAPI) { building(api, "coder.bo.dev", "running", 2, "connected") },
		}, want: answer{0, "in\n", "agent \"main\" is not connected yet (connecting)"}},
		"it is stopped": {writes: true, steps: []func(*fakeAPI){
			func(api *fakeAPI) { building(api, "coder.bo.dev", "stopped", 2, "") },
			func(api *fakeAPI) { building(api, "coder.bo.dev", "starting", 3, "") },
			func(api *fakeAPI) { building(api, "coder.bo.dev", "running", 3, "connecting") },
			func(api *fakeAPI) { building(api, "coder.bo.dev", "running", 3, "connected") },
		}, want: answer{0, "in\n", "coder.bo.dev: start requested (after 0s)\n  " + longLine + "\n  Terraform applies[2J\ncoder.bo.dev: the start build is in progress (after 1s)\n" +
			"coder.bo.dev: the workspace is running, but agent \"main\" is not connected yet (connecting) (after 2s)\n"}},
		"it is stopping": {writes: true, steps: []func(*fakeAPI){
			func(api *fakeAPI) { building(api, "coder.bo.dev", "stopping", 2, "") },
			func(api *fakeAPI) { building(api, "coder.bo.dev", "stopped", 2, "") },
			func(api *fakeAPI) { building(api, "coder.bo.dev", "running", 3, "connected") },
		}, want: answer{0, "in\n", "start requested (after 1s)"}},
		"it failed before": {writes: true, steps: []func(*fakeAPI){
			func(api *fakeAPI) { building(api, "coder.bo.dev", "failed", 2, "", failed) },
			func(api *fakeAPI) { building(api, "coder.bo.dev", "running", 3, "connected") },
		}, want: answer{0, "in\n", "start requested"}},
		"it fails": {writes: true, steps: []func(*fakeAPI){
			func(api *fakeAPI) { building(api, "coder.bo.dev", "stopped", 2, "") },
			func(api *fakeAPI) { building(api, "coder.bo.dev", "failed", 3, "", failed) },
		}, want: answer{1, "", "workspace coder.bo.dev did not start: the start build failed: no quota; kubectl coder logs -n coder coder.bo.dev shows the whole log"}},
		"it is deleted": {steps: []func(*fakeAPI){
			func(api *fakeAPI) { building(api, "coder.bo.dev", "deleting", 3, "") },
		}, want: answer{1, "", "workspace coder.bo.dev is being deleted"}},
		"too long": {flags: "--start-timeout=3s", steps: []func(*fakeAPI){
			func(api *fakeAPI) { building(api, "coder.bo.dev", "running", 3, "timeout") },
		}, want: answer{1, "", "is not ready for a session after 3s: the workspace is running, but agent \"main\" is not connected yet (timeout); it continues to start without this command, and --start-timeout waits longer"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, api := newHarness(), sampleAPI(t)
			newInside(t, api, "coder.bo.dev")
			taking(api, "start", "coder.bo.dev")
			api.answer("GET "+inCoder+"/coderworkspaces/coder.bo.dev/log", text(longLine+"\nTerraform applies\x1b[2J\n"))
			c.steps[0](api)
			d.clock.after = func(wait int) {
				if wait < len(c.steps) {
					c.steps[wait](api)
				}
			}
			line := append([]string{"-n", "coder", "exec", "bo.dev", "--start"}, strings.Fields(c.flags)...)
			d.run(t, api, append(line, "--", "echo", "in")...).want(t, c.want.code, c.want.out, c.want.err)
			if wrote := strings.Contains(strings.Join(api.writes, "\n"), "/start"); wrote != c.writes {
				t.Errorf("it wrote %q", api.writes)
			}
		})
	}
}

package plugin

import (
	"context"
	"strings"
	"testing"
)

// forwarding replaces port-forwards by one that lasts until the command is interrupted.
func forwarding(t *testing.T, d *harness) {
	ctx, cancel := context.WithCancel(t.Context())
	d.ctx = ctx
	d.forward = func(_ context.Context, _ *Cluster, to Endpoint, local int, ready func(int)) error {
		if want := (Endpoint{Namespace: "coder", Pod: "coder-new-1", Port: 8080}); to != want {
			t.Errorf("the port is %v, want %v", to, want)
		}
		if local == 0 {
			local = 43210
		}
		ready(local)
		cancel()
		return nil
	}
}

func TestOpen(t *testing.T) {
	for line, want := range map[string]string{
		"open":                                "http://localhost:43210/",
		"open controlplane/coder --port 8080": "http://localhost:8080/",
		"open ada.dev":                        "http://localhost:43210/@ada/dev",
	} {
		d := newHarness()
		forwarding(t, d)
		got := d.run(t, sampleAPI(t), append([]string{"-n", "coder"}, strings.Fields(line)...)...)
		got.want(t, 130, want+"\n", "until this command is interrupted")
		if len(d.browsed) != 1 || d.browsed[0] != want {
			t.Errorf("%s: the browser got %q, want %q", line, d.browsed, want)
		}
	}
	d := newHarness()
	forwarding(t, d)
	d.run(t, sampleAPI(t), "-n", "coder", "open", "--no-browser").want(t, 130, "http://localhost:43210/\n", "until")
	if len(d.browsed) > 0 {
		t.Errorf("the browser got %q", d.browsed)
	}
	d = newHarness()
	forwarding(t, d)
	d.run(t, renamedAPI(t), "-n", "coder", "open", "ada.dev").want(t, 130, "http://localhost:43210/@ada/new\n", "until")
	newHarness().run(t, sampleAPI(t), "-n", "coder", "open", "--port", "99999").want(t, 2, "", "--port is 99999")
	newHarness().run(t, sampleAPI(t), "-n", "coder", "open", "--access-url").want(t, 1, "", "has no access URL")
	newHarness().run(t, sampleAPI(t), "-n", "empty", "open").want(t, 1, "", "there is no control plane in namespace empty")
	for _, evil := range []string{"file:///usr/bin/calculator", "vscode://host/open", "javascript:alert(1)", "-new-window", `\\\\server\share\a.exe`, "https://\x1b[2J"} {
		api, d := sampleAPI(t), newHarness()
		api.setStatus(planes, "coder", fields{"accessURL": evil})
		d.run(t, api, "-n", "coder", "open", "--access-url").want(t, 1, "", "is not an HTTP or HTTPS URL")
		if len(d.browsed) > 0 {
			t.Errorf("%s: the browser got %q", evil, d.browsed)
		}
	}
	api, d := sampleAPI(t), newHarness()
	api.setStatus(planes, "coder", fields{"accessURL": "https://coder.example.com/\u009b2J"})
	d.run(t, api, "-n", "coder", "open", "--access-url").want(t, 0, "https://coder.example.com/2J/\n", "")
	if want := "https://coder.example.com/\u009b2J/"; len(d.browsed) != 1 || d.browsed[0] != want {
		t.Errorf("the browser got %q, want %q", d.browsed, want)
	}
	api = sampleAPI(t)
	api.setStatus(planes, "coder", fields{"url": ""})
	newHarness().run(t, api, "-n", "coder", "open").want(t, 1, "", "has no URL yet")
	api = sampleAPI(t)
	api.setStatus("/api/v1/pods", "coder-new-1", fields{"conditions": nil})
	newHarness().run(t, api, "-n", "coder", "open").want(t, 1, "", "none of the 1 pods behind Service coder/coder is ready")
}

// TestOpenApp checks that an app is opened through the port-forward, or at its own host, and that a
// URL that is not a web page is only printed.
func TestOpenApp(t *testing.T) {
	api := sampleAPI(t)
	api.setStatus(planes, "coder", fields{"accessURL": "https://coder.example.com"})
	app := func(slug, url string) any { return fields{"slug": slug, "url": url} }
	api.setStatus(workspaces, "coder.ada.dev", fields{"agents": []any{
		fields{"name": "main", "apps": []any{
			app("code", "https://coder.example.com/@ada/dev.main/apps/code/?folder=%2Fsrc"), app("path", "/@ada/dev.main/apps/path/"),
			app("sub", "https://sub--main--dev--ada.example.net"), app("ide", "vscode://open?x=\x1b[2J"), app("evil", "/\\evil.example.com/x"), app("two", "/two"),
		}},
		fields{"name": "gpu", "apps": []any{app("two", "/gpu/two")}},
	}})
	for app, c := range map[string]struct {
		out     string
		browsed bool
	}{
		"code":    {"http://localhost:43210/@ada/dev.main/apps/code/?folder=%2Fsrc", true},
		"path":    {"http://localhost:43210/@ada/dev.main/apps/path/", true},
		"gpu/two": {"http://localhost:43210/gpu/two", true},
		"sub":     {"https://sub--main--dev--ada.example.net", true},
		"ide":     {"vscode://open?x=[2J", false},
	} {
		d := newHarness()
		forwarding(t, d)
		// A port-forward lasts until it is interrupted.
		code := 0
		if strings.HasPrefix(c.out, "http://localhost") {
			code = 130
		}
		if got := d.run(t, api, "-n", "coder", "open", "ada.dev", app); got.code != code || got.out != c.out+"\n" || (len(d.browsed) == 1) != c.browsed {
			t.Errorf("%s: %+v; the browser got %q", app, got, d.browsed)
		}
	}
	for line, says := range map[string]string{
		"ada.dev none":         `has no app "none", only main/code, main/path`,
		"ada.dev two":          "has several apps \"two\": give one of",
		"bo.dev code":          "workspace coder.bo.dev has no apps",
		"controlplane/coder x": "a control plane has no app",
		"a b c":                "one thing at a time",
		"--start":              "--start is for a workspace",
	} {
		if got := newHarness().run(t, api, append([]string{"-n", "coder", "open"}, strings.Fields(line)...)...); got.code == 0 || !strings.Contains(got.err, says) {
			t.Errorf("open %s: %+v, want %q", line, got, says)
		}
	}
	newHarness().run(t, api, "-n", "coder", "__complete", "open", "ada.dev", "p").want(t, 0, "path\n:4\n", "ShellCompDirectiveNoFileComp")
}

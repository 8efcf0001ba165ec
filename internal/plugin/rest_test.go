package plugin

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const helloPath = inCoder + "/codertemplates/coder.hello"

func TestTree(t *testing.T) {
	got := newHarness().run(t, sampleAPI(t), "tree", "-n", "coder")
	got.want(t, 0, "CoderControlPlane/coder", "")
	golden(t, "tree.golden", got.out)
	golden(t, "tree-renamed.golden", newHarness().run(t, renamedAPI(t), "tree", "-n", "coder").out)
	d := newHarness()
	d.coloured = true
	golden(t, "tree-coloured.golden", d.run(t, sampleAPI(t), "tree", "-n", "coder", "workspace/ada.dev").out)
	golden(t, "tree-json.golden", newHarness().run(t, sampleAPI(t), "tree", "-n", "coder", "workspace/ada.dev", "-o", "json").out)

	newHarness().run(t, sampleAPI(t), "tree", "-n", "empty").want(t, 1, "", "there is no such control plane in namespace empty")
	api := sampleAPI(t)
	api.answer("GET /api/v1/namespaces/coder/secrets", refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "you may not list secrets"))
	newHarness().run(t, api, "tree", "-n", "coder").want(t, 3, "Deployment/coder", "secrets: you may not list secrets")
}

func TestBuildLogs(t *testing.T) {
	api := sampleAPI(t)
	log := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { text(body+r.URL.RawQuery+"\n")(w, r) }
	}
	api.answer("GET "+inCoder+"/coderworkspaces/coder.ada.dev/log", log("1 a\n2 b\x1b[2J\n3 "))
	api.answer("GET "+inCoder+"/coderworkspaces/coder.bo.dev/log", refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "build=9: the workspace has builds 1 to 2"))
	api.answer("GET "+helloPath+"/log", log("template "))
	api.answer("GET "+helloPath+"/versions", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, map[string]any{"items": []any{map[string]any{"id": "22222222-2222-2222-2222-222222222222", "name": "two"}}})
	})
	runEach(t, api, map[string]answer{
		"logs ada.dev":                      {0, "1 a\n2 b\x1b[2J\n3 \n", ""},
		"logs ada.dev -f":                   {0, "3 follow=true\n", ""},
		"logs ada.dev --build 7":            {0, "3 build=7\n", ""},
		"logs bo.dev --build 9":             {2, "", "the log of coder.bo.dev: build=9: the workspace has builds 1 to 2"},
		"logs template/hello":               {0, "template \n", ""},
		"logs template/hello --version two": {0, "template version=22222222-2222-2222-2222-222222222222\n", ""},
		"logs template/hello --version one": {1, "", `template coder.hello has no version "one"; the newest of its 1 are two`},
		"logs ada.dev --version two":        {2, "", "--version does not apply here"},
		"logs ada.dev --previous":           {2, "", "--previous does not apply here"},
		"logs template/hello --agent":       {2, "", "--agent does not apply here"},
		"logs ada.dev --tail -2":            {2, "", "--tail is -2"},
		"logs":                              {2, "", "give the name of one workspace"},
	})
	if got := newHarness().run(t, api, "-n", "coder", "logs", "ada.dev", "--tail", "2"); got.out != "2 b\x1b[2J\n3 \n" {
		t.Errorf("the last two lines are %q", got.out)
	}
	if got := newHarness().run(t, api, "-n", "coder", "logs", "ada.dev", "-f", "--tail", "1"); got.out != "3 follow=true\n" {
		t.Errorf("the last line, followed, is %q", got.out)
	}
	d := newHarness()
	d.coloured = true
	if got := d.run(t, api, "-n", "coder", "logs", "ada.dev", "--tail", "2"); got.out != "2 b[2J\n3 \n" {
		t.Errorf("on a terminal it is %q", got.out)
	}
}

// crashingInit is a pod of workspace coder.bo.api whose init container crashes.
const crashingInit = `apiVersion: v1
kind: Pod
metadata: {name: bo-api, namespace: pods-of-ada, labels: {com.coder.workspace.id: aaaaaaaa-0000-0000-0000-000000000002}}
spec: {initContainers: [{name: home}], containers: [{name: dev}]}
status:
  initContainerStatuses: [{name: home, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 2}}}]
  containerStatuses: [{name: dev, state: {waiting: {reason: PodInitializing}}}]`

func TestPodLogs(t *testing.T) {
	api := sampleAPI(t)
	api.apply(t, crashingInit)
	api.answer("GET /api/v1/namespaces/coder/pods/coder-new-1/log", func(w http.ResponseWriter, r *http.Request) { text("coderd "+r.URL.RawQuery)(w, r) })
	for _, pod := range []string{"ada-dev", "bo-api"} {
		api.answer("GET /api/v1/namespaces/pods-of-ada/pods/"+pod+"/log", func(w http.ResponseWriter, r *http.Request) {
			text("of "+r.URL.Query().Get("container")+" "+r.URL.Query().Get("previous"))(w, r)
		})
	}
	runEach(t, api, map[string]answer{
		"logs controlplane/coder":                        {0, "coderd container=coder\n", ""},
		"logs ccp/coder --tail 5":                        {0, "coderd container=coder&tailLines=5\n", ""},
		"logs ada.dev --agent":                           {0, "[ada-dev/dev] of dev \n[ada-dev/sidecar] of sidecar \n", ""},
		"logs ada.dev --agent -c dev --previous":         {0, "of dev true\n", ""},
		"logs ada.dev --agent -f":                        {0, "[ada-dev/sidecar] of sidecar \n", ""},
		"logs ada.dev --agent -c x":                      {2, "", `there is no "x", only dev, sidecar`},
		"logs ada.dev --agent --previous":                {1, "", "no container was restarted: omit --previous; --container selects one of dev, sidecar"},
		"logs bo.api --agent":                            {0, "of dev \n", ""},
		"logs bo.api --agent -c home":                    {0, "of home \n", ""},
		"logs bo.api --agent --previous":                 {0, "of home true\n", ""},
		"logs bo.api --agent -c x":                       {2, "", `there is no "x", only dev, home`},
		"logs ada.dev --agent --pod-namespace elsewhere": {1, "", "has no pod in elsewhere with the label com.coder.workspace.id=aaaaaaaa-0000-0000-0000-000000000001: it is running"},
		"logs bo.dev --agent":                            {1, "", "has no pod in coder, pods-of-ada"},
	})
}

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

// TestLogin checks that the password is printed only with the flag.
func TestLogin(t *testing.T) {
	d := newHarness()
	forwarding(t, d)
	got := d.run(t, sampleAPI(t), "-n", "coder", "login")
	got.want(t, 130, "http://localhost:43210/login\n", "Log in as admin@example.com. The password is on the clipboard.")
	if strings.Contains(got.out+got.err, "sesame") || len(d.copied) != 1 || d.copied[0] != "open sesame" {
		t.Errorf("the clipboard got %q; the outputs are %q and %q", d.copied, got.out, got.err)
	}
	d = newHarness()
	d.copyError = errors.New("no clipboard")
	forwarding(t, d)
	got = d.run(t, sampleAPI(t), "-n", "coder", "login")
	got.want(t, 130, "http://localhost:43210/login\n", "could not be copied: no clipboard. This prints it:\n  kubectl coder login -n coder coder --show-password\n")
	if strings.Contains(got.out+got.err, "sesame") {
		t.Errorf("without a clipboard: %+v", got)
	}
	golden(t, "login.golden", newHarness().run(t, sampleAPI(t), "-n", "coder", "login", "--show-password").out)
	newHarness().run(t, sampleAPI(t), "-n", "coder", "login", "--show-password", "-o", "json").want(t, 0, `"password": "open sesame"`, "")
	newHarness().run(t, sampleAPI(t), "-n", "coder", "login", "-o", "json").want(t, 2, "", "add --show-password")
	api := sampleAPI(t)
	for inside, want := range map[string]string{"http://coder.coder.svc:80": "http://[2001:db8::1]\n", "https://coder.coder.svc:8443": "https://[2001:db8::1]:8443\n"} {
		api.setStatus(planes, "coder", fields{"url": inside})
		api.change("/api/v1/services", "coder/coder", func(o fields) {
			o["status"] = fields{"loadBalancer": fields{"ingress": []any{fields{"ip": "2001:db8::1"}}}}
		})
		newHarness().run(t, api, "-n", "coder", "login", "--show-password").want(t, 0, want, "")
	}
	delete(api.objects["/api/v1/secrets"], "coder/coder-initial-admin")
	newHarness().run(t, api, "-n", "coder", "login").want(t, 1, "", "there is no Secret coder/coder-initial-admin")
}

// directory creates a directory with files.
func directory(t *testing.T, content map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, body := range content {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// holding makes the API serve the files of a template as an archive.
func holding(t *testing.T, api *fakeAPI, content map[string]string) {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for name, body := range content {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(body)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte(body))
	}
	_ = w.Close()
	api.answer("GET "+helloPath+"/files", text(archive.String()))
}

func TestTemplatePush(t *testing.T) {
	changed := map[string]string{"main.tf": "# two\n", "lib/a.tf": "# a\n", ".terraform/secret": "x", "terraform.tfstate": "x", ".git/config": "x", "lib/.git": "gitdir: /home/ada/lib"}
	for name, c := range map[string]struct {
		files  map[string]string
		line   string
		code   int
		out    string
		err    string
		writes string
	}{
		"changed":           {files: changed, line: "hello", out: "codertemplate.aggregation.coder.com/coder.hello pushed\n", writes: "PUT " + helloPath + "?fieldManager=kubectl-coder"},
		"the same":          {files: map[string]string{"main.tf": "# one\n", "README.md": "hello\n"}, line: "hello --wait", out: "coder.hello unchanged\n", err: `version "one" is active`},
		"dry run":           {files: changed, line: "hello --dry-run", out: "coder.hello pushed (server dry run)\n", writes: "PUT " + helloPath + "?dryRun=All&fieldManager=kubectl-coder"},
		"variable":          {files: map[string]string{"main.tf": "# one\n", "README.md": "hello\n"}, line: "hello --variable image=a=b:1", out: "coder.hello pushed\n", writes: "PUT " + helloPath + "?fieldManager=kubectl-coder"},
		"no value":          {files: changed, line: "hello --variable image", code: 2, err: `--variable "image" is not NAME=VALUE`},
		"not text":          {files: map[string]string{"main.tf": "x", "logo.png": "\x00\xff"}, line: "hello", out: "coder.hello pushed\n", writes: "PUT " + helloPath + "/files?fieldManager=kubectl-coder"},
		"not text, dry run": {files: map[string]string{"main.tf": "x", "logo.png": "\x00\xff"}, line: "hello --dry-run", out: "coder.hello pushed (server dry run)\n", writes: "PUT " + helloPath + "/files?dryRun=All&fieldManager=kubectl-coder"},
		"name and binary":   {files: map[string]string{"main.tf": "x", "logo.png": "\x00\xff"}, line: "hello --message m", code: 2, err: "cannot be used with files that are not text"},
		"missing":           {files: changed, line: "coder.new", code: 1, err: "add --create to create it"},
		"created":           {files: changed, line: "coder.new --create -o name", out: "codertemplate.aggregation.coder.com/coder.new\n", writes: "POST " + inCoder + "/codertemplates?fieldManager=kubectl-coder"},
		"no template":       {files: map[string]string{"notes.txt": "x"}, line: "hello", code: 2, err: "is not a template: it has no file that ends with .tf"},
	} {
		t.Run(name, func(t *testing.T) {
			api := sampleAPI(t)
			api.answer("PUT "+helloPath+"/files", func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, map[string]any{}) })
			args := strings.Fields(c.line)
			got := newHarness().run(t, api, append([]string{"-n", "coder", "template", "push", args[0], directory(t, c.files)}, args[1:]...)...)
			got.want(t, c.code, c.out, c.err)
			if writes := strings.Join(api.writes, "\n"); writes != c.writes {
				t.Errorf("the writes are %q, want %q", writes, c.writes)
			}
		})
	}
	api := sampleAPI(t)
	newHarness().run(t, api, "-n", "coder", "template", "push", "hello", directory(t, changed), "--message", "why", "--variable", "region=eu", "--variable", "image=a=b:1",
		"--variable", `args="--a=1",--b=2`)
	api.change(templates, "coder/coder.hello", func(o fields) {
		spec := o["spec"].(map[string]any)
		if files := spec["files"].(map[string]any); len(files) != 2 || files["main.tf"] != "# two\n" || files["lib/a.tf"] != "# a\n" || spec["versionMessage"] != "why" {
			t.Errorf("the template has %v", spec)
		}
		want := []any{map[string]any{"name": "args", "value": `"--a=1",--b=2`}, map[string]any{"name": "image", "value": "a=b:1"}, map[string]any{"name": "region", "value": "eu"}}
		if diff := cmp.Diff(want, spec["variables"]); diff != "" {
			t.Errorf("the variables of the template (-want +got):\n%s", diff)
		}
	})
	// The present source has a file that is not text, and the new one has none.
	api = sampleAPI(t)
	api.setStatus(templates, "coder.hello", fields{"source": fields{"inline": false, "versionID": "v-one"}})
	holding(t, api, map[string]string{"main.tf": "# one\n", "logo.png": "\x00\xff"})
	for _, flag := range []string{"--variable=region=eu", "--message=why", "--version-name=two"} {
		newHarness().run(t, api, "-n", "coder", "template", "push", "hello", directory(t, changed), flag).
			want(t, 2, "", "cannot be used while spec.files cannot show the present source of the template, which may have files that are not text, or more than 2 MiB: push the files without these flags first")
	}
	// An unchanged template whose version could not be built is not a success.
	api = sampleAPI(t)
	api.setStatus(templates, "coder.hello", fields{"conditions": []any{
		condition("Ready", "False", "BuildFailed", "no"), condition("Stalled", "True", "BuildFailed", "it failed\x1b[2J"),
	}})
	same := directory(t, map[string]string{"main.tf": "# one\n", "README.md": "hello\n"})
	newHarness().run(t, api, "-n", "coder", "template", "push", "hello", same, "--wait").want(t, 1, "coder.hello unchanged\n", "template coder.hello: it failed[2J")
	newHarness().run(t, api, "-n", "coder", "template", "push", "hello").want(t, 2, "", "give the name of the template, and the directory")
	newHarness().run(t, api, "-n", "coder", "template", "push", "hello", "/nowhere").want(t, 2, "", "no such file or directory")
	linked := directory(t, map[string]string{"main.tf": ""})
	if err := os.Symlink("/etc/passwd", filepath.Join(linked, "link.tf")); err != nil {
		t.Fatal(err)
	}
	newHarness().run(t, api, "-n", "coder", "template", "push", "hello", linked).want(t, 1, "", "link.tf is not a regular file")
}

// TestTemplateTooLarge checks that a file that is too large is not read completely.
func TestTemplateTooLarge(t *testing.T) {
	root := directory(t, map[string]string{"main.tf": "# one\n", "disk.tf": ""})
	large := filepath.Join(root, "disk.tf")
	if err := os.Truncate(large, 10*maxBytes); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{root, large} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := readTemplateFiles(from)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), from+" has more than 20 MiB") {
			t.Errorf("%s: %v", from, err)
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 8*maxBytes {
			t.Errorf("%s: reading it allocated %d MiB", from, allocated>>20)
		}
	}
}

func TestTemplatePushWaits(t *testing.T) {
	push := func(conditions ...any) answer {
		d, api := newHarness(), sampleAPI(t)
		api.answer("GET "+helloPath+"/log", text("downloading\nno such provider\n"))
		d.clock.after = func(wait int) {
			now := conditions
			if wait == 1 {
				now = []any{condition("Ready", "False", "BuildRunning", `version "two" is being built`)}
			}
			api.setStatus(templates, "coder.hello", fields{"conditions": now, "observedGeneration": int64(2)})
		}
		return d.run(t, api, "-n", "coder", "template", "push", "hello", directory(t, map[string]string{"main.tf": "# two"}), "--wait", "--timeout", "9s")
	}
	// The fake keeps the old conditions, including Ready, until the first wait. The observed
	// generation distinguishes them from new ones.
	got := push(condition("Ready", "True", "Active", `version "two" is active`))
	got.want(t, 0, "coder.hello pushed\n", `coder.hello: version "two" is`)
	got = push(condition("Ready", "False", "BuildFailed", "no"), condition("Stalled", "True", "BuildFailed", `building version "two" failed: no such provider`))
	got.want(t, 1, "coder.hello pushed\n", "downloading\nno such provider\n")
	got.want(t, 1, "coder.hello pushed\n", `template coder.hello: building version "two" failed: no such provider`)
	got = push(condition("Ready", "False", "Deleting", "the template will be deleted in Coder"))
	got.want(t, 1, "coder.hello pushed\n", "template coder.hello: the template will be deleted in Coder")
	got = push(condition("Ready", "False", "BuildRunning", "still"))
	got.want(t, 1, "coder.hello pushed\n", "the new version of template coder.hello is not active after 9s")
}

func TestTemplatePull(t *testing.T) {
	api := sampleAPI(t)
	holding(t, api, map[string]string{"main.tf": "# one\n", "lib/a.tf": "# a\n"})
	into := filepath.Join(t.TempDir(), "new")
	newHarness().run(t, api, "-n", "coder", "template", "pull", "hello", into).want(t, 0, "", "2 files of template coder.hello are in "+into)
	for name, want := range map[string]string{"main.tf": "# one\n", "lib/a.tf": "# a\n"} {
		if got, err := os.ReadFile(filepath.Join(into, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q (%v)", name, got, err)
		}
	}
	newHarness().run(t, api, "-n", "coder", "template", "pull", "hello", into).want(t, 2, "", "is not empty")
	newHarness().run(t, api, "-n", "coder", "template", "pull", "hello", into, "--force").want(t, 0, "", "2 files")
	newHarness().run(t, api, "-n", "coder", "template", "pull", "hello", "-").want(t, 0, "main.tf", "")

	// Git would run programs from its configuration.
	holding(t, api, map[string]string{"main.tf": "# one\n", ".git/config": "x", "lib/.Git/hooks/post-checkout": "x", "GIT~1/config": "x"})
	newHarness().run(t, api, "-n", "coder", "template", "pull", "hello", into, "--force").want(t, 0, "", "1 files of template")

	// Neither the archive nor a link in the directory can be used to write outside of it.
	for _, evil := range []string{"../evil.tf", "/evil.tf", "a/../../evil.tf"} {
		holding(t, api, map[string]string{evil: "x"})
		newHarness().run(t, api, "-n", "coder", "template", "pull", "hello", into, "--force").want(t, 1, "", "which leads out of the archive")
	}
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(into, "out")); err != nil {
		t.Fatal(err)
	}
	holding(t, api, map[string]string{"out/evil.tf": "x"})
	newHarness().run(t, api, "-n", "coder", "template", "pull", "hello", into, "--force").want(t, 1, "", "writing out/evil.tf")
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("outside are %v (%v)", entries, err)
	}
}

func TestTemplateDiff(t *testing.T) {
	api := sampleAPI(t)
	holding(t, api, map[string]string{"main.tf": "# one\n", "gone.tf": "# gone\n"})
	same := directory(t, map[string]string{"main.tf": "# one\n", "gone.tf": "# gone\n"})
	newHarness().run(t, api, "-n", "coder", "template", "diff", "hello", same).want(t, 0, "", "")
	other := directory(t, map[string]string{"main.tf": "# two\n"})
	t.Setenv("TZ", "UTC")
	got := newHarness().run(t, api, "-n", "coder", "template", "diff", "hello", other)
	if got.code != 1 || got.err != "" || !strings.Contains(got.out, "-# one\n+# two\n") || !strings.Contains(got.out, "-# gone\n") {
		t.Errorf("the difference is %+v", got)
	}
	screen := newHarness()
	screen.coloured = true
	screen.run(t, api, "-n", "coder", "template", "diff", "hello", directory(t, map[string]string{"main.tf": "# \x1b[2J\r\u009bowned\n"})).want(t, 1, "+# [2Jowned\n", "")
	t.Setenv("KUBECTL_EXTERNAL_DIFF", "diff -q -N -r")
	newHarness().run(t, api, "-n", "coder", "template", "diff", "hello", other).want(t, 1, "Files live/main.tf and local/main.tf differ", "")
	t.Setenv("KUBECTL_EXTERNAL_DIFF", "no-such-program")
	newHarness().run(t, api, "-n", "coder", "template", "diff", "hello", other).want(t, 2, "", "no-such-program could not show how")
	newHarness().run(t, api, "-n", "coder", "template", "diff", "nobody", other).want(t, 2, "", "not found")
}

func TestVersion(t *testing.T) {
	api := sampleAPI(t)
	api.apply(t, `apiVersion: apps/v1
kind: Deployment
metadata: {name: coder-k8s, namespace: coder-system, labels: {app.kubernetes.io/name: coder-k8s}}
spec: {template: {spec: {containers: [{name: coder-k8s, image: "example.com/coder-k8s:v1"}]}}}`)
	api.answer("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, map[string]any{"gitVersion": "v1.37.0"})
	})
	newHarness().run(t, api, "version").want(t, 0, "Deployment coder-k8s   example.com/coder-k8s:v1\n", "")
	newHarness().run(t, api, "version", "-o", "json").want(t, 0, `"kubernetes": "v1.37.0"`, "")
	api.Close()
	newHarness().run(t, api, "version").want(t, 0, "kubectl coder", "The version of Kubernetes could not be read")
	newHarness().run(t, api, "version", "--client").want(t, 0, "kubectl coder", "")
}

func TestCompletion(t *testing.T) {
	api := sampleAPI(t)
	api.apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}")
	api.apply(t, crashingInit)
	api.setStatus(workspaces, "coder.ada.dev", fields{"agents": []any{fields{"name": "main", "apps": []any{fields{"slug": "code"}}}}})
	for line, want := range map[string][]string{
		"stop -n coder coder.a":                        {"coder.ada.dev"},
		"logs -n coder t":                              {"template/coder.hello"},
		"template push -n coder coder":                 {"coder.hello"},
		"open -n coder con":                            {"controlplane/coder"},
		"status -o y":                                  {"yaml"},
		"comp":                                         {"completion"},
		"stop -n coder ada":                            {"ada.dev"},
		"ssh -n coder ws/ad":                           {"ws/ada.dev"},
		"start -n coder --owner a":                     {"ada"},
		"start -n coder --template h":                  {"hello"},
		"logs -n coder bo.api --build":                 {"4"},
		"tree -n te":                                   {"team"},
		"version --operator-namespace te":              {"team"},
		"logs -n coder controlplane/coder --container": {"coder"},
		"logs -n coder bo.api --container":             {"home", "dev"},
		"open -n coder ada.dev c":                      {"code"},
	} {
		fields := strings.Fields(line)
		if strings.HasPrefix(fields[len(fields)-1], "--") {
			fields = append(fields, "")
		}
		got := newHarness().run(t, api, append([]string{"__complete", "--server", api.URL}, fields...)...)
		for _, name := range want {
			if !strings.Contains("\n"+got.out, "\n"+name) {
				t.Errorf("%s completes to %q, want %q", line, got.out, name)
			}
		}
		if strings.Contains(got.out, "coder.bo.dev") {
			t.Errorf("%s completes to %q", line, got.out)
		}
	}
	script, err := os.ReadFile("../../cmd/kubectl-coder/kubectl_complete-coder")
	if err != nil {
		t.Fatal(err)
	}
	if got := newHarness().run(t, api, "completion", "kubectl"); got.out != string(script) || !strings.Contains(got.out, "exec kubectl-coder __complete") {
		t.Errorf("kubectl's program is %q, and in the repository %q", got.out, script)
	}
	config := filepath.Join(directory(t, map[string]string{"config": kubeconfig}), "config")
	newHarness().run(t, api, "__complete", "--kubeconfig", config, "status", "--context", "pro").want(t, 0, "production\n:4\n", "ShellCompDirectiveNoFileComp")
	newHarness().run(t, api, "completion", "bash").want(t, 0, "__start_kubectl-coder", "")
	newHarness().run(t, api, "completion").want(t, 2, "", "give one of kubectl, bash")
}

// TestNothingOfCoder checks that the plugin contains nothing of Coder's own modules, which have
// another license.
func TestNothingOfCoder(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "../../cmd/kubectl-coder").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.Lines(string(out)) {
		if strings.HasPrefix(name, "github.com/coder/") {
			t.Errorf("it contains %s", name)
		}
	}
}

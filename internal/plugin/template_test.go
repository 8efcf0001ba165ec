package plugin

import (
	"archive/tar"
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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

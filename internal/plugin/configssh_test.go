package plugin

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

const kubeconfig = `
apiVersion: v1
kind: Config
current-context: "dev's cluster"
contexts: [{name: "dev's cluster", context: {cluster: c, user: u, namespace: team}}, {name: production, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://localhost:1"}}]
users: [{name: u, user: {token: sesame}}]
`

// configSSH runs the command, and returns its output and its error.
func configSSH(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out, errs bytes.Buffer
	s := NewSession(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs})
	cmd := newConfigSSHCommand(s)
	s.Kubeconfig.AddFlags(cmd.PersistentFlags())
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String() + errs.String(), err
}

func TestConfigSSH(t *testing.T) {
	home := t.TempDir()
	kube := filepath.Join(home, "100% kube config")
	if err := os.WriteFile(kube, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("KUBECONFIG", kube)
	config := filepath.Join(home, ".ssh", "config")
	const mine = "ServerAliveCountMax 5\n\nHost *.example.com\n    User ada\n"
	kept := filepath.Join(home, "dotfiles")
	if err := os.MkdirAll(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kept, []byte(mine), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(kept, config); err != nil {
		t.Fatal(err)
	}
	read := func() string {
		text, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	call := func(says string, args ...string) {
		t.Helper()
		if out, err := configSSH(t, args...); err != nil || !strings.Contains(out, says) {
			t.Fatalf("config-ssh %q: %q, %v; want %q", args, out, err, says)
		}
	}
	call("Host *.cws", "--dry-run")
	if read() != mine {
		t.Fatal("a dry run wrote")
	}
	call("is written")
	first := read()
	for _, want := range []string{
		`ProxyCommand env 'KUBECONFIG=` + strings.ReplaceAll(kube, "%", "%%") + `' `,
		` --context 'dev'\''s cluster' --namespace team ssh --stdio --host-suffix cws -- '%h'` + "\n",
		"    StrictHostKeyChecking no\n    UserKnownHostsFile /dev/null\n",
		"Host *\n# END kubectl coder config-ssh, hosts *.cws\n\n" + mine,
	} {
		if !strings.Contains(first, want) {
			t.Errorf("%s\nlacks %s", first, want)
		}
	}
	if strings.Contains(first, "sesame") {
		t.Error("the file contains a token")
	}
	call("is up to date")
	call("is written", "--suffix", "production", "--context", "production", "--namespace", "coder", "--start", "--kubeconfig", kube)
	for _, want := range []string{" --kubeconfig '" + strings.ReplaceAll(kube, "%", "%%") + "' --context production --namespace coder ssh --stdio --host-suffix production --start -- '%h'\n", first} {
		if !strings.Contains(read(), want) {
			t.Errorf("%s\nlacks %s", read(), want)
		}
	}
	// A block that the user moved stays in its place.
	if err := os.WriteFile(kept, []byte("# first\n"+read()), 0o640); err != nil {
		t.Fatal(err)
	}
	call("is removed", "--suffix", "production", "--remove")
	call("is written", "--start")
	if text := read(); !strings.HasPrefix(text, "# first\n# BEGIN") || !strings.Contains(text, "--start") || !strings.HasSuffix(text, mine) {
		t.Errorf("after an update: %s", text)
	}
	call("is removed (dry run)", "--remove", "--dry-run")
	call("is removed", "--remove")
	call("there is no block for the hosts *.cws, so nothing was removed", "--remove")
	if text := read(); text != "# first\n"+mine {
		t.Errorf("after the removal: %q, want what was there", text)
	}
	if info, err := os.Lstat(config); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
	if info, err := os.Stat(config); err != nil || info.Mode() != 0o640 {
		t.Errorf("the file has another mode: %v", err)
	}
}

// TestConfigSSHProgram checks that the block contains the path in PATH, which remains after an
// upgrade, if this program was found there.
func TestConfigSSHProgram(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(directory(t, map[string]string{"config": kubeconfig}), "config"))
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		// target is the target of the symbolic link in PATH.
		target string
		linked bool
	}{
		"this program":    {target: program, linked: true},
		"another program": {target: "/bin/sh"},
		"none":            {target: "/nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			bin := t.TempDir()
			link, want := filepath.Join(bin, "kubectl-coder"), program
			if err := os.Symlink(c.target, link); err != nil {
				t.Fatal(err)
			}
			if c.linked {
				want = link
			}
			t.Setenv("PATH", bin)
			if out, err := configSSH(t, "--dry-run"); err != nil || !strings.Contains(out, " "+want+" ") {
				t.Errorf("the block is %s (%v), want the program %s", out, err, want)
			}
		})
	}
}

func TestConfigSSHRefuses(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("KUBECONFIG", filepath.Join(home, "none"))
	for args, says := range map[string]string{
		"--suffix a.b":        "--suffix is",
		"--suffix *":          "--suffix is",
		"dev":                 "one argument too many",
		"--token t":           "put what --token says into a context",
		"--as root --server":  "flag needs an argument",
		"--as root":           "put what --as says into a context",
		"--namespace a\nHost": "control character",
	} {
		if out, err := configSSH(t, strings.Split(args, " ")...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("config-ssh %q: %q, %v, want %q", args, out, err, says)
		}
	}
	if _, err := os.Stat(filepath.Join(home, ".ssh")); err == nil {
		t.Error("it wrote")
	}
	block := sshBlock{suffix: "cws"}
	for _, broken := range []string{block.begin() + "\nHost a\n", "Host a\n" + block.end() + "\n"} {
		if _, err := block.apply(broken, false); err == nil {
			t.Errorf("a block without an end or a beginning is changed: %q", broken)
		}
	}
}

func TestPlaces(t *testing.T) {
	for text, want := range map[string]place{
		"dev:":                    {workspace: "dev", path: "."},
		"dev:a/b":                 {workspace: "dev", path: "./a/b"},
		"dev:-a":                  {workspace: "dev", path: "./-a"},
		"dev:~/x":                 {workspace: "dev", path: "~/x"},
		"dev:/etc:x":              {workspace: "dev", path: "/etc:x"},
		"coder.ada.dev@gpu:/data": {workspace: "coder.ada.dev", agent: "gpu", path: "/data"},
		"./a:b":                   {path: "./a:b"},
		"src":                     {path: "src"},
	} {
		if got, err := parsePlace(text); err != nil || got != want {
			t.Errorf("%s is %+v (%v), want %+v", text, got, err, want)
		}
	}
	for _, wrong := range []string{"", ":a", "@gpu:a"} {
		if got, err := parsePlace(wrong); err == nil {
			t.Errorf("%q is %+v", wrong, got)
		}
	}
}

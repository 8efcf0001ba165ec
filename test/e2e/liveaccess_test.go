//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// testLiveAccess connects to a workspace as users' tools do. It needs the plugin in
// PATH, and OpenSSH on this machine.
func testLiveAccess(t *testing.T, object string) {
	here := t.TempDir()
	big := make([]byte, 8<<20)
	_, _ = rand.Read(big)
	source := filepath.Join(here, "src")
	if err := os.MkdirAll(source, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"big": big, "a b'c": []byte("text")} {
		if err := os.WriteFile(filepath.Join(source, name), text, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	same := func(t *testing.T, directory string) {
		t.Helper()
		if out, err := exec.CommandContext(polltest.Context(t), "diff", "-r", source, directory).CombinedOutput(); err != nil {
			t.Errorf("the copy differs: %s", out)
		}
	}
	t.Run("cp", func(t *testing.T) {
		back := filepath.Join(here, "cp")
		coderGives(t, 0, "", "", "cp", "-n", sampleNamespace, source, object+":cp")
		coderGives(t, 0, "", "", "cp", "-n", sampleNamespace, object+":cp", back)
		same(t, back)
		coderGives(t, 1, "", "no such file or directory", "cp", "-n", sampleNamespace, object+":none", here)
	})
	t.Run("OpenSSH", func(t *testing.T) {
		config := filepath.Join(here, "ssh_config")
		coderGives(t, 0, "", "is written", "config-ssh", "-n", sampleNamespace, "--ssh-config", config)
		host := object + ".cws"
		// run repeats a program that failed after more than a minute, twice at most: in about one of 300 copies on a busy
		// machine the TCP stack of Coder's agent has data to send and sends none, which OpenSSH notices after two minutes.
		run := func(input, target string, args ...string) string {
			t.Helper()
			for stalls := 0; ; stalls++ {
				start := time.Now()
				cmd := exec.CommandContext(polltest.Context(t), args[0], args[1:]...) //nolint:gosec // Programs of OpenSSH, and hosts of ours.
				cmd.Stdin = strings.NewReader(input)
				out, err := cmd.CombinedOutput()
				if err == nil {
					return string(out)
				}
				if time.Since(start) < time.Minute || stalls == 2 {
					t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
					return string(out)
				}
				t.Logf("%s, once more: %v\n%s", strings.Join(args, " "), err, out)
				if target != "" {
					_ = os.RemoveAll(filepath.Join(here, target))
				}
			}
		}
		tool := func(input, target string, args ...string) string {
			t.Helper()
			return run(input, target, append([]string{args[0], "-F", config}, args[1:]...)...)
		}
		if out := tool("typed", "", "ssh", host, "cat; echo; pwd"); !strings.HasPrefix(out, "typed\n/home/") {
			t.Errorf("ssh wrote %q", out)
		}
		tool("-mkdir sftp\nput "+filepath.Join(source, "big")+" sftp/big\nput \""+filepath.Join(source, "a b'c")+"\" sftp/\n", "", "sftp", "-b", "-", host)
		tool("", "sftp", "scp", "-r", host+":sftp", filepath.Join(here, "sftp"))
		same(t, filepath.Join(here, "sftp"))
		t.Setenv("RSYNC_RSH", "ssh -F "+config)
		for _, paths := range [][]string{{source + "/", host + ":rsync"}, {host + ":rsync/", filepath.Join(here, "rsync")}} {
			run("", "", append(rsync(t), "-a", "--delete", paths[0], paths[1])...)
		}
		same(t, filepath.Join(here, "rsync"))
		coderGives(t, 0, "", "", "exec", "-n", sampleNamespace, object, "--", "sh", "-c", "git init -q repo && cd repo && git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m first")
		t.Setenv("GIT_SSH_COMMAND", "ssh -F "+config)
		run("", "repo", "git", "clone", "-q", host+":repo", filepath.Join(here, "repo"))
		coderGives(t, 0, "", "is removed", "config-ssh", "-n", sampleNamespace, "--ssh-config", config, "--remove")
	})
	t.Run("a port, and no shell through one", func(t *testing.T) {
		coderGives(t, 2, "", "belong to the agent itself", "port-forward", "-n", sampleNamespace, object, "0:22")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		// Nothing listens on port 9 of the workspace.
		cmd := exec.CommandContext(ctx, "kubectl", "coder", "port-forward", "-n", sampleNamespace, object, "0:8000", "0:9")
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stop := sync.OnceFunc(func() {
			_ = cmd.Process.Signal(os.Interrupt)
			_ = cmd.Wait()
		})
		defer stop()
		// It writes a line for each local address, of which there may be one in each family.
		local := map[string]string{}
		for lines := bufio.NewScanner(out); len(local) < 2 && lines.Scan(); {
			var address, port string
			if n, _ := fmt.Sscanf(lines.Text(), "Forwarding from %s -> %s", &address, &port); n == 2 {
				local[port] = address
			}
		}
		go func() { _, _ = io.Copy(io.Discard, out) }()
		for range 2 {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", local["9"])
			if err != nil {
				t.Fatalf("connecting to %q: %v", local, err)
			}
			if n, _ := conn.Read(make([]byte, 1)); n != 0 {
				t.Error("a port on which nothing listens sends something")
			}
			_ = conn.Close()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+local["8000"]+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatalf("after a port was refused: %v", err)
			}
			_ = response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("the web app answers %s", response.Status)
			}
		}
		stop()
		if strings.Count(said.String(), " to port 9 failed: connecting to port 9: ") != 2 {
			t.Errorf("port-forward says %q of the refused connections", said.String())
		}
	})
}

// rsync returns the command for the rsync of the workspace image, which runs on this machine
// with its own libraries.
func rsync(t *testing.T) []string {
	t.Helper()
	root := os.Getenv("E2E_WORKSPACE_ROOT")
	libraries, _ := filepath.Glob(root + "/usr/lib/*-linux-gnu")
	loader, _ := filepath.Glob(root + "/usr/lib/*-linux-gnu/ld-linux*")
	if len(libraries) != 1 || len(loader) != 1 {
		t.Fatalf("the files of the workspace image are not in %s: libraries %q, loader %q", root, libraries, loader)
	}
	return []string{loader[0], "--library-path", libraries[0], root + "/usr/bin/rsync"}
}

package plugin

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// proxied is a block whose ProxyCommand writes the host that it gets to a file.
type proxied struct {
	sshBlock
	home, got string
}

func newProxied(t *testing.T) proxied {
	t.Helper()
	home := t.TempDir()
	p := proxied{home: home, got: filepath.Join(home, "got")}
	program := filepath.Join(home, "proxy")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n[ \"$1\" = -- ] && printf %s \"$2\" >"+p.got+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p.sshBlock = sshBlock{suffix: "cws", proxy: program + " -- " + hostToken()}
	return p
}

// host returns the host that the ProxyCommand got, or an empty text if it was not run.
func (p proxied) host(t *testing.T) string {
	t.Helper()
	host, err := os.ReadFile(p.got)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(host)
}

var sshWord = regexp.MustCompile(`"([^"]*)"|[^\s"]+`)

// oldSSH does what OpenSSH before 9.6 does with a host: if the patterns of the block match, it replaces
// %h in the ProxyCommand, and a shell runs it.
func (p proxied) oldSSH(t *testing.T, host string) {
	t.Helper()
	applies := false
	for _, line := range strings.Split(p.String(), "\n") {
		keyword, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case keyword == "Host":
			applies = false
			for _, word := range sshWord.FindAllString(value, -1) {
				pattern, negated := strings.CutPrefix(strings.Trim(word, `"`), "!")
				if !regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$").MatchString(host) {
					continue
				}
				if applies = !negated; negated {
					break
				}
			}
		case keyword == "ProxyCommand" && applies:
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "exec "+strings.NewReplacer("%%", "%", "%h", host).Replace(value))
			cmd.Dir, cmd.Env = p.home, []string{"HOME=" + p.home, "PATH=" + os.Getenv("PATH")}
			_ = cmd.Run()
		}
	}
}

// TestHostsDoNotReachAShell: a host may be in the URL of a Git submodule, and OpenSSH before 9.6 does
// not check it.
func TestHostsDoNotReachAShell(t *testing.T) {
	for _, host := range []string{
		`x';touch pwned;'.cws`, `x';touch${IFS}pwned;'.cws`, "x'`touch pwned`'.cws", `x'$(touch pwned)'.cws`, `'&touch pwned&'.cws`,
		`x\.cws`, `x!y.cws`, `x%y.cws`, `x^y.cws`, `x&y.cws`, `x|y.cws`, `x<y.cws`, `x>y.cws`, `x(y.cws`, `x)y.cws`, `x;y.cws`, `$x.cws`, "`x.cws", "x y.cws",
	} {
		t.Run(host, func(t *testing.T) {
			p := newProxied(t)
			p.oldSSH(t, host)
			if _, err := os.Stat(filepath.Join(p.home, "pwned")); err == nil {
				t.Error("the shell ran a command of the host")
			}
			if got := p.host(t); got != "" {
				t.Errorf("the ProxyCommand was run for %q", got)
			}
		})
	}
	for _, host := range []string{"dev.cws", "coder.ada.my_dev--gpu-2.cws", "-oproxycommand.cws"} {
		p := newProxied(t)
		p.oldSSH(t, host)
		if got := p.host(t); got != host {
			t.Errorf("the ProxyCommand got %q, want %q", got, host)
		}
	}
}

// TestOpenSSHReadsTheBlock checks the patterns with the installed OpenSSH, also with characters that it
// does not refuse itself.
func TestOpenSSHReadsTheBlock(t *testing.T) {
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		t.Skip("no ssh")
	}
	for host, want := range map[string]string{
		"dev.cws": "dev.cws", "coder.ada.my_dev--gpu-2.cws": "coder.ada.my_dev--gpu-2.cws",
		"x!y.cws": "", "x%y.cws": "", "x^y.cws": "", "x'y.cws": "", "x;y.cws": "", "x$y.cws": "", `x\y.cws`: "",
	} {
		p := newProxied(t)
		config := filepath.Join(p.home, "config")
		// All other hosts reach nobody.
		if err := os.WriteFile(config, []byte(p.String()+"ProxyCommand false\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), ssh, "-F", config, "-o", "BatchMode=yes", host, "true")
		out, err := cmd.CombinedOutput()
		if got := p.host(t); got != want || err == nil {
			t.Errorf("%s: the ProxyCommand got %q, want %q; %v, %s", host, got, want, err, out)
		}
	}
}

package plugin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// sshBlock is the block of an OpenSSH configuration for one host suffix.
type sshBlock struct {
	suffix string
	// proxy is the command that connects to the host. OpenSSH passes it to a shell. %h is the host.
	proxy string
}

func (b sshBlock) begin() string {
	return fmt.Sprintf("# BEGIN kubectl coder config-ssh, hosts *.%s", b.suffix)
}

func (b sshBlock) end() string {
	return fmt.Sprintf("# END kubectl coder config-ssh, hosts *.%s", b.suffix)
}

// String returns the text of the block. It ends with "Host *", so that options that follow the
// block still apply to all hosts.
func (b sshBlock) String() string {
	return fmt.Sprintf(`%s
# Call kubectl coder config-ssh to change this block, and with --remove to remove it.
# The host key is not checked, because it proves nothing: anyone can compute it from the names of the workspace and its
# owner. The connection is inside one to kube-apiserver, whose certificate the kubeconfig's certificate authority verifies,
# and which authenticates you.
Host *.%s
    ProxyCommand %s
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
    ConnectTimeout 0
    ServerAliveInterval 30
Host *
%s
`, b.begin(), b.suffix, b.proxy, b.end())
}

// apply returns the configuration with this block, or without it. An existing block stays in its
// place. A new one is added at the beginning, because OpenSSH uses the first value of an option.
func (b sshBlock) apply(config string, remove bool) (string, error) {
	before, rest, found := cutLine(config, b.begin())
	if !found {
		if _, _, found := cutLine(config, b.end()); found {
			return "", fmt.Errorf("the line %q is there without the line %q: remove it", b.end(), b.begin())
		}
		if remove {
			return config, nil
		}
		if config != "" {
			config = "\n" + config
		}
		return b.String() + config, nil
	}
	_, after, found := cutLine(rest, b.end())
	if !found {
		return "", fmt.Errorf("the line %q is missing after the line %q: add it where the block ends", b.end(), b.begin())
	}
	if remove {
		return before + strings.TrimPrefix(after, "\n"), nil
	}
	return before + b.String() + after, nil
}

// cutLine splits a text around a line.
func cutLine(text, line string) (before, after string, found bool) {
	for at := 0; at < len(text); {
		whole, _, _ := strings.Cut(text[at:], "\n")
		next := min(at+len(whole)+1, len(text))
		if strings.TrimRight(whole, " \t\r") == line {
			return text[:at], text[next:], true
		}
		at = next
	}
	return text, "", false
}

// readConfig reads an OpenSSH configuration. A missing file is empty.
func readConfig(file string) (string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

// writeConfig replaces the file atomically. It follows a symbolic link, which some tools use to
// manage such files.
func writeConfig(file, text string) error {
	if resolved, err := filepath.EvalSymlinks(file); err == nil {
		file = resolved
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	mode := os.FileMode(0o600)
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	temporary, err := os.CreateTemp(filepath.Dir(file), ".kubectl-coder-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }()
	_, err = temporary.WriteString(text)
	if err := errors.Join(err, temporary.Chmod(mode), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), file)
}

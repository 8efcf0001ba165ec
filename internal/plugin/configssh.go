package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

type sshConfiguration struct {
	*Session
	file, suffix          string
	dryRun, remove, start bool
}

func newConfigSSHCommand(s *Session) *cobra.Command {
	c := &sshConfiguration{Session: s}
	cmd := &cobra.Command{
		Use:   "config-ssh",
		Short: "Configure OpenSSH for workspaces, and so VS Code, JetBrains, scp, rsync and git",
		Long: "Writes a block for the hosts *.cws into the configuration of OpenSSH, so that ssh dev.cws opens a shell in workspace dev, and every\n" +
			"program that uses OpenSSH can connect too. A host is the name of one of your own workspaces, or the name of any workspace\n" +
			"with its owner, and --AGENT after it if the workspace has several agents: dev.cws, ada.dev.cws, coder.ada.dev--main.cws.\n" +
			"The block does not apply to hosts with characters that a shell interprets.\n\n" +
			"The block contains the kubeconfig, context and namespace of this call. For another cluster or namespace add a second\n" +
			"block with another --suffix. Calling it again updates the block, and changes nothing else in the file.\n\n" +
			"Each connection needs the verbs get and create of coderworkspaces/exec. kube-apiserver is authenticated by its\n" +
			"certificate and authenticates you. The host key of an agent is not checked: anyone can compute it from names.",
		Example: "  kubectl coder config-ssh --dry-run\n  kubectl coder config-ssh -n coder --start\n" +
			"  kubectl coder config-ssh --context production --suffix production\n  kubectl coder config-ssh --remove",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.do(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.file, "ssh-config", "", "the configuration of OpenSSH; ~/.ssh/config if not given")
	flags.StringVar(&c.suffix, "suffix", "cws", "what the names of hosts end with, after a dot")
	flags.BoolVar(&c.start, "start", false, "start a workspace that does not run when a program connects to it")
	flags.BoolVar(&c.dryRun, "dry-run", false, "print the block, and write nothing")
	flags.BoolVar(&c.remove, "remove", false, "remove the block of this suffix")
	return cmd
}

var suffixPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

func (c *sshConfiguration) do(cmd *cobra.Command) error {
	if !suffixPattern.MatchString(c.suffix) {
		return cli.Usage("--suffix is %q, and must be lower case letters, digits and dashes between them", c.suffix)
	}
	if c.file == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return fmt.Errorf("finding the configuration of OpenSSH: %w; give it with --ssh-config", err)
		}
		c.file = filepath.Join(home, ".ssh", "config")
	}
	block := sshBlock{suffix: c.suffix}
	if !c.remove {
		var err error
		if block.proxy, err = c.command(cmd.Flags()); err != nil {
			return err
		}
	}
	if c.dryRun && !c.remove {
		_, err := fmt.Fprint(c.Out, block)
		return err
	}
	text, err := os.ReadFile(c.file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	before := string(text)
	after, err := block.apply(before, c.remove)
	if err != nil {
		return fmt.Errorf("%s: %w", c.file, err)
	}
	if c.remove && after == before {
		fmt.Fprintf(c.ErrOut, "%s: there is no block for the hosts *.%s, so nothing was removed\n", c.file, c.suffix)
		return nil
	}
	state := "up to date"
	if after != before {
		state = map[bool]string{false: "written", true: "removed"}[c.remove]
		if c.dryRun {
			state += " (dry run)"
		} else if err := writeConfig(c.file, after); err != nil {
			return fmt.Errorf("writing %s: %w", c.file, err)
		}
	}
	fmt.Fprintf(c.ErrOut, "%s: the block for the hosts *.%s is %s\n", c.file, c.suffix, state)
	return nil
}

// command returns the command that connects to the host %h with the cluster of this invocation. It
// refuses flags that would put a password or a token into the file, or that it cannot record.
func (c *sshConfiguration) command(flags *pflag.FlagSet) (string, error) {
	recorded := []string{"kubeconfig", "context", "namespace", "ssh-config", "suffix", "start", "dry-run", "remove"}
	var others []string
	flags.Visit(func(f *pflag.Flag) {
		if !slices.Contains(recorded, f.Name) {
			others = append(others, "--"+f.Name)
		}
	})
	if len(others) > 0 {
		return "", cli.Usage("config-ssh records the kubeconfig, the context and the namespace alone: put what %s says into a context", strings.Join(others, ", "))
	}
	program, err := programPath()
	if err != nil {
		return "", fmt.Errorf("finding the path of this program: %w", err)
	}
	loader := c.Kubeconfig.Loader()
	config, err := loader.RawConfig()
	if err != nil {
		return "", err
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return "", err
	}
	words := []string{program}
	if c.Kubeconfig.Files.ExplicitPath != "" {
		file, err := filepath.Abs(c.Kubeconfig.Files.ExplicitPath)
		if err != nil {
			return "", err
		}
		words = append(words, "--kubeconfig", file)
	} else if list := os.Getenv("KUBECONFIG"); list != "" && runtime.GOOS == "windows" {
		return "", cli.Usage("give the kubeconfig with --kubeconfig: programs that are started from the desktop do not have the variable KUBECONFIG")
	} else if list != "" {
		// A program that is started from the desktop does not have the environment of this shell.
		files := filepath.SplitList(list)
		for i, file := range files {
			if path, err := filepath.Abs(file); err == nil {
				files[i] = path
			}
		}
		words = append([]string{"env", "KUBECONFIG=" + strings.Join(files, string(filepath.ListSeparator))}, words...)
	}
	if context := cmp.Or(c.Kubeconfig.Flags.CurrentContext, config.CurrentContext); context != "" {
		words = append(words, "--context", context)
	}
	words = append(words, "--namespace", namespace, "ssh", "--stdio", "--host-suffix", c.suffix)
	if c.start {
		words = append(words, "--start")
	}
	for i, word := range words {
		if strings.ContainsFunc(word, unicode.IsControl) {
			return "", fmt.Errorf("%q contains a control character, which the configuration of OpenSSH cannot contain", word)
		}
		words[i] = quote(word)
	}
	return strings.Join(append(words, "--", hostToken()), " "), nil
}

// programPath returns the path of this program, in PATH if it is there. krew and Homebrew put a
// symbolic link into PATH. The path of the process contains a version, which an upgrade removes.
func programPath() (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	if linked, err := exec.LookPath("kubectl-coder"); err == nil {
		// Stat follows symbolic links. A file that cannot be read is the same as no other.
		inPath, _ := os.Stat(linked)
		running, _ := os.Stat(program)
		if os.SameFile(inPath, running) {
			return filepath.Abs(linked)
		}
	}
	return program, nil
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=,@+-]+$`)

// quote quotes a text as one shell word. It escapes %, which starts a token in OpenSSH's
// configuration.
func quote(word string) string {
	if !plainWord.MatchString(word) {
		if runtime.GOOS == "windows" {
			word = `"` + word + `"`
		} else {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.ReplaceAll(word, "%", "%%")
}

// hostToken returns OpenSSH's token for the host, quoted. The host may be untrusted, for example
// the URL of a Git submodule, and must not be interpreted by the shell.
func hostToken() string {
	if runtime.GOOS == "windows" {
		return "%h"
	}
	return "'%h'"
}

// unsafeHosts are patterns of OpenSSH for hosts with characters that have a meaning in a shell, also
// inside the quotes of hostToken: a quote in sh, a backslash in fish, ! in csh, the others in that of
// Windows. The block does not apply to them. OpenSSH 9.6 refuses them itself; older versions would
// pass them to the shell. An even older version cannot quote a double quote, which is harmless alone.
const unsafeHosts = `"!*'*" !*\* !*!* !*%* !*^* !*&* !*|* !*<* !*>* !*(* !*)* !*;* !*$* "!*` + "`" + `*" "!* *"`

// sshBlock is the block of an OpenSSH configuration for one host suffix.
type sshBlock struct {
	suffix string
	// proxy is the command that connects to the host. OpenSSH passes it to a shell. %h is the host.
	proxy string
}

func (b sshBlock) begin() string { return "# BEGIN kubectl coder config-ssh, hosts *." + b.suffix }

func (b sshBlock) end() string { return "# END kubectl coder config-ssh, hosts *." + b.suffix }

// String returns the text of the block. It ends with "Host *", so that options that follow the
// block still apply to all hosts.
func (b sshBlock) String() string {
	return fmt.Sprintf(`%s
# Call kubectl coder config-ssh to change this block, and with --remove to remove it.
# The host key is not checked, because it proves nothing: anyone can compute it from the names of the workspace and its
# owner. The connection is inside one to kube-apiserver, whose certificate the kubeconfig's certificate authority verifies,
# and which authenticates you.
# It applies to no host with a character that a shell interprets, because OpenSSH before 9.6 passes such hosts to the shell.
Host *.%s %s
    ProxyCommand %s
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
    ConnectTimeout 0
    ServerAliveInterval 15
Host *
%s
`, b.begin(), b.suffix, unsafeHosts, b.proxy, b.end())
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
	at := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(line) + `[ \t\r]*$\n?`).FindStringIndex(text)
	if at == nil {
		return text, "", false
	}
	return text[:at[0]], text[at[1]:], true
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

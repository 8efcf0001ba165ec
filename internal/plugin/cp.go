package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// place is a file or directory in a workspace or on this machine.
type place struct {
	// workspace is empty for this machine.
	workspace, agent, path string
}

func newCopyCommand(s *Session) *cobra.Command {
	a := &agentCommand{Session: s}
	cmd := &cobra.Command{
		Use:   "cp SOURCE DESTINATION",
		Short: "Copy files and directories to and from a workspace",
		Long: "Copies a file or directory. One of the two arguments is WORKSPACE:PATH or WORKSPACE@AGENT:PATH. A name without an\n" +
			"owner, such as dev, is one of your own workspaces. If the destination is a directory that exists, the copy goes into it.\n" +
			"SOURCE/. copies the content of a directory. A path without a leading slash is relative to the directory in which a shell\n" +
			"of the workspace starts.\n\n" +
			"Permissions and times are kept, owners are not. Symbolic links are copied as links; from a workspace only those whose\n" +
			"target is inside of what is copied. Nothing is written outside of the destination.\n\n" +
			"The workspace needs tar, and for a single file mktemp. It needs the verbs get and create of coderworkspaces/exec.\n\n" +
			"On a terminal it shows the progress, and at the end the number of files and links.\n\n" +
			"Exit codes: 0 all was copied; 1 the copy is not complete; 2 wrong command line; 3 some entries were left out, of which\n" +
			"the first 20 are named.",
		Example: "  kubectl coder cp ./src dev:\n  kubectl coder cp dev:project/report.pdf .\n  kubectl coder cp -c gpu dev:/var/log/train ./logs\n" +
			"  kubectl coder cp coder.ada.dev@main:~/.bashrc bashrc",
		Args:              arguments(2, 2, "give a source and a destination, one of them as WORKSPACE:PATH"),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.copy(cmd.Context(), args[0], args[1]) },
		ValidArgsFunction: completePlaces(s),
	}
	a.addFlags(cmd, "c", "the agent whose files to copy")
	return cmd
}

// completePlaces completes workspaces. The shell completes files.
func completePlaces(s *Session) cobra.CompletionFunc {
	names := s.CompleteNames("CoderWorkspace")
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 1 || strings.ContainsAny(begun, ":/") {
			return nil, cobra.ShellCompDirectiveDefault
		}
		offered, _ := names(cmd, nil, begun)
		for i := range offered {
			offered[i] += ":"
		}
		return offered, cobra.ShellCompDirectiveNoSpace
	}
}

// parsePlace parses [WORKSPACE[@AGENT]:]PATH. A text with a slash before the colon, or with a
// Windows drive letter, is a file of this machine.
func parsePlace(text string) (place, error) {
	before, after, found := strings.Cut(text, ":")
	if !found || strings.ContainsAny(before, `/\`) || runtime.GOOS == "windows" && len(before) == 1 {
		if text == "" {
			return place{}, cli.Usage("the source or the destination is empty")
		}
		return place{path: text}, nil
	}
	workspace, agent, _ := strings.Cut(before, "@")
	if workspace == "" {
		return place{}, cli.Usage("%q contains no name of a workspace: give WORKSPACE:PATH, or ./%[1]s for a file of this machine", text)
	}
	switch {
	case after == "":
		after = "."
	case !strings.HasPrefix(after, "/") && after != "~" && !strings.HasPrefix(after, "~/"):
		// The path may begin with a dash.
		after = "./" + after
	}
	return place{workspace: workspace, agent: agent, path: after}, nil
}

func (a *agentCommand) copy(ctx context.Context, from, to string) error {
	source, err := parsePlace(from)
	if err != nil {
		return err
	}
	destination, err := parsePlace(to)
	if err != nil {
		return err
	}
	remote := source
	if source.workspace == "" {
		remote = destination
	}
	switch {
	case (source.workspace == "") == (destination.workspace == ""):
		return cli.Usage("one of the two must be WORKSPACE:PATH, and the other a file of this machine")
	case a.agent != "" && remote.agent != "" && a.agent != remote.agent:
		return cli.Usage("the agent is %s in the path and %s in the flag: give one of them", remote.agent, a.agent)
	case remote.agent != "":
		a.agent = remote.agent
	}
	u := &transfer{agentCommand: a, report: &copyReport{}}
	if source.workspace != "" {
		return u.download(ctx, source, destination.path)
	}
	return u.upload(ctx, source.path, destination)
}

// uploadScript unpacks an archive from standard input. Its arguments are the destination, "file" or
// "directory", and the name of the copy if the destination is an existing directory. A file gets
// its name when it is complete.
const uploadScript = `p=$1
case $p in "~") p=$HOME ;; "~/"*) p=$HOME/${p#"~/"} ;; esac
command -v tar >/dev/null || { echo "the workspace has no tar" >&2; exit 127; }
if [ -d "$p" ]; then p=${p%/}/$3
else case $p in */) echo "$p: no such directory" >&2; exit 1 ;; esac; fi
if [ "$2" = directory ]; then
  [ -d "$p" ] || mkdir "$p" || exit 1
  cd "$p" && exec tar -xpof -
fi
if [ -d "$p" ]; then echo "$p is a directory" >&2; exit 1; fi
t=$(mktemp -d "${p%/*}/.kubectl-coder-XXXXXX") || exit 1
trap 'rm -rf "$t"' EXIT HUP INT TERM
(cd "$t" && exec tar -xpof -) && mv -f "$t/$3" "$p"`

// downloadScript packs a directory, with entries that begin with ".", or a file.
const downloadScript = `p=$1
case $p in "~") p=$HOME ;; "~/"*) p=$HOME/${p#"~/"} ;; esac
command -v tar >/dev/null || { echo "the workspace has no tar" >&2; exit 127; }
if [ -d "$p" ]; then cd "$p" && exec tar -cf - .
elif [ -e "$p" ]; then cd "${p%/*}/" && exec tar -chf - "./${p##*/}"
else echo "$p: no such file or directory" >&2; exit 1; fi`

func (u *transfer) upload(ctx context.Context, source string, to place) (err error) {
	if u.files, u.bytes, err = measureFiles(source); err != nil {
		return cli.Usage("%v", err)
	}
	kind := "file"
	if isDirectory(source) {
		kind = "directory"
	}
	name, err := nameOf(source)
	if err != nil {
		return err
	}
	return u.send(ctx, to, source, uploadScript, "sh", to.path, kind, name)
}

// isDirectory follows symbolic links.
func isDirectory(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// nameOf returns the last element of a path. It returns "." for a path that ends with ".", of which
// only the content is copied.
func nameOf(source string) (string, error) {
	if source == "." || strings.HasSuffix(filepath.ToSlash(source), "/.") {
		return ".", nil
	}
	absolute, err := filepath.Abs(source)
	return filepath.Base(absolute), err
}

func (u *transfer) download(ctx context.Context, from place, destination string) error {
	directory, name := filepath.Split(filepath.Clean(destination))
	if isDirectory(destination) {
		directory, name = destination, path.Base(from.path)
		if name == "/" || name == "~" || strings.HasSuffix(from.path, "/..") || from.path == ".." {
			name = "."
		}
	} else if strings.HasSuffix(destination, string(filepath.Separator)) {
		return cli.Usage("%s: no such directory", destination)
	}
	directory = cmp.Or(directory, ".")
	if _, err := os.Stat(directory); err != nil {
		return cli.Usage("%v", err)
	}
	err := u.receive(ctx, from, directory, name, downloadScript, "sh", from.path)
	if errors.Is(err, errEmptyArchive) {
		return fmt.Errorf("nothing was copied from workspace %s", u.ws.Name)
	}
	return err
}

package plugin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
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
		Args: arguments(2, 2, "give a source and a destination, one of them as WORKSPACE:PATH"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.copy(cmd.Context(), args[0], args[1]) },
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			// The shell completes files.
			if len(args) > 1 || strings.ContainsAny(begun, ":/") {
				return nil, cobra.ShellCompDirectiveDefault
			}
			offered, _ := s.CompleteNames("CoderWorkspace")(cmd, nil, begun)
			for i := range offered {
				offered[i] += ":"
			}
			return offered, cobra.ShellCompDirectiveNoSpace
		},
	}
	a.addFlags(cmd, "c", "the agent whose files to copy")
	return cmd
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

const (
	// maxComplaints limits how much of the workspace's standard error is kept, in bytes.
	maxComplaints = 8 << 10
	// progressInterval is the minimum interval between two progress updates.
	progressInterval = 100 * time.Millisecond
	mebibyte         = 1 << 20
)

// transfer is one copy.
type transfer struct {
	*agentCommand
	report *copyReport
	// complaints is the standard error of the workspace.
	complaints limited
	// files and bytes are the total number and size of the files and links, or 0 if unknown.
	files int
	bytes int64

	ws       *aggregationv1alpha1.CoderWorkspace
	progress *cli.Progress
	began    time.Time
	shown    time.Time
}

// begin reads the workspace and starts the progress display.
func (u *transfer) begin(ctx context.Context, name string) (*Cluster, error) {
	cluster, ws, err := u.find(ctx, name)
	if err != nil {
		return nil, err
	}
	u.ws, u.began, u.progress = ws, u.Now(), u.Progress()
	u.report.Progress = u.show
	return cluster, nil
}

func (u *transfer) inside(ctx context.Context, c *Cluster, stdin io.Reader, stdout io.Writer, script ...string) error {
	return execIn(ctx, c, u.ws, map[string]string{"agent": u.agent}, remoteexec.Command{
		Args: append([]string{"sh", "-c"}, script...), Stdin: stdin, Stdout: stdout, Stderr: &u.complaints,
	})
}

var errEnded = errors.New("the command in the workspace has ended")

// upload packs source, and unpacks it in the workspace.
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
	cluster, err := u.begin(ctx, to.workspace)
	if err != nil {
		return err
	}
	reader, writer := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := packFiles(writer, source, u.report)
		_ = writer.CloseWithError(err)
		packed <- err
	}()
	err = u.inside(ctx, cluster, reader, io.Discard, uploadScript, "sh", to.path, kind, name)
	// The command may have ended before it read everything.
	_ = reader.CloseWithError(errEnded)
	packErr := <-packed
	u.progress.End()
	if errors.Is(packErr, errEnded) {
		packErr = nil
	}
	return u.outcome(packErr, err)
}

// download unpacks what the workspace packs.
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
	cluster, err := u.begin(ctx, from.workspace)
	if err != nil {
		return err
	}
	reader, writer := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	unpacked := make(chan error, 1)
	go func() {
		err := unpackFiles(reader, directory, name, u.report)
		if err == nil {
			// Read the data after the end of the archive.
			_, err = io.Copy(io.Discard, reader)
		}
		_ = reader.CloseWithError(err)
		if err != nil {
			cancel()
		}
		unpacked <- err
	}()
	err = u.inside(ctx, cluster, nil, writer, downloadScript, "sh", from.path)
	var exit *cli.ExitError
	if errors.As(err, &exit) {
		_ = writer.Close()
	} else {
		_ = writer.CloseWithError(err)
	}
	unpackErr := <-unpacked
	u.progress.End()
	if exit != nil && unpackErr == nil {
		// tar reports files that it cannot read, and packs the others.
		return u.partial(u.report.Left(), fmt.Errorf("in the workspace: %s", u.complaints.text(exit)))
	}
	if err = u.outcome(unpackErr, err); errors.Is(err, errEmptyArchive) {
		return fmt.Errorf("nothing was copied from workspace %s", u.ws.Name)
	}
	return err
}

// outcome returns the error of a copy. mine is the error of this machine, theirs the one of the
// workspace.
func (u *transfer) outcome(mine, theirs error) error {
	var exit *cli.ExitError
	if errors.As(theirs, &exit) {
		theirs = fmt.Errorf("in workspace %s: %s", u.ws.Name, u.complaints.text(exit))
		if errors.Is(mine, errEmptyArchive) {
			return theirs
		}
	}
	if mine == nil && theirs == nil {
		if left := u.report.Left(); left != nil {
			return u.partial(left)
		}
		if u.Live {
			fmt.Fprintln(u.ErrOut, u.copied())
		}
		return nil
	}
	switch {
	case mine == nil:
		mine = theirs
	case theirs != nil && !errors.Is(mine, theirs) && !errors.Is(theirs, mine) && !errors.Is(theirs, context.Canceled):
		mine = errors.Join(mine, theirs)
	}
	text := u.copied()
	if u.files > 0 {
		text = fmt.Sprintf("%s of %s sent", amount(u.report.Files, u.report.Bytes), amount(u.files, u.bytes))
	}
	if u.report.Current != "" {
		text += fmt.Sprintf("; %q was being copied, and what comes after it is missing", u.report.Current)
	}
	return errors.Join(fmt.Errorf("the copy is not complete: %w", mine), errors.New(text), u.report.Left())
}

// partial returns the error of a copy that left entries out. It ends with what was copied.
func (u *transfer) partial(left ...error) error {
	return &cli.ExitError{Code: cli.ExitPartial, Err: errors.Join(append(left, errors.New(u.copied()))...)}
}

func (u *transfer) copied() string { return amount(u.report.Files, u.report.Bytes) + " copied" }

// amount describes a number of files and their size, for example 2 files (1.5 MiB).
func amount(files int, bytes int64) string {
	noun := "files"
	if files == 1 {
		noun = "file"
	}
	size := fmt.Sprintf("%.1f MiB", float64(bytes)/mebibyte)
	if bytes < mebibyte {
		size = fmt.Sprintf("%.1f KiB", float64(bytes)/1024)
	}
	return fmt.Sprintf("%d %s (%s)", files, noun, size)
}

func (u *transfer) show() {
	now := u.Now()
	if now.Sub(u.shown) < progressInterval {
		return
	}
	u.shown = now
	text := fmt.Sprintf("%.1f MiB", float64(u.report.Bytes)/mebibyte)
	if u.bytes > 0 {
		text += fmt.Sprintf(" of %.1f MiB", float64(u.bytes)/mebibyte)
	}
	if passed := now.Sub(u.began).Seconds(); passed > 0 {
		text += fmt.Sprintf(", %.1f MiB/s", float64(u.report.Bytes)/mebibyte/passed)
	}
	u.progress.Line(text + "  " + u.report.Current)
}

// limited keeps the first maxComplaints bytes of the written data.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	_, _ = l.Buffer.Write(p[:min(maxComplaints-l.Len(), len(p))])
	return len(p), nil
}

// text returns the written data, or the command's exit code if there is none.
func (l *limited) text(exit *cli.ExitError) string {
	if text := strings.TrimSpace(l.String()); text != "" {
		return text
	}
	return fmt.Sprintf("the command exited with code %d", exit.Code)
}

package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
)

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

// inside runs a script in the workspace.
func (u *transfer) inside(ctx context.Context, c *Cluster, stdin io.Reader, stdout io.Writer, script ...string) error {
	return execIn(ctx, c, u.ws, map[string]string{"agent": u.agent}, remoteexec.Command{
		Args: append([]string{"sh", "-c"}, script...), Stdin: stdin, Stdout: stdout, Stderr: &u.complaints,
	})
}

var errEnded = errors.New("the command in the workspace has ended")

// send packs source, and unpacks it in the workspace with a script.
func (u *transfer) send(ctx context.Context, to place, source string, script ...string) error {
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
	err = u.inside(ctx, cluster, reader, io.Discard, script...)
	// The command may have ended before it read everything.
	_ = reader.CloseWithError(errEnded)
	packErr := <-packed
	u.progress.End()
	if errors.Is(packErr, errEnded) {
		packErr = nil
	}
	return u.outcome(packErr, err)
}

// receive unpacks the output of a script as name in directory.
func (u *transfer) receive(ctx context.Context, from place, directory, name string, script ...string) error {
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
	err = u.inside(ctx, cluster, nil, writer, script...)
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
	return u.outcome(unpackErr, err)
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
	return errors.Join(fmt.Errorf("the copy is not complete: %w", mine), u.missing(), u.report.Left())
}

// partial returns the error of a copy that left entries out. It ends with what was copied.
func (u *transfer) partial(left ...error) error {
	return &cli.ExitError{Code: cli.ExitPartial, Err: errors.Join(append(left, errors.New(u.copied()))...)}
}

// copied describes what was copied.
func (u *transfer) copied() string { return amount(u.report.Files, u.report.Bytes) + " copied" }

// missing returns an error with the progress of an incomplete copy.
func (u *transfer) missing() error {
	text := u.copied()
	if u.files > 0 {
		text = fmt.Sprintf("%s of %s sent", amount(u.report.Files, u.report.Bytes), amount(u.files, u.bytes))
	}
	if u.report.Current != "" {
		text += fmt.Sprintf("; %q was being copied, and what comes after it is missing", u.report.Current)
	}
	return errors.New(text)
}

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

// show updates the progress display.
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

// Write implements io.Writer.
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

package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

const (
	// maxComplaints limits how much of the workspace's standard error is kept, in bytes.
	maxComplaints = 8 << 10
	// progressInterval is the minimum interval between two progress updates.
	progressInterval = 100 * time.Millisecond
	mebibyte         = 1 << 20
)

// The kinds of sources.
const (
	kindFile      = "file"
	kindDirectory = "directory"
)

// kindOf returns the kind of a path on this machine. It follows symbolic links.
func kindOf(name string) (string, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return "", err
	case info.IsDir():
		return kindDirectory, nil
	}
	return kindFile, nil
}

// transfer is one copy.
type transfer struct {
	*target
	report *copyReport
	// files and bytes are the total number and size of the files, or 0 if unknown.
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
	u.ws, u.began, u.progress = ws, u.Clock.Now(), u.Progress()
	u.report.Progress = u.show
	return cluster, nil
}

// send runs a command that unpacks source in the workspace.
func (u *transfer) send(ctx context.Context, to place, source string, args []string) error {
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
	complaints := &limited{rest: maxComplaints}
	err = run(ctx, cluster, u.ws, command{agent: u.agent, args: args, stdin: reader, stdout: io.Discard, stderr: complaints})
	// The command may have ended before it read everything.
	_ = reader.CloseWithError(errEnded)
	packErr := <-packed
	u.progress.End()
	if errors.Is(packErr, errEnded) {
		packErr = nil
	}
	return u.outcome(packErr, err, complaints)
}

var errEnded = errors.New("the command in the workspace has ended")

// receive unpacks the output of a command as name in directory.
func (u *transfer) receive(ctx context.Context, from place, directory, name string, args []string) error {
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
	complaints := &limited{rest: maxComplaints}
	err = run(ctx, cluster, u.ws, command{agent: u.agent, args: args, stdout: writer, stderr: complaints})
	var exit *cli.ExitError
	if err == nil || errors.As(err, &exit) {
		_ = writer.Close()
	} else {
		_ = writer.CloseWithError(err)
	}
	unpackErr := <-unpacked
	u.progress.End()
	if exit != nil && unpackErr == nil {
		// tar reports files that it cannot read, and packs the others.
		return &cli.PartialError{Err: errors.Join(u.report.Left(), fmt.Errorf("in the workspace: %s", complaints.text(exit)))}
	}
	return u.outcome(unpackErr, err, complaints)
}

// outcome returns the error of a copy. mine is the error of this machine, theirs the one of the
// workspace.
func (u *transfer) outcome(mine, theirs error, complaints *limited) error {
	var exit *cli.ExitError
	if errors.As(theirs, &exit) {
		theirs = fmt.Errorf("in workspace %s: %s", u.ws.Name, complaints.text(exit))
		if errors.Is(mine, errEmptyArchive) {
			return theirs
		}
	}
	if mine == nil && theirs == nil {
		if left := u.report.Left(); left != nil {
			return &cli.PartialError{Err: left}
		}
		if u.Live {
			fmt.Fprintf(u.ErrOut, "%s copied\n", u.amount(u.report.Files, u.report.Bytes))
		}
		return nil
	}
	if mine != nil && theirs != nil && !errors.Is(mine, theirs) && !errors.Is(theirs, context.Canceled) {
		mine = errors.Join(mine, theirs)
	} else if mine == nil {
		mine = theirs
	}
	return errors.Join(fmt.Errorf("the copy is not complete: %w", mine), u.missing(), u.report.Left())
}

// missing returns an error with the progress of an incomplete copy.
func (u *transfer) missing() error {
	text := u.amount(u.report.Files, u.report.Bytes) + " were copied"
	if u.files > 0 {
		text = fmt.Sprintf("%s were sent, of %s", u.amount(u.report.Files, u.report.Bytes), u.amount(u.files, u.bytes))
	}
	if u.report.Current != "" {
		text += fmt.Sprintf("; %q was being copied, and what comes after it is missing", u.report.Current)
	}
	return errors.New(text)
}

func (*transfer) amount(files int, bytes int64) string {
	noun := "files"
	if files == 1 {
		noun = "file"
	}
	return fmt.Sprintf("%d %s (%.1f MiB)", files, noun, float64(bytes)/mebibyte)
}

// show updates the progress display.
func (u *transfer) show() {
	now := u.Clock.Now()
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

// limited keeps the beginning of the written data.
type limited struct {
	bytes.Buffer
	rest int
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	kept := min(l.rest, len(p))
	l.rest -= kept
	_, _ = l.Buffer.Write(p[:kept])
	return len(p), nil
}

// text returns the written data, or the command's exit code if there is none.
func (l *limited) text(exit *cli.ExitError) string {
	if text := strings.TrimSpace(l.String()); text != "" {
		return text
	}
	return fmt.Sprintf("the command exited with code %d", exit.Code)
}

package session

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/installation"
)

// Clock returns the time and waits.
type Clock interface {
	Now() time.Time
	// Wait returns after d, or with the error of the context if that is done before.
	Wait(ctx context.Context, d time.Duration) error
}

// Session is one run of the plugin.
type Session struct {
	genericiooptions.IOStreams
	Flags *genericclioptions.ConfigFlags
	Clock Clock
	// Paint formats standard output.
	Paint cli.Paint
	// Screen is true if standard output is a terminal, with ScreenColumns columns.
	Screen        bool
	ScreenColumns int
	// Interactive is true if a user can answer on standard input.
	Interactive bool
	// Live is true if standard error is a terminal, with Columns columns.
	Live    bool
	Columns int
	// Browse opens an address in the browser.
	Browse func(ctx context.Context, url string) error
	// Copy copies a text to the clipboard.
	Copy func(ctx context.Context, text string) error
	// Forward forwards a local port to a port of a pod.
	Forward Forwarder
	// Check checks the installation of the operator.
	Check func(context.Context, *rest.Config, installation.Expectation) ([]installation.Problem, error)
}

// New returns the session of the process.
func New(streams genericiooptions.IOStreams) *Session {
	s := &Session{
		IOStreams: streams, Flags: genericclioptions.NewConfigFlags(true), Clock: wallClock{},
		Paint:       cli.Colours(streams.Out, os.Getenv),
		Screen:      cli.IsTerminal(streams.Out),
		Interactive: cli.IsTerminal(streams.In),
		Live:        cli.IsTerminal(streams.ErrOut) && os.Getenv("TERM") != "dumb",
		Browse:      browse, Copy: copyText, Forward: forward, Check: installation.Check,
	}
	s.Columns, s.ScreenColumns = columns(streams.ErrOut), columns(streams.Out)
	return s
}

func columns(stream io.Writer) int {
	file, ok := stream.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// Progress starts a progress display.
func (s *Session) Progress() *cli.Progress {
	return cli.NewProgress(s.ErrOut, s.Live, s.Columns, s.Clock.Now())
}

// Confirm asks for confirmation of an action that cannot be undone, unless yes is set by --yes. If
// standard input is not interactive, it returns a usage error.
func (s *Session) Confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	if !s.Interactive {
		return cli.Usage("%s Nobody can be asked, because standard input is no terminal: add --yes", question)
	}
	agreed, err := cli.Ask(ctx, s.In, s.ErrOut, question)
	if err != nil {
		return err
	}
	if !agreed {
		return fmt.Errorf("not confirmed: nothing was done")
	}
	return nil
}

type wallClock struct{}

// Now implements Clock.
func (wallClock) Now() time.Time { return time.Now() }

// Wait implements Clock.
func (wallClock) Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

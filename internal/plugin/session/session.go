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
	"github.com/coder-k8s/coder-k8s/internal/cli/terminal"
	"github.com/coder-k8s/coder-k8s/internal/installation"
)

// Clock tells the time and passes it.
type Clock interface {
	Now() time.Time
	// Wait returns after that time, or with the error of a context that is done.
	Wait(ctx context.Context, d time.Duration) error
}

// Session is one run of the plugin.
type Session struct {
	genericiooptions.IOStreams
	Flags *genericclioptions.ConfigFlags
	Clock Clock
	// Paint is for standard output.
	Paint terminal.Paint
	// Screen says that standard output is a terminal of so many ScreenColumns.
	Screen        bool
	ScreenColumns int
	// Interactive says that somebody can answer on standard input.
	Interactive bool
	// Live says that standard error is a terminal of so many Columns.
	Live    bool
	Columns int
	// Browse opens an address in the browser.
	Browse func(ctx context.Context, url string) error
	// Copy puts a text on the clipboard.
	Copy func(ctx context.Context, text string) error
	// Forward makes a port of a pod reachable on this machine.
	Forward Forwarder
	// Check looks at the installation of the operator.
	Check func(context.Context, *rest.Config, installation.Expectation) ([]installation.Problem, error)
}

// New is the session of the process.
func New(streams genericiooptions.IOStreams) *Session {
	s := &Session{
		IOStreams: streams, Flags: genericclioptions.NewConfigFlags(true), Clock: wallClock{},
		Paint:       terminal.Colours(streams.Out, os.Getenv),
		Screen:      terminal.IsTerminal(streams.Out),
		Interactive: terminal.IsTerminal(streams.In),
		Live:        terminal.IsTerminal(streams.ErrOut) && os.Getenv("TERM") != "dumb",
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

// Progress begins to tell how far something is.
func (s *Session) Progress() *terminal.Progress {
	return terminal.NewProgress(s.ErrOut, s.Live, s.Columns, s.Clock.Now())
}

// Confirm asks before something is done that cannot be undone, unless yes was given
// with --yes. Where nobody can answer, that is a mistake of the command line.
func (s *Session) Confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	if !s.Interactive {
		return cli.Usage("%s Nobody can be asked, because standard input is no terminal: add --yes", question)
	}
	agreed, err := terminal.Ask(ctx, s.In, s.ErrOut, question)
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

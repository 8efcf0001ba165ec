package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/installation"
)

// PollInterval is the interval at which a build or a starting workspace is read.
const PollInterval = time.Second

// Session is one run of the plugin.
type Session struct {
	genericiooptions.IOStreams
	Kubeconfig *cli.Kubeconfig
	Now        func() time.Time
	// Wait returns after d, or with the error of the context if that is done before.
	Wait func(ctx context.Context, d time.Duration) error
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

// NewSession returns the session of the process.
func NewSession(streams genericiooptions.IOStreams) *Session {
	s := &Session{
		IOStreams: streams, Kubeconfig: cli.NewKubeconfig(), Now: time.Now,
		Wait: func(ctx context.Context, d time.Duration) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(d):
				return nil
			}
		},
		Paint:       cli.Colours(streams.Out),
		Screen:      cli.IsTerminal(streams.Out),
		Interactive: cli.IsTerminal(streams.In),
		Live:        cli.Sequences(streams.ErrOut),
		Browse:      browse, Copy: copyText, Forward: forward, Check: installation.Check,
	}
	s.Columns, s.ScreenColumns = columns(streams.ErrOut), columns(streams.Out)
	return s
}

// columns returns the width of a terminal, and 0 for other streams.
func columns(stream io.Writer) int {
	if !cli.IsTerminal(stream) {
		return 0
	}
	width, _, _ := term.GetSize(int(stream.(*os.File).Fd()))
	return width
}

// Progress starts a progress display.
func (s *Session) Progress() *cli.Progress {
	return cli.NewProgress(s.ErrOut, s.Live, s.Columns, s.Now())
}

// Confirm asks for confirmation of an action that cannot be undone, unless yes is set by --yes. If
// standard input is not interactive, it returns a usage error.
func (s *Session) Confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	if !s.Interactive {
		return cli.Usage("%s This cannot be confirmed, because standard input is not a terminal: add --yes", question)
	}
	agreed, err := cli.Ask(ctx, s.In, s.ErrOut, question)
	if err == nil && !agreed {
		err = errors.New("not confirmed: nothing was done")
	}
	return err
}

// poll calls step every PollInterval until it is done. If that takes longer than timeout, or than
// the deadline of ctx, it returns the error of late. A timeout of 0 is no limit. goesOn is what
// continues if the command is interrupted.
func (s *Session) poll(ctx context.Context, timeout time.Duration, goesOn string, step func() (done bool, err error), late func() error) error {
	began := s.Now()
	for {
		if done, err := step(); done || err != nil {
			return err
		}
		expired := timeout > 0 && s.Now().Sub(began) >= timeout || s.Wait(ctx, PollInterval) != nil
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			return &cli.InterruptedError{GoesOn: goesOn}
		case expired:
			return late()
		}
	}
}

// stalled returns the condition Stalled if it is true, and nil otherwise.
func stalled(conditions []metav1.Condition) *metav1.Condition {
	c := meta.FindStatusCondition(conditions, aggregationv1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	return c
}

// browse opens an address with the system's default program.
func browse(ctx context.Context, url string) error {
	command := []string{"xdg-open", url}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open", url}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", url}
	}
	if err := exec.CommandContext(ctx, command[0], command[1:]...).Run(); err != nil { //nolint:gosec // A fixed program; the address is one argument.
		return fmt.Errorf("%s could not open a browser: %w", command[0], err)
	}
	return nil
}

// copyText passes the text to the first clipboard program that exists, on its standard input, so
// that the text is not in the list of processes.
func copyText(ctx context.Context, text string) error {
	failed := errors.New("there is no program for the clipboard: pbcopy, wl-copy, xclip, xsel or clip.exe")
	for _, command := range [][]string{{"pbcopy"}, {"wl-copy"}, {"xclip", "-selection", "clipboard"}, {"xsel", "--clipboard", "--input"}, {"clip.exe"}} {
		path, err := exec.LookPath(command[0])
		if err != nil {
			continue
		}
		cmd := exec.CommandContext(ctx, path, command[1:]...) //nolint:gosec // One of the programs above.
		cmd.Stdin = strings.NewReader(text)
		if err = cmd.Run(); err == nil {
			return nil
		}
		failed = fmt.Errorf("%s: %w", command[0], err)
	}
	return failed
}

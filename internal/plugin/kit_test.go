package plugin

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/installation"
)

var update = flag.Bool("update", false, "write the golden files anew")

// noon is the time at which all tests start.
var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// fakeClock advances without waiting. Each wait calls after with its number, starting at 1.
type fakeClock struct {
	now   time.Time
	waits int
	after func(wait int)
}

func (c *fakeClock) Now() time.Time { return c.now }

func (c *fakeClock) Wait(ctx context.Context, d time.Duration) error {
	c.now = c.now.Add(d)
	c.waits++
	if c.after != nil {
		c.after(c.waits)
	}
	return ctx.Err()
}

// harness is the environment of the plugin in a test.
type harness struct {
	clock       *fakeClock
	coloured    bool
	interactive bool
	live        bool
	input       string
	// in and out replace the text of standard input and the buffer for standard output.
	in         io.Reader
	out        io.Writer
	problems   []installation.Problem
	checkError error
	forward    Forwarder
	browsed    []string
	copied     []string
	copyError  error
	ctx        context.Context
}

func newHarness() *harness { return &harness{clock: &fakeClock{now: noon}} }

// answer is the result of a command.
type answer struct {
	code     int
	out, err string
}

// run runs kubectl coder with the fake API.
func (d *harness) run(t *testing.T, api *fakeAPI, args ...string) answer {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	var out, errs bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(d.input), Out: &out, ErrOut: &errs}
	if d.in != nil {
		streams.In = d.in
	}
	if d.out != nil {
		streams.Out = d.out
	}
	s := NewSession(streams)
	s.Now, s.Wait = d.clock.Now, d.clock.Wait
	s.Paint, s.Screen, s.Interactive, s.Live, s.Columns = cli.Paint(d.coloured), d.coloured, d.interactive, d.live, 100
	s.Browse = func(_ context.Context, url string) error { d.browsed = append(d.browsed, url); return nil }
	s.Copy = func(_ context.Context, text string) error { d.copied = append(d.copied, text); return d.copyError }
	s.Check = func(context.Context, *rest.Config, installation.Expectation) ([]installation.Problem, error) {
		return d.problems, d.checkError
	}
	if d.forward != nil {
		s.Forward = d.forward
	}
	ctx := d.ctx
	if ctx == nil {
		ctx = t.Context()
	}
	code := execute(ctx, s, append([]string{"--server", api.URL}, args...))
	return answer{code, out.String(), errs.String()}
}

// runEach runs command lines in namespace coder, and checks their answers.
func runEach(t *testing.T, api *fakeAPI, lines map[string]answer) {
	t.Helper()
	for line, want := range lines {
		t.Run(line, func(t *testing.T) {
			newHarness().run(t, api, append([]string{"-n", "coder"}, strings.Fields(line)...)...).want(t, want.code, want.out, want.err)
		})
	}
}

// golden compares a text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff(string(want), got); difference != "" {
		t.Errorf("%s: -want +got\n%s", file, difference)
	}
}

// want checks the exit code and that both outputs contain their texts.
func (a answer) want(t *testing.T, code int, out, err string) {
	t.Helper()
	if a.code != code {
		t.Errorf("exit code %d, want %d", a.code, code)
	}
	if !strings.Contains(a.out, out) || out == "" && a.out != "" {
		t.Errorf("standard output is %q, want %q", a.out, out)
	}
	if !strings.Contains(a.err, err) || err == "" && a.err != "" {
		t.Errorf("standard error is %q, want %q", a.err, err)
	}
	if t.Failed() {
		t.Logf("standard output:\n%s\nstandard error:\n%s", a.out, a.err)
	}
}

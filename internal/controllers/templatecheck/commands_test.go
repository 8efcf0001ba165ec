package templatecheck

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	utilexec "k8s.io/utils/exec"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/agents"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func withCommands(names ...string) func(*coderv1alpha1.CoderTemplateTest) {
	return func(test *coderv1alpha1.CoderTemplateTest) {
		for _, each := range names {
			test.Spec.Checks.Commands = append(test.Spec.Checks.Commands,
				coderv1alpha1.TemplateTestCommand{Name: each, Command: []string{each, "--version"}, TimeoutSeconds: 60})
		}
	}
}

// runner replaces the connections to agents.
func (f *fixture) runner(run func(ctx context.Context, command agents.Command) (bool, error)) {
	f.r.commands.run = func(ctx context.Context, _ *coderd.Client, _ uuid.UUID, command agents.Command, _ time.Duration) (bool, error) {
		return run(ctx, command)
	}
}

// commandsEnd reconciles until the test has a result. Commands run in goroutines.
func (f *fixture) commandsEnd() {
	f.T.Helper()
	polltest.Eventually(f.T, "the commands end", func() error {
		f.runs(1)
		if f.Object().Status.CompletionTime == nil {
			return fmt.Errorf("it waits: %s", f.reason())
		}
		return nil
	})
}

func TestCommands(t *testing.T) {
	t.Parallel()
	f := newFixture(t, withCommands("git", "python3"))
	var ran atomic.Int32
	f.runner(func(_ context.Context, command agents.Command) (bool, error) {
		_, _ = fmt.Fprintf(command.Stdout, "%s\n", strings.Join(command.Args, " "))
		// The connection fails at first.
		if ran.Add(1) == 1 {
			return false, errors.New("the agent could not be reached")
		}
		return true, nil
	})
	f.commandsEnd()
	status := f.Object().Status
	if status.Phase != coderv1alpha1.TemplateTestSucceeded || ran.Load() != 3 || len(status.Commands) != 2 {
		t.Fatalf("%d runs: %+v", ran.Load(), status)
	}
	if last := status.Commands[1]; last.Name != "python3" || *last.ExitCode != 0 || last.Output != "python3 --version\n" {
		t.Errorf("%+v", last)
	}
}

func TestCommandFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t, withCommands("make", "never"))
	f.runner(func(_ context.Context, command agents.Command) (bool, error) {
		if command.Args[0] == "never" {
			t.Error("a command runs after one that failed")
		}
		_, _ = fmt.Fprintf(command.Stdout, "line 1\nAWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n%s\nmake: *** [all] Error 2\n", strings.Repeat("x\n", 100))
		return true, utilexec.CodeExitError{Err: errors.New("exit"), Code: 2}
	})
	f.commandsEnd()
	if message := f.fails(coderv1alpha1.ReasonCommandFailed, "Command/make"); !strings.Contains(message, "exit code 2: make: *** [all] Error 2") {
		t.Errorf("the message is %q", message)
	}
	result := f.Object().Status.Commands[0]
	if *result.ExitCode != 2 || !strings.HasPrefix(result.Output, "line 1\n") || strings.Contains(result.Output, "wJalr") {
		t.Errorf("%+v", result)
	}
}

// TestCommandIsStopped checks that a command ends when its test is deleted.
func TestCommandIsStopped(t *testing.T) {
	t.Parallel()
	f := newFixture(t, withCommands("sleep"))
	var stopped atomic.Bool
	f.runner(func(ctx context.Context, _ agents.Command) (bool, error) {
		<-ctx.Done()
		stopped.Store(true)
		return true, ctx.Err()
	})
	f.runs(3)
	f.Delete()
	f.runs(1)
	polltest.Eventually(t, "the command is stopped", func() error {
		if !stopped.Load() {
			return errors.New("it runs")
		}
		return nil
	})
}

func TestCommandTakesTooLong(t *testing.T) {
	t.Parallel()
	f := newFixture(t, withCommands("sleep"))
	f.runner(func(context.Context, agents.Command) (bool, error) { return true, context.DeadlineExceeded })
	f.commandsEnd()
	if message := f.fails(coderv1alpha1.ReasonCommandFailed, "Command/sleep"); !strings.Contains(message, "within 60 seconds: it printed nothing") {
		t.Errorf("the message is %q", message)
	}
}

// TestOutput checks that the end of an output is shown, from the beginning of a line.
func TestOutput(t *testing.T) {
	o := &output{}
	for i := range 3000 {
		_, _ = fmt.Fprintf(o, "line %d \x1b[0m\n", i)
	}
	shown := o.shown()
	if len(shown) > shownOutput || !strings.HasPrefix(shown, "line ") || !strings.HasSuffix(shown, "line 2999 [0m\n") {
		t.Errorf("%d bytes, %.20q ... %.20q", len(shown), shown, shown[len(shown)-20:])
	}
}

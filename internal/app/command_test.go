package app

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

var update = flag.Bool("update", false, "write the golden files")

func TestExitCodes(t *testing.T) {
	boom := func(context.Context) error { return errors.New("mcp: the port is taken") }
	fine := func(context.Context) error { return nil }
	tests := map[string]struct {
		args       []string
		start      func(context.Context) error
		code       int
		out, errs  string
		wantNotRun bool
	}{
		"a good end":        {nil, fine, cli.ExitOK, "", "", false},
		"a failure":         {nil, boom, cli.ExitFailure, "", "coder-k8s: mcp: the port is taken\n", false},
		"an unknown mode":   {[]string{"--app=everything"}, fine, cli.ExitUsage, "", "it is one of: all, controller, aggregated-apiserver, mcp-http", true},
		"an unknown flag":   {[]string{"--bogus"}, fine, cli.ExitUsage, "", "unknown flag: --bogus", true},
		"a bad value":       {[]string{"--leader-elect=perhaps"}, fine, cli.ExitUsage, "", "--leader-elect", true},
		"an argument":       {[]string{"serve"}, fine, cli.ExitUsage, "", `"serve" is neither a flag nor a command`, true},
		"help":              {[]string{"--help"}, fine, cli.ExitOK, "--app string", "", true},
		"help after others": {[]string{"--app=mcp-http", "-h"}, fine, cli.ExitOK, "--mcp-bind-address", "", true},
		"the version":       {[]string{"--version"}, fine, cli.ExitOK, "coder-k8s version v", "", true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ran := false
			var stdout, stderr bytes.Buffer
			cmd := newCommand(NewOptions(), genericiooptions.NewTestIOStreamsDiscard(), func(ctx context.Context) error { ran = true; return tc.start(ctx) })
			code := cli.Execute(t.Context(), cmd, tc.args, genericiooptions.IOStreams{Out: &stdout, ErrOut: &stderr})
			if code != tc.code {
				t.Errorf("the exit code is %d, want %d", code, tc.code)
			}
			if !strings.Contains(stdout.String(), tc.out) || !strings.Contains(stderr.String(), tc.errs) {
				t.Errorf("stdout:\n%s\nstderr:\n%s", &stdout, &stderr)
			}
			if tc.errs == "" && stderr.Len() > 0 {
				t.Errorf("stderr is not empty: %s", &stderr)
			}
			if ran == tc.wantNotRun {
				t.Errorf("ran: %v", ran)
			}
		})
	}
}

func TestHelpIsTheGolden(t *testing.T) {
	const golden = "testdata/help.golden.txt"
	var stdout, stderr bytes.Buffer
	if code := cli.Execute(t.Context(), newCommand(NewOptions(), genericiooptions.NewTestIOStreamsDiscard(), nil), []string{"--help"}, genericiooptions.IOStreams{Out: &stdout, ErrOut: &stderr}); code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	if *update {
		if err := os.WriteFile(golden, stdout.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), stdout.String()); diff != "" {
		t.Errorf("--help differs from %s; if that is meant, run the test with -update (-want +got):\n%s", golden, diff)
	}
	for _, set := range NewOptions().FlagSets().FlagSets {
		for _, line := range strings.Split(set.FlagUsages(), "\n") {
			if fields := strings.Fields(line); len(fields) == 1 && strings.HasPrefix(fields[0], "--") {
				t.Errorf("flag %s has no description", fields[0])
			}
		}
	}
}

func TestWhenTheProcessEnds(t *testing.T) {
	hang := func(context.Context) error { select {} }
	lost := make(chan error, 1)
	lost <- errors.New("leader election lost")
	tests := map[string]struct {
		told bool
		run  func(context.Context) error
		want string
	}{
		"a component fails":                    {false, func(context.Context) error { return errors.New("boom") }, "boom"},
		"the Lease is lost, and nothing ends":  {false, (&leading{Manager: hangingManager{}, lost: lost}).Start, "leader election lost"},
		"told to end, and it ends":             {true, func(ctx context.Context) error { <-ctx.Done(); return nil }, ""},
		"told to end, and the end has trouble": {true, func(ctx context.Context) error { <-ctx.Done(); return errors.New("grace period") }, ""},
		"told to end, and it hangs":            {true, hang, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.told {
				cancel()
			}
			err := runUntilDone(ctx, logr.Discard(), 10*time.Millisecond, tc.run)
			if (err == nil) != (tc.want == "") || (err != nil && err.Error() != tc.want) {
				t.Errorf("the error is %v, want %q", err, tc.want)
			}
		})
	}
}

// hangingManager is a manager that never ends.
type hangingManager struct{ manager.Manager }

func (hangingManager) Start(context.Context) error { select {} }

// TestShutdownDelay checks that the context ends only after the delay.
func TestShutdownDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told, tell := context.WithCancel(t.Context())
		ctx, stop := later(told, 2*time.Second)
		defer stop()
		tell()
		began := time.Now()
		synctest.Wait()
		if ctx.Err() != nil {
			t.Error("it ends when it is told to")
		}
		<-ctx.Done()
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it ends after %s, want 2s", took)
		}
	})
}

package plugin

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	utilexec "k8s.io/utils/exec"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

func TestCommandLine(t *testing.T) {
	s := NewSession(genericiooptions.NewTestIOStreamsDiscard())
	for _, c := range []struct{ command, says string }{
		{"exec", "give the name of one workspace"},
		{"exec dev", "give the name of one workspace"},
		{"exec dev true", "then -- and the command"},
		{"exec dev other -- true", "then -- and the command"},
		{"ssh", "give the name of one workspace"},
		{"ssh dev true", "a command only after --"},
		{"port-forward dev", "at least one port"},
		{"port-forward dev 0", `"0" is no port`},
		{"port-forward dev 1:70000", `"1:70000" is no port`},
		{"port-forward dev 2222:22", "belong to the agent itself"},
		{"port-forward dev http", `"http" is no port`},
	} {
		name, args, _ := strings.Cut(c.command, " ")
		cmd := newExecCommand(s)
		switch name {
		case "ssh":
			cmd = newSSHCommand(s)
		case "port-forward":
			cmd = newPortForwardCommand(s)
		}
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(strings.Fields(args))
		var usage *cli.UsageError
		if err := cmd.ExecuteContext(t.Context()); !errors.As(err, &usage) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want a mistake of the command line with %q", c.command, err, c.says)
		}
	}
}

func TestExitCode(t *testing.T) {
	ws := &aggregationv1alpha1.CoderWorkspace{}
	ws.Name = "coder.ada.dev"
	var exit *cli.ExitError
	if err := exitOf(ws, utilexec.CodeExitError{Err: errors.New("command terminated"), Code: 42}); !errors.As(err, &exit) || exit.Code != 42 || exit.Err != nil {
		t.Errorf("a command that ended with 42: %v", err)
	}
	if err := exitOf(ws, errors.New("lost")); err == nil || errors.As(err, new(*cli.ExitError)) || err.Error() != "workspace coder.ada.dev: lost" {
		t.Errorf("a connection that was lost: %v", err)
	}
	cut := fmt.Errorf("error reading from error stream: %w", fmt.Errorf("next reader: %w", &websocket.CloseError{Code: websocket.CloseAbnormalClosure}))
	if err := exitOf(ws, cut); err == nil || !strings.Contains(err.Error(), "the connection to workspace coder.ada.dev is lost") {
		t.Errorf("a replica that was killed: %v", err)
	}
	if err := exitOf(ws, nil); err != nil {
		t.Error(err)
	}
}

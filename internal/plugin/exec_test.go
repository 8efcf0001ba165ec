package plugin

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	utilexec "k8s.io/utils/exec"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// TestShell checks that ssh lets the user's shell interpret the command, and that exec does not.
func TestShell(t *testing.T) {
	api := sampleAPI(t)
	i := newInside(t, api, "coder.ada.dev")
	newHarness().run(t, api, "-n", "coder", "ssh", "ada.dev", "--", "true;", "true")
	newHarness().run(t, api, "-n", "coder", "exec", "ada.dev", "--", "true;", "true")
	want := []string{
		"command=true%3B&command=true&shell=true&stderr=true&stdin=true&stdout=true",
		"command=true%3B&command=true&stderr=true&stdout=true",
	}
	if !slices.Equal(i.asked, want) {
		t.Errorf("it asked for %q, want %q", i.asked, want)
	}
}

// TestOutputThatCannotBeWritten checks that a command whose output is lost does not succeed.
func TestOutputThatCannotBeWritten(t *testing.T) {
	api := sampleAPI(t)
	newInside(t, api, "coder.ada.dev")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full")
	}
	defer func() { _ = full.Close() }()
	h := newHarness()
	h.out = full
	got := h.run(t, api, "-n", "coder", "exec", "ada.dev", "--", "echo", "lost")
	if got.code != 1 || !strings.Contains(got.err, "writing the output of the command: write /dev/full: no space left on device") {
		t.Errorf("code %d, %s", got.code, got.err)
	}
}

// TestInputThatCannotBeRead checks that a command that got only a part of its input does not succeed.
func TestInputThatCannotBeRead(t *testing.T) {
	api := sampleAPI(t)
	newInside(t, api, "coder.ada.dev")
	input, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = input.Close() }()
	h := newHarness()
	h.in = input
	got := h.run(t, api, "-n", "coder", "exec", "ada.dev", "-i", "--", "cat")
	if got.code != 1 || !strings.Contains(got.err, "reading the input of the command: read "+input.Name()+": is a directory") {
		t.Errorf("code %d, %s", got.code, got.err)
	}
}

// TestSSHStdio checks that data from OpenSSH's ProxyCommand reaches the agent of the host.
func TestSSHStdio(t *testing.T) {
	for host, want := range map[string]struct{ workspace, agent string }{
		"coder.ada.dev.cws":                     {workspace: "coder.ada.dev"},
		"ada.dev":                               {workspace: "coder.ada.dev"},
		"ada.dev--gpu.cws":                      {"coder.ada.dev", "agent=gpu&"},
		"coder.ada.my-dev--gpu-2.cws":           {"coder.ada.my-dev", "agent=gpu-2&"},
		"coder.ada.dev--1a2b3c4d.cws":           {workspace: "coder.ada.dev--1a2b3c4d"},
		"ada.dev--1a2b3c4d--gpu.cws":            {"coder.ada.dev--1a2b3c4d", "agent=gpu&"},
		"coder.ada.dev--5e6f7a8b--1a2b3c4d.cws": {},
	} {
		t.Run(host, func(t *testing.T) {
			api := sampleAPI(t)
			for _, name := range []string{"coder.ada.my-dev", "coder.ada.dev--1a2b3c4d"} {
				api.apply(t, "apiVersion: aggregation.coder.com/v1alpha1\nkind: CoderWorkspace\nmetadata: {namespace: coder, name: "+name+"}")
			}
			i := newInside(t, api, want.workspace)
			// The fake runs the command in the query, and the query for SSH contains none.
			got := newHarness().run(t, api, "-n", "coder", "ssh", "--stdio", "--host-suffix", "cws", "--", host)
			if want.workspace == "" {
				got.want(t, 1, "", `coderworkspaces "coder.ada.dev--5e6f7a8b" not found`)
			} else if !slices.Equal(i.asked, []string{want.agent + "ssh=true&stdin=true&stdout=true"}) {
				t.Errorf("it asked for %q: %+v", i.asked, got)
			}
		})
	}
}

// TestSSHStdioWithARoleForOneWorkspace checks that the host of an agent needs no permission for its own name.
func TestSSHStdioWithARoleForOneWorkspace(t *testing.T) {
	api := sampleAPI(t)
	for _, name := range []string{"coder.ada.dev--gpu", "coder.ada.web--gpu", "coder.ada.web"} {
		api.answer("GET "+inCoder+"/coderworkspaces/"+name,
			refuse(http.StatusForbidden, "Forbidden", "no get of "+name+";"))
	}
	i := newInside(t, api, "coder.ada.dev")
	ssh := []string{"-n", "coder", "ssh", "--stdio", "--host-suffix", "cws", "--"}
	got := newHarness().run(t, api, append(ssh, "coder.ada.dev--gpu.cws")...)
	if !slices.Equal(i.asked, []string{"agent=gpu&ssh=true&stdin=true&stdout=true"}) {
		t.Errorf("it asked for %q: %+v", i.asked, got)
	}
	newHarness().run(t, api, append(ssh, "coder.ada.web--gpu.cws")...).want(t, 1, "", "no get of coder.ada.web;")
}

func TestRemoteCommandLines(t *testing.T) {
	api := sampleAPI(t)
	runEach(t, api, map[string]answer{
		"exec":                     {2, "", "give the name of one workspace"},
		"exec dev":                 {2, "", "give the name of one workspace"},
		"exec dev true":            {2, "", "then -- and the command"},
		"exec dev other -- true":   {2, "", "then -- and the command"},
		"ssh":                      {2, "", "give the name of one workspace"},
		"ssh dev true":             {2, "", "a command only after --"},
		"port-forward dev":         {2, "", "at least one port"},
		"port-forward dev 0":       {2, "", `"0" is not a port`},
		"port-forward dev 1:70000": {2, "", `"1:70000" is not a port`},
		"port-forward dev 2222:22": {2, "", "belong to the agent itself"},
		"port-forward dev http":    {2, "", `"http" is not a port`},
		"port-forward dev :":       {2, "", `":" is not a port`},
		"port-forward dev :22":     {2, "", "belong to the agent itself"},
		// The command line is right, and this API serves no portforward.
		"port-forward ada.dev :80 8080:80 --address localhost,0.0.0.0,::1": {1, "", "workspace coder.ada.dev: "},
		"port-forward ada.dev :80 --address example.com":                   {2, "", `--address is "example.com", and must be an IP address or localhost`},
		"port-forward ada.dev :80 --address=":                              {2, "", "--address is empty"},
		"ssh --stdio dev -- true":                                          {2, "", "--stdio takes no command"},
	})
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

package installation

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

var missing = Problem{Object: "Thing x", What: "is missing", Do: "apply it"}

// looks returns one result after the other, and then repeats the last one.
type looks struct {
	answers [][]Problem
	err     error
	asked   []Expectation
}

func (l *looks) check(_ context.Context, _ *rest.Config, want Expectation) ([]Problem, error) {
	i := min(len(l.asked), len(l.answers)-1)
	l.asked = append(l.asked, want)
	if i < 0 {
		return nil, l.err
	}
	return l.answers[i], l.err
}

func runCheck(t *testing.T, l *looks, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr}
	// The server is set explicitly, so that no kubeconfig of the machine is read.
	args = append(args, "--server=https://127.0.0.1:1")
	code = cli.Execute(t.Context(), newCheckCommand(streams, l.check), args, streams)
	return code, stdout.String(), stderr.String()
}

func TestCheck(t *testing.T) {
	tests := map[string]struct {
		looks  looks
		args   []string
		code   int
		out    string
		errOut string
	}{
		"in order": {
			out: "The installation in namespace coder-system has no problems.\n",
		},
		"in order, for a program": {
			args: []string{"-o=json"}, out: "[]\n",
		},
		"a problem": {
			looks: looks{answers: [][]Problem{{missing}}},
			code:  cli.ExitFailure, out: "Thing x is missing: apply it\n",
			errOut: "check: the installation in namespace coder-system has problems: 1\n",
		},
		"a problem as JSON": {
			looks: looks{answers: [][]Problem{{missing}}}, args: []string{"-o=json", "--operator-namespace=x"},
			code: cli.ExitFailure, out: `[
  {
    "object": "Thing x",
    "what": "is missing",
    "do": "apply it"
  }
]
`,
			errOut: "check: the installation in namespace x has problems: 1\n",
		},
		"a problem as YAML": {
			looks: looks{answers: [][]Problem{{missing}}}, args: []string{"-o=yaml"},
			code: cli.ExitFailure, out: "- do: apply it\n  object: Thing x\n  what: is missing\n",
			errOut: "check: the installation in namespace coder-system has problems: 1\n",
		},
		"it could not look": {
			looks: looks{err: errors.New("no answer")}, code: cli.ExitFailure, errOut: "check: no answer\n",
		},
		"an output that is none": {
			args: []string{"-o=xml"}, code: cli.ExitUsage, errOut: "check: invalid argument \"xml\" for \"-o, --output\" flag: must be json or yaml\n",
		},
		"a time below zero": {
			args: []string{"--wait=-1s"}, code: cli.ExitUsage, errOut: "check: --wait=-1s is negative: give a duration, or 0 to check once\n",
		},
		"an argument": {
			args: []string{"now"}, code: cli.ExitUsage, errOut: "check: \"now\" is one argument too many: this command takes none\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := runCheck(t, &tc.looks, tc.args...)
			first, _, _ := strings.Cut(errOut, "check: --help")
			if code != tc.code || out != tc.out || first != tc.errOut {
				t.Errorf("exit code %d, output %q, error %q", code, out, errOut)
			}
		})
	}
}

// TestExpectation checks that the expectation corresponds to the flags.
func TestExpectation(t *testing.T) {
	var l looks
	runCheck(t, &l, "--operator-namespace=x", "--watch-namespaces=a,b", "--mcp=false")
	want := []Expectation{{Namespace: "x", WatchNamespaces: []string{"a", "b"}, Controllers: true, AggregatedAPI: true}}
	if diff := cmp.Diff(want, l.asked); diff != "" {
		t.Error(diff)
	}
}

func TestWait(t *testing.T) {
	tests := map[string]struct {
		answers [][]Problem
		looks   int
		code    int
	}{
		"until it is in order":   {[][]Problem{{missing}, {missing}, nil}, 3, cli.ExitOK},
		"until the time is over": {[][]Problem{{missing}}, 5, cli.ExitFailure},
	}
	for name, tc := range tests {
		test := func(t *testing.T) {
			l := looks{answers: tc.answers}
			code, out, errOut := runCheck(t, &l, "--wait=5s")
			if code != tc.code || len(l.asked) != tc.looks {
				t.Errorf("exit code %d after %d looks: %s%s", code, len(l.asked), out, errOut)
			}
			if strings.Count(out, "\n") != 1 {
				t.Errorf("it is told more than once: %s", out)
			}
		}
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

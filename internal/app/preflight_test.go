package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/installation"
)

// logbook collects log lines.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (b *logbook) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.lines = append(b.lines, args)
	}, funcr.Options{})
}

// take returns the lines since the last call.
func (b *logbook) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() { b.lines = nil }()
	return b.lines
}

func TestPreflightEndsWhereNothingCanWork(t *testing.T) {
	gone := installation.Problem{Object: "CustomResourceDefinition a", What: "is missing", Do: "apply it", Blocks: true}
	role := installation.Problem{Object: "ClusterRole b", What: "is missing", Do: "apply it"}
	for name, test := range map[string]struct {
		problems []installation.Problem
		err      error
		vital    bool
		want     string
	}{
		"a definition is missing":              {problems: []installation.Problem{gone, role}, vital: true, want: "CustomResourceDefinition a is missing: apply it"},
		"the process needs none":               {problems: []installation.Problem{gone}},
		"a role is missing":                    {problems: []installation.Problem{role}, vital: true},
		"kube-apiserver does not answer":       {err: errors.New("connection refused"), vital: true},
		"both, and a definition is missing":    {problems: []installation.Problem{gone}, err: errors.New("no"), vital: true, want: "CustomResourceDefinition a is missing: apply it"},
		"nothing is wrong with the definition": {vital: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := &preflight{vital: test.vital, check: func(context.Context) ([]installation.Problem, error) { return test.problems, test.err }}
			got := ""
			if err := p.begin(ctrl.LoggerInto(t.Context(), logr.Discard())); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// Each problem is reported once, and once when it is solved. A problem that may be
// temporary is reported only if it persists. Without problems, the checks end.
func TestPreflightTellsWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		role := installation.Problem{Object: "ClusterRole b", What: "is missing", Do: "apply it"}
		away := installation.Problem{Object: "APIService c", What: "is not available", Do: "wait", MayPass: true}
		worse := installation.Problem{Object: "ClusterRole b", What: "has no binding", Do: "apply it"}
		looks := [][]installation.Problem{{role, away}, {role, away}, {worse, away}, nil, {worse}, {}}
		failing := 3
		n := 0
		var events []string
		p := &preflight{
			clock: clock.RealClock{},
			check: func(context.Context) ([]installation.Problem, error) {
				n++
				if n-1 == failing {
					return nil, errors.New("connection refused")
				}
				return looks[n-1], nil
			},
			onProblem: func(p installation.Problem) { events = append(events, p.String()) },
		}
		book := &logbook{}
		ctx := ctrl.LoggerInto(t.Context(), book.logger())
		if err := p.begin(ctx); err != nil {
			t.Fatal(err)
		}
		var ended sync.WaitGroup
		ended.Go(func() {
			if err := p.Start(ctx); err != nil {
				t.Error(err)
			}
		})
		for i, want := range [][]string{
			{`"error"="ClusterRole b is missing: apply it"`},
			{`"error"="APIService c is not available: wait"`},
			{`"error"="ClusterRole b has no binding: apply it"`},
			{`"msg"="The installation could not be checked" "error"="connection refused"`},
			{`"msg"="A problem of the installation is solved" "object"="APIService c"`},
			{`"msg"="A problem of the installation is solved" "object"="ClusterRole b"`},
		} {
			synctest.Wait()
			got := book.take()
			if len(got) != len(want) || !strings.Contains(got[0], want[0]) {
				t.Fatalf("look %d tells %q, want %q", i, got, want)
			}
			time.Sleep(preflightInterval) //nolint:forbidigo // The clock is that of synctest.
		}
		ended.Wait()
		if n != len(looks) {
			t.Errorf("it looked %d times, want %d", n, len(looks))
		}
		if diff := cmp.Diff([]string{role.String(), away.String(), worse.String()}, events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestPreflightEndsWithTheProcess(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := &preflight{
		clock:    clock.RealClock{},
		problems: []installation.Problem{{Object: "ClusterRole b"}},
		check: func(context.Context) ([]installation.Problem, error) {
			t.Error("it looks again")
			return nil, nil
		},
	}
	if err := p.Start(ctrl.LoggerInto(ctx, logr.Discard())); err != nil {
		t.Error(err)
	}
}

func TestExpectationOfEachMode(t *testing.T) {
	for mode, want := range map[Mode][3]bool{
		ModeAll:                 {true, true, true},
		ModeController:          {true, false, false},
		ModeAggregatedAPIServer: {false, true, false},
		ModeMCP:                 {false, false, true},
	} {
		components, err := mode.components()
		if err != nil {
			t.Fatal(err)
		}
		o := NewOptions()
		o.WatchNamespaces = []string{"a"}
		got := o.expectation("coder-system", components)
		if have := [3]bool{got.Controllers, got.AggregatedAPI, got.MCP}; have != want || !got.OwnRights || got.Namespace != "coder-system" {
			t.Errorf("%s expects %+v, want %v", mode, got, want)
		}
	}
}

// bareCluster returns the kubeconfig of an API server that serves
// CustomResourceDefinitions, and has none.
func bareCluster(t *testing.T) string {
	t.Helper()
	answers := map[string]string{
		"/version": `{"major":"1","minor":"37"}`,
		"/api":     `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apiextensions.k8s.io",
			"versions":[{"groupVersion":"apiextensions.k8s.io/v1","version":"v1"}],
			"preferredVersion":{"groupVersion":"apiextensions.k8s.io/v1","version":"v1"}}]}`,
		"/apis/apiextensions.k8s.io/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apiextensions.k8s.io/v1",
			"resources":[{"name":"customresourcedefinitions","kind":"CustomResourceDefinition","verbs":["get"]}]}`,
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, known := answers[r.URL.Path]
		if !known {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
		}
		fmt.Fprintln(w, answer)
	}))
	t.Cleanup(api.Close)
	return kubeconfigOf(t, api.URL)
}

func TestAProcessWithoutDefinitionsEnds(t *testing.T) {
	p := startProcess(t, "--app=controller", "--kubeconfig="+bareCluster(t), "--metrics-bind-address=0",
		"--health-probe-bind-address="+anyAddress)
	code := p.exitCode(t)
	want := "coder-k8s: CustomResourceDefinition codercontrolplanes.coder.com is missing: apply the manifests of this version (kubectl apply -f install.yaml, or your variant of it)"
	if code != cli.ExitFailure || !strings.Contains(p.stderr.String(), want) {
		t.Errorf("the exit code is %d, want 1 and %q:\n%s", code, want, p.stderr.String())
	}
}

package mirror_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/mirror"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records/recordstest"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry/template"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry/user"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry/workspace"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// live is a mirror with the real kinds over a Coder behind HTTP.
type live struct {
	*coderdtest.Server
	t                     *testing.T
	board                 *syncstatus.Board
	workspaces, templates *mirror.Log
	users                 *mirror.Log
	registry              *prometheus.Registry
	mirror                *mirror.Mirror
	client                *coderd.Client
	// token is the token that the mirror uses. owner is the operator's.
	token atomic.Value
	owner string
}

// attempts returns whether the mirror has tried n more full reads of Coder.
func (l *live) attempts(n int) func() bool {
	l.ResetRequests()
	return func() bool {
		all := 0
		for class, count := range l.Requests() {
			if class == "GET /api/v2/workspaces" {
				all += count
			}
		}
		return all >= n
	}
}

// build starts a build as a user does.
func (l *live) build(id uuid.UUID, transition coderd.Transition) {
	l.t.Helper()
	if _, err := l.client.Build(l.t.Context(), id, coderd.BuildRequest{Transition: transition}); err != nil {
		l.t.Fatal(err)
	}
}

func newLive(t *testing.T, options ...coderdtest.Option) *live {
	t.Helper()
	return newLiveWith(t, func(*mirror.Timing) {}, options...)
}

// newLiveWith is newLive with other timing.
func newLiveWith(t *testing.T, change func(*mirror.Timing), options ...coderdtest.Option) *live {
	t.Helper()
	l := &live{
		Server: coderdtest.New(t, options...), t: t, board: &syncstatus.Board{}, registry: prometheus.NewRegistry(),
	}
	l.owner = l.AddUser("operator", "owner")
	l.token.Store(l.owner)
	client, err := coderd.New(coderd.Config{
		URL: l.URL, CurrentToken: func() string { return l.token.Load().(string) }, Transport: &http.Transport{MaxIdleConnsPerHost: 4},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.client = client
	provider := connections.NewStatic("team", client)
	kept := recordstest.New(t)
	l.workspaces = mirror.NewLog(kept, kept.Workspaces, func() records.Object { return &aggregationv1alpha1.CoderWorkspace{} })
	l.templates = mirror.NewLog(kept, kept.Templates, func() records.Object { return &aggregationv1alpha1.CoderTemplate{} })
	l.users = mirror.NewLog(kept, kept.Users, func() records.Object { return &aggregationv1alpha1.CoderUser{} })
	metrics, err := mirror.NewMetrics(l.registry)
	if err != nil {
		t.Fatal(err)
	}
	c := mirror.BaseConfig()
	c.Timing.Members, c.Timing.Jobs, c.Timing.Busy, c.Timing.Templates = 10*time.Millisecond, 20*time.Millisecond, 20*time.Millisecond, 50*time.Millisecond
	c.Timing.Count, c.Timing.Batch, c.Timing.Round, c.Timing.Probe = 100*time.Millisecond, 20*time.Millisecond, 20*time.Millisecond, 20*time.Millisecond
	c.Timing.StaleAfter, c.Timing.QuarantineAfter, c.Timing.RefusedAfter, c.Timing.Rate = 300*time.Millisecond, 5*time.Second, 50*time.Millisecond, 1000
	change(&c.Timing)
	config := registry.Config{Connections: provider, Records: kept, Clock: c.Clock}
	c.Connections, c.Records, c.Board, c.Metrics = provider, kept, l.board, metrics
	c.Workspaces = mirror.Resource[coderd.Workspace]{Store: kept.Workspaces, Kind: workspace.New(workspace.Config{Config: config})}
	c.Templates = mirror.Resource[coderd.Template]{Store: kept.Templates, Kind: template.New(template.Config{Config: config})}
	c.Users = mirror.Resource[coderd.User]{Store: kept.Users, Kind: user.New(user.Config{Config: config})}
	l.mirror = mirror.New(c)
	return l
}

// run starts the mirror. stop stops it.
func (l *live) run() (stop func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { l.mirror.Run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	l.t.Cleanup(stop)
	return stop
}

func (l *live) until(what string, done func() bool) time.Duration {
	l.t.Helper()
	began := time.Now()
	polltest.Eventually(l.t, what, func() error {
		if !done() {
			all, _ := l.board.All()
			return fmt.Errorf("the board shows %+v", all)
		}
		return nil
	})
	return time.Since(began)
}

func (l *live) state(want syncstatus.State) func() bool {
	return func() bool {
		all, _ := l.board.All()
		return len(all) == 1 && all[0].State == want
	}
}

func (l *live) workspace(name string) *aggregationv1alpha1.CoderWorkspace {
	if e := l.workspaces.Get("/aggregation.coder.com/coderworkspaces/team/" + name); e != nil {
		return e.Object.(*aggregationv1alpha1.CoderWorkspace)
	}
	return nil
}

// TestRunsOverHTTP follows a Coder through builds, deletions and outages.
func TestRunsOverHTTP(t *testing.T) {
	l := newLive(t, coderdtest.WithManualBuilds())
	l.AddUser("ada")
	docker := l.AddTemplate("coder", "docker", map[string]string{"main.tf": "# one"})
	l.AddWorkspaces(150, "ada", docker)
	dev := l.AddWorkspace("ada", docker, "dev")
	stop := l.run()
	l.until("Ready", l.state(syncstatus.Ready))
	if l.workspaces.Len() != 151 || l.templates.Len() != 1 {
		t.Fatalf("%d workspaces, %d templates", l.workspaces.Len(), l.templates.Len())
	}

	l.build(dev, coderd.TransitionStop)
	l.until("stopping", func() bool {
		return l.workspace("coder.ada.dev").Status.Phase == "Stopping" || l.workspace("coder.ada.dev").Status.Phase == "Pending"
	})
	l.FinishBuilds()
	l.until("stopped", func() bool { return l.workspace("coder.ada.dev").Status.Phase == "Stopped" })
	l.RenameWorkspace(dev, "prod")
	l.until("the new name", func() bool {
		e := l.workspaces.Get("/aggregation.coder.com/coderworkspaces/team/coder.ada.dev")
		return e != nil && e.Natural == "coder.ada.prod"
	})
	l.AddTemplate("coder", "vm", map[string]string{"main.tf": "# two"})
	l.until("another template", func() bool { return l.templates.Len() == 2 })
	l.build(dev, coderd.TransitionDelete)
	l.until("deleting", func() bool { return l.workspace("coder.ada.dev").DeletionTimestamp != nil })
	l.FinishBuilds()
	l.until("deleted", func() bool { return l.workspace("coder.ada.dev") == nil })

	head := l.workspaces.Head()
	restore := l.Fail(coderdtest.Fault{DropConnection: true})
	l.until("Quarantined", l.state(syncstatus.Quarantined))
	l.until("told in each object", func() bool { return l.workspaces.Head() == head+150 })
	restore()
	l.until("Ready again", l.state(syncstatus.Ready))
	stop()
	events := l.workspaces.Since(head)
	for _, e := range events {
		if e.Object == nil {
			t.Errorf("%s was deleted while Coder was away", e.Key)
		}
	}
	if len(events) != 300 {
		t.Errorf("%d events for 150 workspaces and one outage", len(events))
	}

	// The second run as the leader continues with the existing records.
	head = l.workspaces.Head()
	late := l.AddWorkspaces(1, "ada", docker)[0]
	l.run()
	l.until("what was made meanwhile", func() bool { return l.workspaces.Len() == 151 })
	if events := l.workspaces.Since(head); len(events) != 1 || string(records.IDOf(events[0].Object)) != late.String() {
		t.Errorf("%d events", len(events))
	}
	families, err := l.registry.Gather()
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
	}
	want := []string{
		"coder_k8s_mirror_changes_total", "coder_k8s_mirror_held_deletions", "coder_k8s_mirror_lag_seconds", "coder_k8s_mirror_leader",
		"coder_k8s_mirror_objects", "coder_k8s_mirror_state", "coder_k8s_mirror_syncs_total",
	}
	if diff := cmp.Diff(want, names); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestShortBuildsOverHTTP checks that builds are seen that have ended when the request for them is
// answered, even if no other read finds them.
func TestShortBuildsOverHTTP(t *testing.T) {
	l := newLiveWith(t, func(timing *mirror.Timing) {
		timing.Batch, timing.Round, timing.Templates, timing.Count = time.Hour, time.Hour, time.Hour, time.Hour
	})
	l.AddUser("ada")
	dev := l.AddWorkspace("ada", l.AddTemplate("coder", "docker", map[string]string{"main.tf": "# one"}), "dev")
	l.run()
	l.until("Ready", l.state(syncstatus.Ready))
	for range 3 {
		l.build(dev, coderd.TransitionStop)
		l.until("stopped", func() bool { return l.workspace("coder.ada.dev").Status.Phase == "Stopped" })
		l.build(dev, coderd.TransitionStart)
		l.until("running", func() bool { return l.workspace("coder.ada.dev").Status.Phase == "Running" })
	}
	l.build(dev, coderd.TransitionDelete)
	l.until("deleted", func() bool { return l.workspace("coder.ada.dev") == nil })
}

// TestFirstSyncOverHTTP compares the first sync with reading the pages alone.
func TestFirstSyncOverHTTP(t *testing.T) {
	kubetest.SkipWithRace(t)
	const n = 10_000
	l := newLive(t)
	l.AddUser("ada")
	l.AddWorkspaces(n, "ada", l.AddTemplate("coder", "docker", map[string]string{"main.tf": "# one"}))
	client, err := coderd.New(coderd.Config{URL: l.URL, Token: l.AddUser("yardstick", "owner")})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for offset := 0; offset < n; offset += coderd.MaxWorkspacePage {
		if _, err := client.WorkspacePage(t.Context(), offset, coderd.MaxWorkspacePage); err != nil {
			t.Fatal(err)
		}
	}
	pages := time.Since(began)
	l.run()
	took := l.until("Ready", l.state(syncstatus.Ready))
	t.Logf("%d workspaces: %v, the pages alone %v (%.2f times)", l.workspaces.Len(), took, pages, took.Seconds()/pages.Seconds())
	if l.workspaces.Len() != n {
		t.Errorf("%d objects", l.workspaces.Len())
	}
}

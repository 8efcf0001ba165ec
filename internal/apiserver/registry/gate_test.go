package registry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/warning"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
)

// warnings collects the warnings that a client would receive with the response.
type warnings struct {
	mu       sync.Mutex
	reported []string
}

// AddWarning implements warning.Recorder.
func (w *warnings) AddWarning(_, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reported = append(w.reported, text)
}

// released lists the namespaces that are being deleted.
type released []string

// Released implements Namespaces.
func (r released) Released(name string) bool { return slices.Contains(r, name) }

// ReleasedNow implements Namespaces.
func (r released) ReleasedNow(_ context.Context, name string) (bool, error) {
	return r.Released(name), nil
}

const (
	served      = "served"
	warned      = "warned"
	refusedNow  = "503"
	emptyAtOnce = "empty"
)

// since is the time of the last state change in these tests.
var since = metav1.NewTime(time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC))

// verdictOf returns the result of a question to the gate.
func verdictOf(t *testing.T, ask func(ctx context.Context) error) string {
	t.Helper()
	w := &warnings{}
	err := ask(warning.WithWarningRecorder(t.Context(), w))
	var status *apierrors.StatusError
	switch {
	case err == nil && len(w.reported) == 0:
		return served
	case err == nil:
		if !strings.Contains(w.reported[0], "team/coder") || !strings.Contains(w.reported[0], "2026-11-21T12:00:00Z") {
			t.Errorf("the warning does not say who and since when: %q", w.reported)
		}
		return warned
	case errors.As(err, &status) && apierrors.IsServiceUnavailable(err):
		if status.ErrStatus.Details == nil || status.ErrStatus.Details.RetryAfterSeconds != 1 {
			t.Errorf("503 without Retry-After: %+v", status.ErrStatus)
		}
		return refusedNow
	default:
		return err.Error()
	}
}

// outcome holds the expected result of each question. An unknown name is one that the records do not
// have.
type outcome struct {
	list, listAll, get, unknown, create string
}

// TestGate is the table of docs/explanation/aggregated-api.md, "What is said when
// little is known".
func TestGate(t *testing.T) {
	state := func(s syncstatus.State, seen bool) []syncstatus.Status {
		return []syncstatus.Status{{
			ControlPlane: types.NamespacedName{Namespace: "team", Name: "coder"}, State: s, Seen: seen, Since: since, Message: "no route",
		}}
	}
	never := func(s syncstatus.State) []syncstatus.Status {
		all := state(s, false)
		all[0].NeverServed = true
		return all
	}
	for name, c := range map[string]struct {
		board  []syncstatus.Status
		silent bool
		filled error
		serves bool
		fails  error
		want   outcome
	}{
		"never read":                {board: state(syncstatus.Syncing, false), serves: true, want: outcome{refusedNow, refusedNow, refusedNow, refusedNow, refusedNow}},
		"ready":                     {board: state(syncstatus.Ready, true), serves: true, want: outcome{served, served, served, served, served}},
		"stale":                     {board: state(syncstatus.Stale, true), serves: true, want: outcome{warned, warned, warned, refusedNow, refusedNow}},
		"quarantined":               {board: state(syncstatus.Quarantined, true), serves: true, want: outcome{warned, warned, warned, refusedNow, refusedNow}},
		"never read for 5 minutes":  {board: state(syncstatus.Quarantined, false), serves: true, want: outcome{refusedNow, warned, refusedNow, refusedNow, refusedNow}},
		"never served":              {board: never(syncstatus.Syncing), serves: true, want: outcome{warned, warned, refusedNow, refusedNow, refusedNow}},
		"never served, 5 minutes":   {board: never(syncstatus.Quarantined), serves: true, want: outcome{warned, warned, refusedNow, refusedNow, refusedNow}},
		"gone":                      {board: []syncstatus.Status{}, want: outcome{emptyAtOnce, served, emptyAtOnce, emptyAtOnce, served}},
		"just created":              {board: []syncstatus.Status{}, serves: true, want: outcome{refusedNow, served, refusedNow, refusedNow, refusedNow}},
		"still on the board":        {board: state(syncstatus.Ready, true), want: outcome{served, served, served, served, served}},
		"nobody has looked":         {silent: true, serves: true, want: outcome{refusedNow, refusedNow, refusedNow, refusedNow, refusedNow}},
		"nobody has looked, nor is": {silent: true, want: outcome{emptyAtOnce, refusedNow, emptyAtOnce, emptyAtOnce, refusedNow}},
		"no records":                {board: state(syncstatus.Ready, true), filled: errors.New("no snapshot"), serves: true, want: outcome{refusedNow, refusedNow, refusedNow, refusedNow, refusedNow}},
		"no records, nor is":        {board: []syncstatus.Status{}, filled: errors.New("no snapshot"), want: outcome{emptyAtOnce, refusedNow, emptyAtOnce, emptyAtOnce, refusedNow}},
		"the cluster is silent":     {board: []syncstatus.Status{}, fails: errors.New("no API"), want: outcome{refusedNow, served, refusedNow, refusedNow, refusedNow}},
	} {
		t.Run(name, func(t *testing.T) {
			g := &Gate{
				Board: &syncstatus.Board{}, Filled: func() error { return c.filled }, Namespaces: released{"ending"},
				Serves: func(_ context.Context, namespace string) (bool, error) {
					return c.serves && namespace == "team", c.fails
				},
			}
			if !c.silent {
				g.Board.Replace(c.board)
			}
			g.expect(t, "team", c.want)
			g.expect(t, "ending", outcome{emptyAtOnce, c.want.listAll, emptyAtOnce, emptyAtOnce, ""})
			if c.fails == nil {
				g.expect(t, "other", outcome{emptyAtOnce, c.want.listAll, emptyAtOnce, emptyAtOnce, ""})
			}
		})
	}
}

// expect asks all questions about a namespace. It skips those whose expected result is empty.
func (g *Gate) expect(t *testing.T, namespace string, want outcome) {
	t.Helper()
	in := func(ask func(context.Context) error) string {
		if g.nothing(t.Context(), namespace) {
			return emptyAtOnce
		}
		return verdictOf(t, ask)
	}
	for question, c := range map[string]struct{ got, want string }{
		"list":             {in(func(ctx context.Context) error { return g.read(ctx, namespace) }), want.list},
		"list everywhere":  {verdictOf(t, func(ctx context.Context) error { return g.read(ctx, "") }), want.listAll},
		"get":              {in(func(ctx context.Context) error { return g.readOne(ctx, namespace, "") }), want.get},
		"get what is none": {in(func(ctx context.Context) error { return g.absent(ctx, namespace, "") }), want.unknown},
		"create":           {verdictOf(t, func(ctx context.Context) error { return g.absent(ctx, namespace, "") }), want.create},
	} {
		if c.want != "" && c.got != c.want {
			t.Errorf("%s in %s: %s, want %s", question, namespace, c.got, c.want)
		}
	}
}

// TestGateOfTwo covers one reachable and one unreachable Coder, in the same namespace and in
// different ones.
func TestGateOfTwo(t *testing.T) {
	at := func(namespace, prefix string, s syncstatus.State, seen bool) syncstatus.Status {
		return syncstatus.Status{
			ControlPlane: types.NamespacedName{Namespace: namespace, Name: "coder"}, NamePrefix: prefix,
			State: s, Seen: seen, Since: since,
		}
	}
	g := &Gate{
		Board: &syncstatus.Board{}, Filled: func() error { return nil }, Namespaces: released{},
		Serves: func(context.Context, string) (bool, error) { return true, nil },
	}
	g.Board.Replace([]syncstatus.Status{
		at("team", "", syncstatus.Stale, true), at("team", "b", syncstatus.Ready, true), at("other", "", syncstatus.Ready, true),
	})
	for name, c := range map[string]struct {
		got, want string
	}{
		"list of both":              {verdictOf(t, func(ctx context.Context) error { return g.read(ctx, "team") }), warned},
		"list of the other one":     {verdictOf(t, func(ctx context.Context) error { return g.read(ctx, "other") }), served},
		"list everywhere":           {verdictOf(t, func(ctx context.Context) error { return g.read(ctx, "") }), warned},
		"get from the stale one":    {verdictOf(t, func(ctx context.Context) error { return g.readOne(ctx, "team", "") }), warned},
		"get from the ready one":    {verdictOf(t, func(ctx context.Context) error { return g.readOne(ctx, "team", "b") }), served},
		"none in the ready one":     {verdictOf(t, func(ctx context.Context) error { return g.absent(ctx, "team", "b") }), served},
		"none in the stale one":     {verdictOf(t, func(ctx context.Context) error { return g.absent(ctx, "team", "") }), refusedNow},
		"a prefix of nobody":        {verdictOf(t, func(ctx context.Context) error { return g.absent(ctx, "team", "c") }), served},
		"create in the ready one":   {verdictOf(t, func(ctx context.Context) error { return g.absent(ctx, "team", "b") }), served},
		"create in the stale one":   {verdictOf(t, func(ctx context.Context) error { return g.absent(ctx, "team", "") }), refusedNow},
		"create under no prefix":    {verdictOf(t, func(ctx context.Context) error { return g.absent(ctx, "team", "c") }), served},
		"a namespace that has none": {verdictOf(t, func(ctx context.Context) error { return g.readOne(ctx, "other", "c") }), served},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", name, c.got, c.want)
		}
	}
	g.Board.Replace([]syncstatus.Status{at("team", "", syncstatus.Ready, true), at("team", "b", syncstatus.Syncing, false)})
	if got := verdictOf(t, func(ctx context.Context) error { return g.read(ctx, "team") }); got != refusedNow {
		t.Errorf("a list of which a part was never read: %s, want 503", got)
	}
	if got := verdictOf(t, func(ctx context.Context) error { return g.readOne(ctx, "team", "") }); got != served {
		t.Errorf("one of the other part: %s, want served", got)
	}
}

// TestGateBesideNewOne covers a ready control plane and one whose name prefix is not decided yet,
// in one namespace.
func TestGateBesideNewOne(t *testing.T) {
	at := func(name string, s syncstatus.State) syncstatus.Status {
		return syncstatus.Status{ControlPlane: types.NamespacedName{Namespace: "team", Name: name}, State: s, Since: since}
	}
	settled, unsettled := at("coder", syncstatus.Ready), at("a-new-one", syncstatus.Syncing)
	settled.Seen, unsettled.Unnamed, unsettled.NeverServed = true, true, true
	g := &Gate{
		Board: &syncstatus.Board{}, Filled: func() error { return nil }, Namespaces: released{},
		Serves: func(context.Context, string) (bool, error) { return true, nil },
	}
	g.Board.Replace([]syncstatus.Status{unsettled, settled})
	ask := func(prefix string) [3]string {
		return [3]string{
			verdictOf(t, func(ctx context.Context) error { return g.readOne(ctx, "team", prefix) }),
			verdictOf(t, func(ctx context.Context) error { return g.absent(ctx, "team", prefix) }),
			verdictOf(t, func(ctx context.Context) error { return g.absent(ctx, "team", prefix) }),
		}
	}
	if got, want := ask(""), [3]string{served, served, served}; got != want {
		t.Errorf("get, get an unknown name and create in the one that works: %v, want %v", got, want)
	}
	if got, want := ask("a-new-one"), [3]string{refusedNow, refusedNow, refusedNow}; got != want {
		t.Errorf("get, get an unknown name and create in the new one: %v, want %v", got, want)
	}
}

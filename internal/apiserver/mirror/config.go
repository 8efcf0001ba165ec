package mirror

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/partition"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// Resource is where the objects of one kind are kept, and what they are made of.
type Resource[Item any] struct {
	Store *records.Store
	Kind  Kind[Item]
}

// DefaultMaxWorkspaces is five times what docs/explanation/performance.md has figures
// for.
const DefaultMaxWorkspaces = 50_000

// Config of a Mirror.
type Config struct {
	Connections connections.Provider
	Records     metadata.Records
	Board       *partition.Board
	Workspaces  Resource[coderd.Workspace]
	Templates   Resource[coderd.Template]
	// Users may have no Store: then no users are mirrored.
	Users Resource[coderd.User]
	// Released says that a namespace is being deleted, so that its objects leave the
	// log without a call to Coder. Nil means that none is.
	Released func(namespace string) bool
	// Members is called with the control planes that are served, each time they were
	// looked at. Nil is not called.
	Members func([]connections.Member)
	// Unsettled reports whether something outside of Coder says that a workspace changes
	// soon, so that it is read again. Nil is never.
	Unsettled func(controlPlane types.NamespacedName, w coderd.Workspace) bool
	// Gone is called with a workspace that was deleted in Coder. Nil is not called.
	Gone func(controlPlane types.NamespacedName, id uuid.UUID)
	// Held says that no other replica mirrors for certain. Nil means always.
	Held func() bool
	// Metrics may be nil.
	Metrics *Metrics
	// Timing is when things happen. Its zero values mean the defaults.
	Timing Timing
	// Clock is the time. Nil means the real one.
	Clock clock.WithTicker
	// Jitter gives a number from 0 up to 1. It is safe for concurrent use. Nil means a
	// random one.
	Jitter func() float64
	// MaxWorkspaces is how many workspaces one Coder may have. A control plane with
	// more is not served, because the objects of all of them are in memory. 0 means
	// DefaultMaxWorkspaces.
	MaxWorkspaces int
	// Open gives what is asked of a connection. Nil means its Client.
	Open func(connections.Connection) Coder
}

func (c *Config) complete() error {
	if c.Connections == nil || c.Records == nil || c.Board == nil {
		return errors.New("the mirror needs Connections, Records and a Board")
	}
	if !c.Workspaces.complete() || !c.Templates.complete() {
		return errors.New("the mirror needs a Store and a Kind for workspaces and for templates")
	}
	if c.Users.Store != nil && !c.Users.complete() {
		return errors.New("the mirror needs a Kind for users")
	}
	if c.Released == nil {
		c.Released = func(string) bool { return false }
	}
	if c.Members == nil {
		c.Members = func([]connections.Member) {}
	}
	if c.Unsettled == nil {
		c.Unsettled = func(types.NamespacedName, coderd.Workspace) bool { return false }
	}
	if c.Gone == nil {
		c.Gone = func(types.NamespacedName, uuid.UUID) {}
	}
	if c.Held == nil {
		c.Held = func() bool { return true }
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	if c.Open == nil {
		c.Open = func(connection connections.Connection) Coder { return connection.Client }
	}
	if c.MaxWorkspaces == 0 {
		c.MaxWorkspaces = DefaultMaxWorkspaces
	}
	c.Timing.complete()
	return nil
}

func (r *Resource[Item]) complete() bool {
	return r.Store != nil && r.Kind != nil
}

// Timing is when things happen.
type Timing struct {
	// Members is how often the control planes are looked at. 0 means 1s.
	Members time.Duration
	// Jobs is how often Coder is asked what it is building, whatever the number of
	// organizations. 0 means 1.8s.
	Jobs time.Duration
	// Busy is how often what is changing is read, Drowsy how often what has been
	// changing for longer than Patience. 0 means 2s, 30s and 5min.
	Busy, Drowsy, Patience time.Duration
	// Templates is how often all templates are read. 0 means 30s.
	Templates time.Duration
	// Users is how often all users are read. 0 means 54s.
	Users time.Duration
	// Count is how often the workspaces are counted. 0 means 60s.
	Count time.Duration
	// Batch is how often some of all known workspaces are read, Round how long a
	// round of them takes at least. 0 means 6s and 10s.
	Batch, Round time.Duration
	// Agents is how often Coder is asked for disconnected agents. 0 means 8s.
	Agents time.Duration
	// Organizations is how often the organizations are read. 0 means 5min.
	Organizations time.Duration
	// Probe is how often a Coder that does not answer is tried. 0 means 5s.
	Probe time.Duration
	// StaleAfter and QuarantineAfter are how long Coder must not have answered. A sixth of
	// StaleAfter is enough where it never answered this replica.
	// RefusedAfter is how long it must have refused the token. 0 means 30s, 5min and
	// 5s.
	StaleAfter, QuarantineAfter, RefusedAfter time.Duration
	// ConfirmAfter is when many deletions at once are looked at again. 0 means 60s.
	ConfirmAfter time.Duration
	// Sweep is how often records without an object are looked for. 0 means 5min.
	Sweep time.Duration
	// Rate is the most requests a second to one Coder. 0 means 6.
	Rate float64
	// Page is how many workspaces the first sync reads at once. 0 means 1000.
	Page int
}

func (t *Timing) complete() {
	for field, fallback := range map[*time.Duration]time.Duration{
		&t.Members: time.Second, &t.Jobs: 1800 * time.Millisecond, &t.Busy: 2 * time.Second,
		&t.Drowsy: 30 * time.Second, &t.Patience: 5 * time.Minute, &t.Templates: 30 * time.Second, &t.Users: 54 * time.Second,
		&t.Count: time.Minute, &t.Agents: 8 * time.Second, &t.Batch: 6 * time.Second, &t.Round: 10 * time.Second,
		&t.Organizations: 5 * time.Minute, &t.Probe: 5 * time.Second, &t.StaleAfter: 30 * time.Second,
		&t.QuarantineAfter: 5 * time.Minute, &t.RefusedAfter: 5 * time.Second,
		&t.ConfirmAfter: time.Minute, &t.Sweep: 5 * time.Minute,
	} {
		if *field == 0 {
			*field = fallback
		}
	}
	if t.Rate == 0 {
		t.Rate = 6
	}
	if t.Page == 0 {
		t.Page = coderd.MaxWorkspacePage
	}
}

package mirror

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// Resource is the store for the objects of one kind, and the Kind that composes them.
type Resource[Item any] struct {
	Store *records.Store
	Kind  Kind[Item]
}

// DefaultMaxWorkspaces is the default of Config.MaxWorkspaces. It is five times the largest number
// of workspaces that docs/explanation/performance.md has measurements for.
const DefaultMaxWorkspaces = 50_000

// Config configures a Mirror.
type Config struct {
	Connections connections.Provider
	Records     metadata.Records
	Board       *syncstatus.Board
	Workspaces  Resource[coderd.Workspace]
	Templates   Resource[coderd.Template]
	Users       Resource[coderd.User]
	// Released reports whether a namespace is being deleted. The objects of such a namespace are
	// removed from the records without requests to Coder. If nil, no namespace is being deleted.
	Released func(namespace string) bool
	// Members is called with the served control planes each time they were listed. It may be nil.
	Members func([]connections.Member)
	// Unsettled reports whether state outside of Coder shows that a workspace changes soon. Such a
	// workspace is read again soon. If nil, no workspace is unsettled.
	Unsettled func(controlPlane types.NamespacedName, w coderd.Workspace) bool
	// Gone is called after a workspace was deleted in Coder. It may be nil.
	Gone func(controlPlane types.NamespacedName, id uuid.UUID)
	// Held reports whether it is certain that no other replica mirrors. Nil means always.
	Held    func() bool
	Metrics *Metrics
	// Timing holds the intervals and limits. Zero fields take their defaults.
	Timing Timing
	// Clock is the source of time. Nil means the real clock.
	Clock clock.WithTicker
	// Jitter returns a number in [0, 1). It is safe for concurrent use. Nil means rand.Float64.
	Jitter func() float64
	// MaxWorkspaces is the maximum number of workspaces in one Coder. A control plane with more is
	// not served, because all objects are kept in memory. 0 means DefaultMaxWorkspaces.
	MaxWorkspaces int
	// Open returns the API client of a connection. Nil means the connection's Client.
	Open func(connections.Connection) Coder
}

func (c *Config) complete() {
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
}

// Timing holds the intervals and limits of a Mirror.
type Timing struct {
	// Members is how often the served control planes are listed. 0 means 1s.
	Members time.Duration
	// Jobs is how often Coder is asked for its active builds, independent of the number of
	// organizations, and JobsSoon the same for a minute after a build. 0 means 1.8s for Jobs and
	// 400ms for JobsSoon.
	Jobs, JobsSoon time.Duration
	// Busy is how often an object that is changing is read. Drowsy is the interval for an object
	// that has been changing for longer than Patience. 0 means 2s for Busy, 30s for Drowsy and 5min
	// for Patience.
	Busy, Drowsy, Patience time.Duration
	// Templates is how often all templates are read. 0 means 30s.
	Templates time.Duration
	// Users is how often all users are read. 0 means 54s.
	Users time.Duration
	// Count is how often the workspaces are counted. 0 means 60s.
	Count time.Duration
	// Batch is the minimum interval between two reads of a batch of known workspaces. Round is the
	// minimum duration of one round over all of them. 0 means 6s for Batch and 10s for Round.
	Batch, Round time.Duration
	// Agents is how often Coder is asked for disconnected agents. 0 means 8s.
	Agents time.Duration
	// Organizations is how often the organizations are read. 0 means 5min.
	Organizations time.Duration
	// Probe is how often a Coder that does not answer is probed. 0 means 5s.
	Probe time.Duration
	// StaleAfter and QuarantineAfter are how long Coder must not have answered before the control
	// plane is stale or quarantined. A sixth of StaleAfter is enough while the state is from
	// another leader and Coder has not answered this replica yet. RefusedAfter is how long Coder
	// must have refused the token. 0 means 30s for StaleAfter, 5min for QuarantineAfter and 5s for
	// RefusedAfter.
	StaleAfter, QuarantineAfter, RefusedAfter time.Duration
	// ConfirmAfter is the delay before many deletions at once are confirmed. 0 means 60s.
	ConfirmAfter time.Duration
	// Sweep is how often records without an object are looked up and removed. 0 means 5min.
	Sweep time.Duration
	// Rate is the maximum number of requests per second to one Coder. 0 means 6.
	Rate float64
	// Page is the page size of the first sync, in workspaces. 0 means coderd.MaxWorkspacePage.
	Page int
}

func (t *Timing) complete() {
	for field, fallback := range map[*time.Duration]time.Duration{
		&t.Members: time.Second, &t.Jobs: 1800 * time.Millisecond, &t.JobsSoon: 400 * time.Millisecond, &t.Busy: 2 * time.Second,
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

// Kind composes and settles the objects of one kind. It is safe for concurrent use.
type Kind[Item any] interface {
	// Object returns the object of an item, with the metadata of the record merged in. The record
	// and the previous object may be nil. Object must not modify them.
	Object(ctx context.Context, connection connections.Connection, item Item, record *metadata.Record, previous records.Object) (records.Object, error)
	// Settle applies to Coder the pending work of an object that is due now: recorded intent, a
	// deletion, or work that is pending in Coder. It is called as a records.Writer is: before its first
	// change in Coder, the record gets a claim. If again is true, the item is read again soon.
	Settle(ctx context.Context, connection connections.Connection, item Item, record *metadata.Record) (again bool, err error)
	// Unreachable returns a copy of the object whose condition Synced reports that Coder is not
	// available since a time. It returns nil if the object shows that already.
	Unreachable(previous records.Object, since time.Time, message string) records.Object
}

// Adopter is implemented by a Kind if a name in Coder does not identify an item: another item may
// have the name of an item whose creation failed.
type Adopter[Item any] interface {
	// Adopts reports whether an item may be the one of a pending record that has its name.
	Adopts(item Item, pending *metadata.Record) bool
}

// Coder is the part of the Coder API that the mirror reads. It has no method that changes data.
type Coder interface {
	Me(ctx context.Context) (coderd.User, error)
	Organizations(ctx context.Context) ([]coderd.Organization, error)
	ActiveJobs(ctx context.Context, organization uuid.UUID) ([]coderd.Job, error)
	NewestJobs(ctx context.Context, organization uuid.UUID, limit int) ([]coderd.Job, error)
	WorkspaceCount(ctx context.Context) (int, error)
	WorkspacePage(ctx context.Context, offset, limit int) (coderd.WorkspacePage, error)
	DisconnectedWorkspaces(ctx context.Context, offset, limit int) (coderd.WorkspacePage, error)
	WorkspacesByID(ctx context.Context, ids []uuid.UUID) ([]coderd.Workspace, error)
	Workspace(ctx context.Context, id uuid.UUID) (coderd.Workspace, error)
	Templates(ctx context.Context) ([]coderd.Template, error)
	Template(ctx context.Context, id uuid.UUID) (coderd.Template, error)
	UserPage(ctx context.Context, offset, limit int) (coderd.UserPage, error)
	UserByID(ctx context.Context, id uuid.UUID) (coderd.User, error)
}

var _ Coder = (*coderd.Client)(nil)

package mirror

import (
	"context"
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
	// Hints report the objects that must be read again.
	Hints      *Hints
	Workspaces Resource[coderd.Workspace]
	Templates  Resource[coderd.Template]
	Users      Resource[coderd.User]
	// Released reports whether a namespace is being deleted. The objects of such a namespace are
	// removed from the records without requests to Coder.
	Released func(namespace string) bool
	// Members is called with the served control planes each time they were listed.
	Members func([]connections.Member)
	// Unsettled reports whether state outside of Coder shows that a workspace changes soon. Such a
	// workspace is read again soon.
	Unsettled func(controlPlane types.NamespacedName, w coderd.Workspace) bool
	// Gone is called after a workspace was deleted in Coder.
	Gone func(controlPlane types.NamespacedName, id uuid.UUID)
	// Built is called when the build of a version of a template has begun or ended, before the template is read.
	Built func(controlPlane types.NamespacedName, template uuid.UUID)
	// Held reports whether it is certain that no other replica mirrors.
	Held    func() bool
	Metrics *Metrics
	// Timing holds the intervals and limits.
	Timing Timing
	// Clock is the source of time.
	Clock clock.WithTicker
	// Jitter returns a number in [0, 1). It is safe for concurrent use. Nil means rand.Float64.
	Jitter func() float64
	// MaxWorkspaces is the maximum number of workspaces in one Coder. A control plane with more is
	// not served, because all objects are kept in memory. 0 means DefaultMaxWorkspaces.
	MaxWorkspaces int
	// Open returns the API client of a connection. Nil means the connection's Client.
	Open func(connections.Connection) Coder
}

// Timing holds the intervals and limits of a Mirror. DefaultTiming has the values.
type Timing struct {
	Members, Jobs, JobsSoon, Busy, Drowsy, Patience, Templates, Users, Count, Batch, Round, Agents,
	Organizations, Probe, StaleAfter, QuarantineAfter, RefusedAfter, Recover, ConfirmAfter, Sweep time.Duration

	Rate float64
	Page int
}

// DefaultTiming returns the intervals and limits that this project uses. Only tests change them.
func DefaultTiming() Timing {
	return Timing{
		// Members is the interval between two lists of the served control planes.
		Members: time.Second,
		// Jobs is the interval between two polls of the active builds. JobsSoon replaces it for a
		// minute after a build. The number of organizations changes neither.
		Jobs:     1800 * time.Millisecond,
		JobsSoon: 400 * time.Millisecond,
		// Busy is the interval between two reads of an object that is changing. Drowsy is the
		// interval for an object that has been changing for longer than Patience.
		Busy:     2 * time.Second,
		Drowsy:   30 * time.Second,
		Patience: 5 * time.Minute,
		// Templates and Users are the intervals between two reads of all templates and all users.
		Templates: 30 * time.Second,
		Users:     54 * time.Second,
		// Count is the interval between two counts of the workspaces.
		Count: time.Minute,
		// Batch is the minimum interval between two reads of a batch of known workspaces. Round is
		// the minimum duration of one round over all of them.
		Batch: 6 * time.Second,
		Round: 10 * time.Second,
		// Agents is the interval between two requests for disconnected agents.
		Agents: 8 * time.Second,
		// Organizations is the interval between two reads of the organizations.
		Organizations: 5 * time.Minute,
		// Probe is the interval between two requests to a Coder that does not answer.
		Probe: 5 * time.Second,
		// A control plane is stale after Coder has not answered for StaleAfter. It is quarantined
		// after QuarantineAfter, or after Coder has refused the token for RefusedAfter. On a new
		// leader, a sixth of StaleAfter applies until Coder has responded once.
		StaleAfter:      30 * time.Second,
		QuarantineAfter: 5 * time.Minute,
		RefusedAfter:    5 * time.Second,
		// Recover is how often the end of an outage is shown in all objects, after the first three ends.
		Recover: 15 * time.Minute,
		// ConfirmAfter is the delay before many deletions at once are confirmed.
		ConfirmAfter: time.Minute,
		// Sweep is the interval between two removals of records without an object.
		Sweep: 5 * time.Minute,
		// Rate is the maximum number of requests per second to one Coder.
		Rate: 6,
		// Page is the page size of the first sync, in workspaces.
		Page: coderd.MaxWorkspacePage,
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
	// Unreadable returns a copy of the object whose condition Synced reports that this object cannot be read or
	// converted since a time. It returns nil if the object shows that already.
	Unreadable(previous records.Object, since time.Time, message string) records.Object
	// Unrecovered returns a copy of the next object with the condition Synced of the previous one, if that reports that
	// Coder is not available. Otherwise it returns nil.
	Unrecovered(previous, next records.Object) records.Object
}

// Adopter is implemented by a Kind if a name in Coder does not identify an item: another item may
// have the name of an item whose creation failed.
type Adopter[Item any] interface {
	// Adopts reports whether an item may be the one of a pending record that has its name.
	Adopts(item Item, pending *metadata.Record) bool
}

// Coder is the part of the Coder API that the mirror reads. It has no method that changes data.
type Coder interface {
	BuildInfo(ctx context.Context) (coderd.BuildInfo, error)
	Me(ctx context.Context) (coderd.User, error)
	May(ctx context.Context, wanted ...coderd.Permission) (bool, error)
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

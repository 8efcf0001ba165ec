package mirror

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

const (
	// lostPage is how many workspaces with a disconnected agent are read in every step.
	lostPage = 100
	// agentDisconnected is the status of an agent that Coder no longer hears from.
	agentDisconnected = "disconnected"
)

// lost finds workspaces whose agent was disconnected, or is connected again. Neither builds nor
// pods show that. Every step reads the first page of the workspaces with a disconnected agent. It
// reads the other pages only if the number of these workspaces or the first page changed, and at
// most once in Timing.Count.
type lost struct {
	plane *plane
	next  time.Time
	// known are the workspaces with a disconnected agent. It is nil before the first step.
	known map[uuid.UUID]bool
	// full is when all pages were last read.
	full time.Time
}

func (l *lost) step(ctx context.Context) time.Time {
	p := l.plane
	connection, live := p.live()
	switch {
	case !live:
		// The next step compares Coder with the objects in the records.
		l.known = nil
		return p.after(idle)
	case p.config.Clock.Now().Before(l.next):
		return l.next
	}
	l.next = p.after(p.config.Timing.Agents)
	p.note(ctx, "reading the disconnected agents", l.look(ctx, connection))
	return l.next
}

// look compares Coder's workspaces with a disconnected agent with those that are known.
func (l *lost) look(ctx context.Context, connection connections.Connection) error {
	f := l.plane.workspaces
	if l.known == nil {
		l.known = map[uuid.UUID]bool{}
		for _, entry := range f.Store.Table.Of(l.plane.name) {
			if hasLostAgent(entry.Object) {
				l.known[idOf(entry.Object)] = true
			}
		}
	}
	began := f.moment()
	now, complete, err := l.read(ctx, l.plane.config.Open(connection))
	if err != nil {
		return err
	}
	items := slices.DeleteFunc(slices.Clone(now), func(w coderd.Workspace) bool { return l.known[w.ID] })
	if err := f.apply(ctx, connection, items, began, false); err != nil {
		return err
	}
	ids := make(map[uuid.UUID]bool, len(now))
	for _, w := range now {
		ids[w.ID] = true
	}
	for id := range l.known {
		switch {
		case ids[id]:
		case complete:
			f.mark(id, 0)
		default:
			ids[id] = true
		}
	}
	l.known = ids
	return nil
}

func hasLostAgent(object records.Object) bool {
	ws, ok := object.(*aggregationv1alpha1.CoderWorkspace)
	return ok && slices.ContainsFunc(ws.Status.Agents, func(a aggregationv1alpha1.WorkspaceAgent) bool { return a.Status == agentDisconnected })
}

// read reads workspaces with a disconnected agent, and reports whether these are all.
func (l *lost) read(ctx context.Context, coder Coder) (all []coderd.Workspace, complete bool, err error) {
	page, limit, err := l.page(ctx, coder, 0, lostPage)
	if err != nil {
		return nil, false, err
	}
	all = page.Workspaces
	if page.Count <= limit {
		return all, true, nil
	}
	timing, now := &l.plane.config.Timing, l.plane.config.Clock.Now()
	same := page.Count == len(l.known) && !slices.ContainsFunc(all, func(w coderd.Workspace) bool { return !l.known[w.ID] })
	if same || now.Sub(l.full) < timing.Count {
		return all, false, nil
	}
	l.full = now
	size := timing.Page
	for offset := limit; offset < min(page.Count, l.plane.config.MaxWorkspaces); offset += size {
		if page, size, err = l.page(ctx, coder, offset, size); err != nil {
			return nil, false, err
		}
		all = append(all, page.Workspaces...)
	}
	return all, true, nil
}

// page reads one page. It also returns the limit of the page, which is smaller if its workspaces
// are too large.
func (l *lost) page(ctx context.Context, coder Coder, offset, limit int) (coderd.WorkspacePage, int, error) {
	return fitting(limit, func(limit int) (coderd.WorkspacePage, error) {
		return ask(ctx, l.plane, callAgents, func(ctx context.Context) (coderd.WorkspacePage, error) {
			return coder.DisconnectedWorkspaces(ctx, offset, limit)
		}, nil)
	})
}

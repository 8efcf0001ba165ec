package mirror

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// longestRetry is the maximum delay before a failed full read is retried.
const longestRetry = time.Minute

// syncer makes a control plane Ready: at first, after an outage, and after another replica was the
// leader.
type syncer struct {
	plane *plane
	// wanted is true if the records must be brought up to date even if the state is Ready. running is
	// true while this happens.
	wanted, running atomic.Bool
	// takeover is true if the previous leader left records that are nearly up to date.
	takeover bool
	next     time.Time
	failures int
}

func (s *syncer) step(ctx context.Context) time.Time {
	p := s.plane
	connection, ok := p.connected()
	switch {
	case !ok, p.state() == syncstatus.Ready && !s.wanted.Load():
		return p.after(idle)
	case p.config.Clock.Now().Before(s.next):
		return s.next
	}
	s.running.Store(true)
	defer s.running.Store(false)
	reached, err := s.run(ctx, connection)
	if err == nil {
		s.failures = 0
		return p.after(idle)
	}
	delay := p.config.Timing.Probe
	if reached {
		if ctx.Err() == nil {
			p.failed(callSync, unreachable, p.config.Clock.Now(), err)
		}
		delay = min(longestRetry, delay<<s.failures)
		s.failures = min(s.failures+1, 4)
		p.config.Metrics.syncs.WithLabelValues(p.name.Namespace, p.name.Name, "failed").Inc()
	}
	p.note(ctx, "reading all objects of Coder", err)
	s.next = p.after(delay)
	return s.next
}

// run brings the records up to date. It reports whether Coder was reached at all.
func (s *syncer) run(ctx context.Context, connection connections.Connection) (reached bool, err error) {
	p := s.plane
	coder := p.config.Open(connection)
	if _, err := p.countWorkspaces(ctx, coder); err != nil {
		return false, err
	}
	if err := p.identify(ctx, coder); err != nil {
		return true, err
	}
	if err := p.jobs.pollAll(ctx, coder); err != nil {
		return true, err
	}
	result := "recovery"
	switch {
	case s.takeover && p.state() != syncstatus.Stale && p.state() != syncstatus.Quarantined:
		// The records are nearly up to date. Read only the objects that were changing, and the templates.
		result = "takeover"
		for _, entry := range p.workspaces.Store.Table.Of(p.name) {
			record, _ := p.config.Records.Get(p.name, records.IDOf(entry.Object))
			workspace, ok := entry.Object.(*aggregationv1alpha1.CoderWorkspace)
			if asks(record) || ok && slices.Contains(unsettled[:], workspace.Status.LatestBuildStatus) {
				p.workspaces.mark(idOf(entry.Object), 0)
			}
		}
		// All templates are read with one request.
		for _, entry := range p.templates.Store.Table.Of(p.name) {
			p.templates.mark(idOf(entry.Object), 0)
		}
		p.rounds.task.soon()
		p.driftCheck.task.soon()
	default:
		if p.syncStatus().State == syncstatus.Syncing {
			result = "first"
		}
		if err := s.readAll(ctx, connection, coder); err != nil {
			return true, err
		}
	}
	s.takeover = false
	s.wanted.Store(false)
	p.config.Metrics.syncs.WithLabelValues(p.name.Namespace, p.name.Name, result).Inc()
	p.mu.Lock()
	p.health.synced(p.config.Clock.Now())
	p.mu.Unlock()
	p.publish()
	p.wakeAll()
	return true, nil
}

// readAll reads all objects into the records.
func (s *syncer) readAll(ctx context.Context, connection connections.Connection, coder Coder) error {
	p := s.plane
	if err := s.readWorkspaces(ctx, connection, coder); err != nil {
		return err
	}
	if err := p.templates.readList(ctx, connection, true); err != nil {
		return err
	}
	// If the users of a Coder cannot be read, the Coder is served without them.
	err := p.users.readList(ctx, connection, true)
	if err == nil || ctx.Err() != nil || errors.Is(err, errBlind) || coderd.IsRateLimited(err) || coderd.IsUnreachable(err) {
		return err
	}
	p.note(ctx, "reading the users", err)
	return nil
}

func (s *syncer) readWorkspaces(ctx context.Context, connection connections.Connection, coder Coder) error {
	p := s.plane
	f := p.workspaces
	known := f.Store.Table.Of(p.name)
	found, count, err := s.enumerate(ctx, connection, coder)
	if err != nil {
		return err
	}
	p.driftCheck.hidden.Store(int64(count - len(found)))
	var absent []uuid.UUID
	for _, entry := range known {
		if id := idOf(entry.Object); !found[id] {
			absent = append(absent, id)
		}
	}
	// The first batch shows whether the token still sees existing workspaces. The others are read
	// later.
	for _, id := range absent[min(len(absent), f.source.batch):] {
		f.mark(id, 0)
	}
	absent = absent[:min(len(absent), f.source.batch)]
	if len(absent) == 0 {
		return nil
	}
	return f.read(ctx, connection, absent, true)
}

// page is one page of workspaces.
type page struct {
	items []coderd.Workspace
	// began is the moment before the page was read.
	began moment
}

// enumerate reads all workspaces page by page. It writes a page into the records while the next one is
// read. It returns the ids that it found, and Coder's count.
func (s *syncer) enumerate(ctx context.Context, connection connections.Connection, coder Coder) (found map[uuid.UUID]bool, count int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pages := make(chan page, 1)
	var readError error
	go func() {
		defer close(pages)
		found, count, readError = s.pages(ctx, coder, pages)
	}()
	for page := range pages {
		if err == nil {
			err = s.plane.workspaces.apply(ctx, connection, page.items, page.began, false)
		}
		if err != nil {
			cancel()
		}
	}
	if err == nil {
		err = readError
	}
	return found, count, err
}

const (
	// overlap is the number of workspaces by which pages overlap, because a workspace that starts
	// or stops meanwhile moves others across the edge of a page.
	overlap = 10
	// passes is the maximum number of passes over the pages to find missed workspaces.
	passes = 3
)

// pages reads pages until it has found as many workspaces as Coder counts, or passes is reached.
func (s *syncer) pages(ctx context.Context, coder Coder, out chan<- page) (found map[uuid.UUID]bool, count int, err error) {
	found = map[uuid.UUID]bool{}
	size := s.plane.config.Timing.Page
	for pass := range passes {
		for offset := 0; ; offset += max(1, size-min(overlap, size/10)) {
			began := s.plane.workspaces.moment()
			read, fits, err := fitting(size, func(limit int) (coderd.WorkspacePage, error) {
				return s.page(ctx, coder, offset, limit)
			})
			if err != nil {
				return nil, 0, err
			}
			count, size = read.Count, fits
			var items []coderd.Workspace
			for _, w := range read.Workspaces {
				if !found[w.ID] {
					found[w.ID] = true
					items = append(items, w)
				}
			}
			select {
			case out <- page{items: items, began: began}:
			case <-ctx.Done():
				return nil, 0, ctx.Err()
			}
			if offset+size >= count || pass > 0 && len(found) >= count {
				break
			}
		}
		if len(found) >= count {
			break
		}
	}
	return found, count, nil
}

// pageAttempts is the number of attempts to read a page before the full read fails.
const pageAttempts = 3

func (s *syncer) page(ctx context.Context, coder Coder, offset, limit int) (read coderd.WorkspacePage, err error) {
	for range pageAttempts {
		read, err = ask(ctx, s.plane, callPages, func(ctx context.Context) (coderd.WorkspacePage, error) {
			page, err := coder.WorkspacePage(ctx, offset, limit)
			if err == nil {
				err = s.plane.fits(page.Count)
			}
			return page, err
		}, nil)
		if err == nil || coderd.IsTooLarge(err) || !coderd.IsRateLimited(err) && !coderd.IsUnreachable(err) {
			break
		}
	}
	return read, err
}

// fitting reads a page of at most limit workspaces, and halves the limit while the response is too
// large. It returns the limit of the page that it returns.
func fitting(limit int, read func(limit int) (coderd.WorkspacePage, error)) (coderd.WorkspacePage, int, error) {
	for {
		page, err := read(limit)
		if limit == 1 || !coderd.IsTooLarge(err) {
			return page, limit, err
		}
		limit /= 2
	}
}

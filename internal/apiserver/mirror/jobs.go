package mirror

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

const (
	// livelyFor is how long an organization is polled more often than others after a build in it.
	livelyFor = 5 * time.Minute
	// soonFor is how long Coder is polled at the interval Timing.JobsSoon after a build began or
	// ended: a person who builds one thing often builds another, and waits for both. A build that
	// waits for a provisioner for hours does not count.
	soonFor = time.Minute
	// newestPage is the number of newest jobs that are requested. If none of them is known, the
	// next poll requests jobs.share.
	newestPage = 100
	// newestShare limits the load on Coder's database: the newest jobs are requested again after
	// this many times the duration of the last answer. With an answer in 85 ms this is at every
	// poll.
	newestShare = 20
	// maxKnownJobs is the maximum number of jobs that are known of all organizations together. With more than 50
	// organizations, each has an equal share.
	maxKnownJobs = 50 * coderd.MaxJobs
)

// jobs polls the provisioner jobs of Coder. The workspaces and templates of jobs that began or
// ended are read at once.
//
// A poll requests either the newest jobs or the active ones. The newest ones include jobs that
// began and ended between two polls.
type jobs struct {
	plane *plane

	mu            sync.Mutex
	organizations []*organization
	// listed is when the organizations were last listed.
	listed time.Time
	turn   int
}

// organization is an organization that is polled in turn.
type organization struct {
	id   uuid.UUID
	name string
	// active are the known jobs that have not ended. It is nil before the first answer.
	active map[uuid.UUID]coderd.Job
	// newest are the ids of the newest jobs. It is nil before the first answer about them.
	newest map[uuid.UUID]bool
	// page is how many of the newest jobs the next poll requests. next is the earliest time for
	// that.
	page int
	next time.Time
	// unseen is true if some of the active jobs were not among the newest ones, so that the next
	// poll requests the active jobs.
	unseen bool
	// asked is when it was last polled. lively is when a build in it was last seen, and changed when
	// one was last seen to begin or to end.
	asked, lively, changed time.Time
}

func (j *jobs) step(ctx context.Context) time.Time {
	p := j.plane
	connection, ok := p.connected()
	_, live := p.live()
	j.mu.Lock()
	// Jobs that begin while the full read is running must not be missed.
	ready := live || p.sync.running.Load() && len(j.organizations) > 0
	unlisted := p.config.Clock.Since(j.listed) >= p.config.Timing.Organizations
	interval := p.config.Timing.Jobs
	if slices.ContainsFunc(j.organizations, func(o *organization) bool { return p.config.Clock.Since(o.changed) < soonFor }) {
		interval = min(p.config.Timing.JobsSoon, interval)
	}
	j.mu.Unlock()
	if !ok || !ready {
		return p.after(idle)
	}
	next := p.after(interval)
	coder := p.config.Open(connection)
	if unlisted {
		p.note(ctx, "reading the organizations", j.list(ctx, coder))
	}
	if o := j.choose(); o != nil {
		p.note(ctx, "reading the running builds", j.poll(ctx, coder, o))
	}
	return next
}

// list lists the organizations. It keeps the state of known ones.
func (j *jobs) list(ctx context.Context, coder Coder) error {
	all, err := ask(ctx, j.plane, callOrganizations, coder.Organizations, nil)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	known := map[uuid.UUID]*organization{}
	for _, o := range j.organizations {
		known[o.id] = o
	}
	j.organizations = nil
	for _, o := range all {
		if known[o.ID] == nil {
			known[o.ID] = &organization{id: o.ID}
		}
		known[o.ID].name = o.Name
		j.organizations = append(j.organizations, known[o.ID])
	}
	j.listed = j.plane.config.Clock.Now()
	return nil
}

// choose returns the organization that was polled longest ago. Every other time it prefers those
// with recent builds.
func (j *jobs) choose() *organization {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.turn++
	now := j.plane.config.Clock.Now()
	var lively, any *organization
	for _, o := range j.organizations {
		if any == nil || o.asked.Before(any.asked) {
			any = o
		}
		if now.Sub(o.lively) < livelyFor && (lively == nil || o.asked.Before(lively.asked)) {
			lively = o
		}
	}
	if lively != nil && j.turn%2 == 0 {
		return lively
	}
	return any
}

// pollAll lists the organizations and polls each of them.
func (j *jobs) pollAll(ctx context.Context, coder Coder) error {
	if err := j.list(ctx, coder); err != nil {
		return err
	}
	j.mu.Lock()
	all := slices.Clone(j.organizations)
	j.mu.Unlock()
	for _, o := range all {
		if err := j.poll(ctx, coder, o); err != nil {
			return err
		}
	}
	return nil
}

// jobsTimeout is the timeout of a request that Coder normally answers at once.
const jobsTimeout = 10 * time.Second

// poll requests either the newest jobs of an organization, or the active ones.
func (j *jobs) poll(ctx context.Context, coder Coder, o *organization) error {
	p := j.plane
	began := p.config.Clock.Now()
	// limit is the number of the newest jobs that are requested. With 0, the active ones are.
	limit := 0
	j.mu.Lock()
	if o.active != nil && !o.unseen && !began.Before(o.next) {
		limit = min(max(newestPage, o.page), j.share())
	}
	j.mu.Unlock()
	found, err := ask(ctx, p, callJobs, func(ctx context.Context) ([]coderd.Job, error) {
		ctx, cancel := context.WithTimeout(ctx, jobsTimeout)
		defer cancel()
		if limit == 0 {
			return coder.ActiveJobs(ctx, o.id)
		}
		sent := p.config.Clock.Now()
		found, err := coder.NewestJobs(ctx, o.id, limit)
		took := p.config.Clock.Since(sent)
		j.mu.Lock()
		o.next = p.config.Clock.Now().Add(newestShare * took)
		j.mu.Unlock()
		return found, err
	}, coderd.IsNotFound)
	if coderd.IsNotFound(err) {
		return j.notFound(ctx, coder, o, began)
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.answered = p.config.Clock.Now()
	p.mu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	found = found[:min(len(found), j.share())]
	if limit == 0 {
		j.takeActive(o, found, began)
	} else {
		j.takeNewest(o, found, limit, began)
	}
	return nil
}

// share returns how many jobs of an answer are used. The others are ignored: the rounds and the drift check find their
// workspaces. The caller holds the lock.
func (j *jobs) share() int {
	return max(1, min(coderd.MaxJobs, maxKnownJobs/max(1, len(j.organizations))))
}

// notFound handles 404 Not Found: the organization was deleted, or the token must not read its
// jobs.
func (j *jobs) notFound(ctx context.Context, coder Coder, o *organization, began time.Time) error {
	if err := j.list(ctx, coder); err != nil {
		return err
	}
	j.mu.Lock()
	there := slices.Contains(j.organizations, o)
	o.asked = j.plane.config.Clock.Now()
	j.mu.Unlock()
	if !there {
		return nil
	}
	err := fmt.Errorf("the operator's token has no permission to read the builds of organization %q; "+
		"give the operator's user the role owner", o.name)
	j.plane.failed(callJobs, refused, began, err)
	return err
}

// takeActive compares all active jobs with the known ones. The caller holds the lock.
func (j *jobs) takeActive(o *organization, found []coderd.Job, began time.Time) {
	active := make(map[uuid.UUID]coderd.Job, len(found))
	for _, job := range found {
		active[job.ID] = job
	}
	var changed []coderd.Job
	for id, job := range active {
		if _, known := o.active[id]; !known {
			changed = append(changed, job)
		}
	}
	for id, job := range o.active {
		if _, still := active[id]; !still {
			changed = append(changed, job)
		}
	}
	o.unseen = false
	j.take(o, active, changed, began)
}

// takeNewest compares the newest jobs with the known ones. Active jobs that are not among them stay
// active. The caller holds the lock.
func (j *jobs) takeNewest(o *organization, found []coderd.Job, limit int, began time.Time) {
	active := maps.Clone(o.active)
	newest := make(map[uuid.UUID]bool, len(found))
	var changed []coderd.Job
	overlap, seen := false, 0
	for _, job := range found {
		_, wasActive := o.active[job.ID]
		overlap = overlap || o.newest[job.ID]
		newest[job.ID] = true
		switch {
		case job.Active:
			active[job.ID] = job
			seen++
			if !wasActive {
				changed = append(changed, job)
			}
		case wasActive:
			delete(active, job.ID)
			changed = append(changed, job)
		case !o.newest[job.ID]:
			changed = append(changed, job)
		}
	}
	o.unseen = len(active) > seen
	j.take(o, active, changed, began)
	switch {
	case overlap, o.newest == nil, len(found) < limit:
		o.newest, o.page = newest, newestPage
	case limit < j.share():
		// There are more new jobs than the page holds.
		o.page, o.next = j.share(), began
	default:
		o.newest, o.page = newest, newestPage
		j.plane.rounds.task.soon()
	}
}

// take triggers reads of the workspaces and templates of changed jobs. The caller holds the lock.
func (j *jobs) take(o *organization, active map[uuid.UUID]coderd.Job, changed []coderd.Job, began time.Time) {
	p := j.plane
	for _, job := range changed {
		if job.Workspace != uuid.Nil {
			p.workspaces.mark(job.Workspace, 0)
		}
		if job.Template != uuid.Nil {
			p.config.Built(p.name, job.Template)
			p.templates.mark(job.Template, 0)
		}
	}
	if len(active)+len(changed) > 0 {
		o.lively = began
	}
	// The first answer about the newest jobs contains old ones.
	if len(changed) > 0 && o.newest != nil {
		o.changed = began
	}
	o.active, o.asked = active, began
}

package mirror

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// livelyFor is how long an organization in which something was built is asked more
// often than others.
const livelyFor = 5 * time.Minute

// jobs asks Coder again and again what it is building. What begins and ends there is
// read at once.
type jobs struct {
	plane *plane
	task  *task

	mu            sync.Mutex
	organizations []*organization
	// listed is when the organizations were read.
	listed time.Time
	turn   int
}

// organization is one of those that are asked in turn.
type organization struct {
	id                    uuid.UUID
	name                  string
	workspaces, templates map[uuid.UUID]bool
	// asked is when it was last asked, lively when something was being built.
	asked, lively time.Time
}

func newJobs(p *plane) *jobs {
	j := &jobs{plane: p}
	j.task = newTask("jobs", j.step)
	return j
}

func (j *jobs) step(ctx context.Context) time.Time {
	p := j.plane
	connection, ok := p.connected()
	if _, live := p.live(); !ok || !live && !j.ready() {
		return p.after(idle)
	}
	next := p.after(p.config.Timing.Jobs)
	coder := p.config.Open(connection)
	if j.unlisted() {
		p.note(ctx, "reading the organizations", j.list(ctx, coder))
	}
	if o := j.choose(); o != nil {
		p.note(ctx, "asking what is being built", j.poll(ctx, coder, o))
	}
	return next
}

// ready says that the organizations are known while everything else is still being
// read. What begins meanwhile must not be missed.
func (j *jobs) ready() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.plane.sync.running.Load() && len(j.organizations) > 0
}

func (j *jobs) unlisted() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.plane.config.Clock.Since(j.listed) >= j.plane.config.Timing.Organizations
}

// list reads the organizations. What is known of them stays.
func (j *jobs) list(ctx context.Context, coder Coder) error {
	var all []coderd.Organization
	err := j.plane.ask(ctx, callOrganizations, func(ctx context.Context) error {
		var err error
		all, err = coder.Organizations(ctx)
		return err
	}, nil)
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

// choose gives the organization whose turn it is. Every other time it is one in which
// something was built lately.
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

// pollAll reads the organizations and asks each.
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

// jobsTimeout bounds a question that Coder answers at once.
const jobsTimeout = 10 * time.Second

// poll asks what is being built in an organization.
func (j *jobs) poll(ctx context.Context, coder Coder, o *organization) error {
	p := j.plane
	began := p.config.Clock.Now()
	var active coderd.ActiveJobs
	err := p.ask(ctx, callJobs, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, jobsTimeout)
		defer cancel()
		var err error
		active, err = coder.ActiveJobs(ctx, o.id)
		return err
	}, coderd.IsNotFound)
	if coderd.IsNotFound(err) {
		return j.notFound(ctx, coder, o, began)
	}
	if err != nil {
		return err
	}
	p.answeredNow()
	j.take(o, active, began)
	return nil
}

// notFound deals with an organization that was deleted, or whose jobs the token must
// not read.
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
	err := fmt.Errorf("the operator's token may not read what is being built in organization %q; "+
		"give the operator's user the role of an owner", o.name)
	j.plane.failed(callJobs, refused, began, err)
	return err
}

// take has read what has begun and what has ended.
func (j *jobs) take(o *organization, active coderd.ActiveJobs, began time.Time) {
	p := j.plane
	j.mu.Lock()
	defer j.mu.Unlock()
	workspaces, templates := setOf(active.Workspaces), setOf(active.Templates)
	changed := difference(o.workspaces, workspaces)
	for _, id := range changed {
		p.workspaces.mark(id, 0)
	}
	for _, id := range difference(o.templates, templates) {
		p.templates.mark(id, 0)
	}
	if len(workspaces)+len(templates)+len(changed) > 0 {
		o.lively = began
	}
	// Something may have begun and ended in a gap.
	allowed := time.Duration(3*max(1, len(j.organizations))) * p.config.Timing.Jobs
	if !o.asked.IsZero() && began.Sub(o.asked) > allowed {
		p.rounds.hurry()
	}
	o.workspaces, o.templates, o.asked = workspaces, templates, began
}

func setOf(ids []uuid.UUID) map[uuid.UUID]bool {
	set := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// difference are the ids that one set has and the other has not.
func difference(a, b map[uuid.UUID]bool) []uuid.UUID {
	var out []uuid.UUID
	for id := range a {
		if !b[id] {
			out = append(out, id)
		}
	}
	for id := range b {
		if !a[id] {
			out = append(out, id)
		}
	}
	return out
}

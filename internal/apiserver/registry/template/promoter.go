package template

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

const (
	// busyInterval is how often templates are looked at whose version is being
	// built.
	busyInterval = 3 * time.Second
	// idleInterval is how often all templates are looked at, for those of a replica
	// that is gone. The one that takes its place looks at them when it starts, so
	// that this need not burden every Coder at rest.
	idleInterval = time.Hour
	// blindInterval is the same while some Coder could not be asked.
	blindInterval = 15 * time.Second
)

// Promoter makes versions active once they are built. All that it knows stands
// in Coder, and each of its steps may be done twice, so every replica runs one.
type Promoter struct {
	provider connections.Provider
	clock    clock.WithTicker
	woken    chan struct{}

	mu   sync.Mutex
	busy map[reference]bool
}

// reference is a template of a control plane.
type reference struct {
	controlPlane types.NamespacedName
	template     uuid.UUID
}

// NewPromoter makes a Promoter.
func NewPromoter(provider connections.Provider, c clock.WithTicker) *Promoter {
	return &Promoter{provider: provider, clock: c, woken: make(chan struct{}, 1), busy: map[reference]bool{}}
}

// watch tells that a template has a version to promote.
func (p *Promoter) watch(controlPlane types.NamespacedName, template uuid.UUID) {
	p.mu.Lock()
	p.busy[reference{controlPlane, template}] = true
	p.mu.Unlock()
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

// Run promotes until the context is done.
func (p *Promoter) Run(ctx context.Context) {
	nextFull := p.clock.Now()
	for ctx.Err() == nil {
		full := !p.clock.Now().Before(nextFull)
		if complete := p.pass(ctx, full); full {
			nextFull = p.clock.Now().Add(idleInterval)
			if !complete {
				nextFull = p.clock.Now().Add(blindInterval)
			}
		}
		pause := nextFull.Sub(p.clock.Now())
		if p.isBusy() {
			pause = min(pause, busyInterval)
		}
		timer := p.clock.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-p.woken:
		case <-timer.C():
		}
		timer.Stop()
	}
}

func (p *Promoter) isBusy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.busy) > 0
}

// pass looks at all templates, or at those that are known to be busy. It says
// whether all could be asked.
func (p *Promoter) pass(ctx context.Context, full bool) (complete bool) {
	if !full && !p.isBusy() {
		return true
	}
	all, err := p.provider.All(ctx)
	complete = err == nil
	for _, connection := range all {
		if err := p.passOne(ctx, connection, full); err != nil {
			complete = false
			log.FromContext(ctx).V(1).Info("Promoting template versions is delayed",
				"controlPlane", connection.ControlPlane, "reason", err.Error())
		}
	}
	return complete
}

func (p *Promoter) passOne(ctx context.Context, connection connections.Connection, full bool) error {
	due := p.busyOf(connection.ControlPlane)
	if full {
		templates, err := connection.Client.Templates(ctx)
		if err != nil {
			return err
		}
		for _, t := range templates {
			due[t.ID] = true
		}
	}
	var failed error
	for id := range due {
		busy, err := promote(ctx, connection, id)
		if coderd.IsNotFound(err) {
			busy, err = false, nil
		}
		if err != nil {
			failed = err
			continue
		}
		p.mark(reference{connection.ControlPlane, id}, busy)
	}
	return failed
}

func (p *Promoter) busyOf(controlPlane types.NamespacedName) map[uuid.UUID]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[uuid.UUID]bool{}
	for r := range p.busy {
		if r.controlPlane == controlPlane {
			out[r.template] = true
		}
	}
	return out
}

func (p *Promoter) mark(r reference, busy bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if busy {
		p.busy[r] = true
	} else {
		delete(p.busy, r)
	}
}

// promote does for one template what is to be done now, and says whether a
// build is still awaited. Only the newest version that waits may become active:
// those before it, and those older than the active one, were overtaken.
func promote(ctx context.Context, connection connections.Connection, id uuid.UUID) (busy bool, err error) {
	client := connection.Client
	versions, err := client.TemplateVersions(ctx, id)
	if err != nil || !anyPending(versions) {
		return false, err
	}
	template, err := client.Template(ctx, id)
	if err != nil {
		return false, err
	}
	active, err := activeOf(ctx, client, template, versions)
	if err != nil {
		return false, err
	}
	overtaken := false
	for i := len(versions) - 1; i >= 0; i-- {
		v := versions[i]
		if v.Message != messagePending {
			continue
		}
		message := next(v, active, overtaken)
		overtaken = true
		if message == "" {
			busy = true
			continue
		}
		if message == messagePromoted && v.ID != active.ID {
			if err := client.SetActiveVersion(ctx, id, v.ID); err != nil {
				return false, err
			}
		}
		if err := client.SetVersionMessage(ctx, v.ID, message); err != nil {
			return false, err
		}
		log.FromContext(ctx).Info("Settling a template version", "controlPlane", connection.ControlPlane,
			"template", template.Name, "version", v.Name, "result", message)
	}
	return busy, nil
}

// next gives the message of a version that waits, after what is to be done now.
// It is empty where the build has not ended.
func next(v, active coderd.TemplateVersion, overtaken bool) string {
	switch {
	case v.ID == active.ID:
		return messagePromoted
	case overtaken || !v.CreatedAt.After(active.CreatedAt):
		return messageSuperseded
	case v.Status == buildSucceeded:
		return messagePromoted
	case ended(v):
		return messageFailed
	default:
		return ""
	}
}

func anyPending(versions []coderd.TemplateVersion) bool {
	for _, v := range versions {
		if v.Message == messagePending {
			return true
		}
	}
	return false
}

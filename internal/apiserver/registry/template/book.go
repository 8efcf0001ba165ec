package template

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// How long a list of versions is believed.
const (
	// restAge is for a template of which nothing is being built. It bounds how late a
	// version is seen that somebody made at Coder and did not make the active one.
	restAge = 3 * time.Minute
	// stuckAge is for one that has been building for longer than stuckAfter: it waits
	// for a provisioner that nobody has started.
	stuckAge   = 30 * time.Second
	stuckAfter = 10 * time.Minute
	// busyAge lets one look at a template that is building read its versions once.
	busyAge = time.Second
)

// page is the versions of one template.
type page struct {
	versions []coderd.TemplateVersion
	// active may be an archived version, which is not among the others.
	active coderd.TemplateVersion
	// of is the template as it was then.
	of     coderd.Template
	readAt time.Time
}

// latest is the newest version, active or not.
func (p page) latest() coderd.TemplateVersion {
	if len(p.versions) == 0 {
		return p.active
	}
	return p.versions[len(p.versions)-1]
}

// find gives the version with an id.
func (p page) find(id uuid.UUID) (coderd.TemplateVersion, bool) {
	i := slices.IndexFunc(p.versions, func(v coderd.TemplateVersion) bool { return v.ID == id })
	if i >= 0 {
		return p.versions[i], true
	}
	return p.active, id == p.active.ID
}

// book keeps the lists of versions, because Coder has no way to ask for those of
// all templates, and asking for each all the time would burden it.
type book struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	pages map[pageKey]page
}

type pageKey struct {
	controlPlane types.NamespacedName
	template     uuid.UUID
}

func newBook(c clock.PassiveClock) *book { return &book{clock: c, pages: map[pageKey]page{}} }

// read gives the versions of a template. Fresh says that Coder was asked.
func (b *book) read(ctx context.Context, connection connections.Connection, t coderd.Template) (p page, fresh bool, err error) {
	key := pageKey{connection.ControlPlane, t.ID}
	if p, ok := b.known(key, t); ok {
		return p, false, nil
	}
	p = page{of: t, readAt: b.clock.Now()}
	if p.versions, err = connection.Client.TemplateVersions(ctx, t.ID); err != nil {
		return p, true, err
	}
	if p.active, err = activeOf(ctx, connection.Client, t, p.versions); err != nil {
		return p, true, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pages[key] = p
	for other, old := range b.pages {
		// A template that is gone is never asked for again.
		if p.readAt.Sub(old.readAt) > 20*restAge {
			delete(b.pages, other)
		}
	}
	return p, true, nil
}

// activeOf finds the active version. Archived ones are not among the versions.
func activeOf(ctx context.Context, client *coderd.Client, t coderd.Template, versions []coderd.TemplateVersion) (coderd.TemplateVersion, error) {
	i := slices.IndexFunc(versions, func(v coderd.TemplateVersion) bool { return v.ID == t.ActiveVersionID })
	if i >= 0 {
		return versions[i], nil
	}
	return client.TemplateVersion(ctx, t.ActiveVersionID)
}

func (b *book) known(key pageKey, t coderd.Template) (page, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.pages[key]
	if !ok || !p.of.UpdatedAt.Equal(t.UpdatedAt) || p.of.ActiveVersionID != t.ActiveVersionID {
		return p, false
	}
	return p, b.clock.Since(p.readAt) < b.maxAge(p)
}

func (b *book) maxAge(p page) time.Duration {
	age := restAge
	for _, v := range append([]coderd.TemplateVersion{p.active}, p.versions...) {
		switch {
		case ended(v):
		case b.clock.Since(v.CreatedAt) < stuckAfter:
			return busyAge
		default:
			age = stuckAge
		}
	}
	return age
}

// forget has the versions of a template read again.
func (b *book) forget(controlPlane types.NamespacedName, template uuid.UUID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pages, pageKey{controlPlane, template})
}

package template

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// How long a list of versions is cached.
const (
	// restAge applies to a template without a running build. It bounds the delay until a version is
	// seen that was created in Coder and not made active.
	restAge = 3 * time.Minute
	// stuckAge applies to a template with a build that has not finished after stuckAfter, for
	// example because no provisioner is running, or that Coder's clock shows to be in the future. This is only the age of the cache. The time of a
	// build is not limited.
	stuckAge   = 30 * time.Second
	stuckAfter = 10 * time.Minute
	// busyAge applies to a template with a younger running build. One pass then reads its versions
	// only once.
	busyAge = time.Second
)

type page struct {
	versions []coderd.TemplateVersion
	// archived are the archived versions, if all is true.
	archived []coderd.TemplateVersion
	all      bool
	// active may be an archived version, which is not in versions.
	active coderd.TemplateVersion
	// of is the template at the time of the read.
	of     coderd.Template
	readAt time.Time
}

func (p page) latest() coderd.TemplateVersion {
	if len(p.versions) == 0 {
		return p.active
	}
	return p.versions[len(p.versions)-1]
}

// size returns the approximate size of the versions in memory, in bytes.
func (p page) size() int64 {
	size := p.active.Size()
	for _, v := range slices.Concat(p.versions, p.archived) {
		size += v.Size()
	}
	return size
}

func (p page) find(id uuid.UUID) (coderd.TemplateVersion, bool) {
	i := slices.IndexFunc(p.versions, func(v coderd.TemplateVersion) bool { return v.ID == id })
	if i >= 0 {
		return p.versions[i], true
	}
	return p.active, id == p.active.ID
}

// has reports whether the version of a release that is open is known, if it was created.
func (p page) has(r *release) bool {
	if !r.open(p.active.ID) || r.VersionID == uuid.Nil {
		return true
	}
	_, found := p.find(r.VersionID)
	return found
}

const (
	// maxTemplates limits how many templates a cache remembers.
	maxTemplates = 10_000
	// maxCachedBytes limits the versions of all templates in the cache. A list has at most 16 MiB.
	maxCachedBytes = 64 << 20
)

// versionCache caches the lists of versions. Coder has no request for the versions of all templates,
// and a request per template in each pass would be too many.
type versionCache struct {
	clock clock.PassiveClock
	pages *lru.Cache

	// mu guards the changes of pages.
	mu    sync.Mutex
	bytes int64
}

func newVersionCache(c clock.PassiveClock) *versionCache {
	b := &versionCache{clock: c}
	b.pages = lru.NewWithEvictionFunc(maxTemplates, func(_ lru.Key, p any) { b.bytes -= p.(page).size() })
	return b
}

type pageKey struct {
	controlPlane types.NamespacedName
	template     uuid.UUID
}

// read returns the versions of a template. Fresh reports whether they were read from Coder just
// now. The requested release may be nil. Its version may have been created by another replica after
// the versions were cached, so they are read again if it is missing. If all is true, the archived
// versions are read too.
func (b *versionCache) read(
	ctx context.Context, connection connections.Connection, t coderd.Template, requested *release, all bool,
) (p page, fresh bool, err error) {
	key := pageKey{connection.ControlPlane, t.ID}
	cached, _ := b.pages.Get(key)
	if p, ok := cached.(page); ok && p.of.UpdatedAt.Equal(t.UpdatedAt) && p.of.ActiveVersionID == t.ActiveVersionID &&
		b.clock.Since(p.readAt) < b.maxAge(p) && p.has(requested) && (p.all || !all) {
		return p, false, nil
	}
	p = page{of: t, readAt: b.clock.Now()}
	if all {
		found, err := connection.Client.AllTemplateVersions(ctx, t.ID)
		if err != nil && isTemporary(err) {
			return p, true, err
		}
		// If they are more than can be read, only those are known that are archived from now on.
		p.all = true
		for _, v := range found {
			if v.Archived {
				p.archived = append(p.archived, v)
			}
		}
		p.versions = slices.DeleteFunc(found, func(v coderd.TemplateVersion) bool { return v.Archived })
	}
	if len(p.versions) == 0 {
		if p.versions, err = connection.Client.TemplateVersions(ctx, t.ID); err != nil {
			return p, true, err
		}
	}
	if i := slices.IndexFunc(p.versions, func(v coderd.TemplateVersion) bool { return v.ID == t.ActiveVersionID }); i >= 0 {
		p.active = p.versions[i]
	} else if p.active, err = connection.Client.TemplateVersion(ctx, t.ActiveVersionID); err != nil {
		// An archived version is not in the list.
		return p, true, err
	}
	b.keep(key, p)
	return p, true, nil
}

// keep caches the versions of a template, and drops those that were not used for the longest time.
func (b *versionCache) keep(key pageKey, p page) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pages.Remove(key)
	b.pages.Add(key, p)
	for b.bytes += p.size(); b.bytes > maxCachedBytes; {
		b.pages.RemoveOldest()
	}
}

func (b *versionCache) maxAge(p page) time.Duration {
	age := restAge
	for _, v := range append([]coderd.TemplateVersion{p.active}, p.versions...) {
		switch {
		case ended(v):
		case b.clock.Since(v.CreatedAt).Abs() < stuckAfter:
			return busyAge
		default:
			age = stuckAge
		}
	}
	return age
}

// forget drops the cached versions of a template.
func (b *versionCache) forget(controlPlane types.NamespacedName, template uuid.UUID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pages.Remove(pageKey{controlPlane, template})
}

// Statuses of a version's build.
const (
	buildPending   = "pending"
	buildSucceeded = "succeeded"
	buildFailed    = "failed"
	buildCanceled  = "canceled"
)

// failed reports whether the build has finished without success.
func failed(v coderd.TemplateVersion) bool {
	return v.Status == buildFailed || v.Status == buildCanceled
}

// ended reports whether the build has finished.
func ended(v coderd.TemplateVersion) bool { return failed(v) || v.Status == buildSucceeded }

// building reports whether the build has not finished.
func building(v coderd.TemplateVersion) bool { return !ended(v) }

// withCause returns the version with the error of Terraform, if its build failed and Coder does not
// report why.
func (k *Kind) withCause(ctx context.Context, connection connections.Connection, v coderd.TemplateVersion) coderd.TemplateVersion {
	if v.Status != buildFailed {
		return v
	}
	k.causes.Learn(ctx, v.ID, v.Error, v.UpdatedAt, connection.Client.VersionCause)
	if cause := k.causes.Get(v.ID); cause != "" {
		v.Error = cause
	}
	return v
}

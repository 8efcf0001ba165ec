package template

import (
	"context"

	"github.com/google/uuid"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// snapshot holds the data from which an object is built.
type snapshot struct {
	connection connections.Connection
	template   coderd.Template
	page       page
	// latest is the newest version, active or not.
	latest coderd.TemplateVersion
	intent intent
	record *metadata.Record
	// shown is the version whose source spec.files shows. If it was not created in Coder yet, it
	// has no ID and no status.
	shown  coderd.TemplateVersion
	source source
	// versions are those with an object of their own.
	versions *aggregationv1alpha1.TemplateVersions
}

// waits reports whether the requested version was not created in Coder yet.
func (s *snapshot) waits() bool {
	r := s.intent.Release
	return r.open(s.page.active.ID) && r.VersionID == uuid.Nil
}

// refused returns the reason why Coder does not accept the requested version, or "".
func (s *snapshot) refused() string {
	if !s.intent.Release.open(s.page.active.ID) {
		return ""
	}
	return s.intent.Release.Refused
}

// load reads the data that belongs to a template. The known source and the previous object may be nil.
func (k *Kind) load(
	ctx context.Context, connection connections.Connection, t coderd.Template, record *metadata.Record,
	known *source, old object,
) (*snapshot, error) {
	in, err := intentOf(record)
	if err != nil {
		return nil, err
	}
	p, fresh, err := k.versions.read(ctx, connection, t, in.Release, old == nil || old.Status.Versions == nil)
	if err != nil {
		return nil, err
	}
	s := &snapshot{connection: connection, template: t, page: p, latest: p.latest(), intent: in, record: record}
	if s.shown, err = shownOf(ctx, connection.Client, p, in.Release); err != nil {
		return nil, err
	}
	if s.shown.Status == buildPending && fresh {
		// Only a request for the single version reports whether a provisioner can build it.
		if v, err := connection.Client.TemplateVersion(ctx, s.shown.ID); err == nil {
			s.shown = v
		}
	}
	s.shown = k.withCause(ctx, connection, s.shown)
	if s.latest.ID == s.shown.ID {
		// The build may have ended since the list was read.
		s.latest = s.shown
	} else {
		s.latest = k.withCause(ctx, connection, s.latest)
	}
	if s.source, err = readSource(ctx, connection, s.shown.FileID, known, fresh); err != nil {
		return nil, err
	}
	s.versions = k.versionsOf(ctx, s, old)
	return s, nil
}

// shownOf returns the version whose source spec.files shows: the requested one, or the active one.
func shownOf(ctx context.Context, client *coderd.Client, p page, r *release) (coderd.TemplateVersion, error) {
	if !r.open(p.active.ID) {
		return p.active, nil
	}
	if r.VersionID == uuid.Nil {
		return coderd.TemplateVersion{Name: r.Name, FileID: r.FileID, UpdatedAt: p.active.UpdatedAt}, nil
	}
	if v, ok := p.find(r.VersionID); ok {
		return v, nil
	}
	// An archived version is not in the list.
	v, err := client.TemplateVersion(ctx, r.VersionID)
	if coderd.IsNotFound(err) {
		return p.active, nil
	}
	return v, err
}

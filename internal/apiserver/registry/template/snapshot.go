package template

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// readers bounds how many templates of one Coder are read at once.
const readers = 8

// snapshot is all that an object is made of.
type snapshot struct {
	connection connections.Connection
	template   coderd.Template
	versions   []coderd.TemplateVersion
	// active is the version from which workspaces are built, and shown is the
	// one whose source is the template's.
	active, shown coderd.TemplateVersion
	source        source
}

// latest is the newest version, active or not.
func (s snapshot) latest() coderd.TemplateVersion {
	if len(s.versions) == 0 {
		return s.active
	}
	return s.versions[len(s.versions)-1]
}

// load reads what belongs to a template.
func (b *backend) load(ctx context.Context, connection connections.Connection, t coderd.Template) (snapshot, error) {
	s := snapshot{connection: connection, template: t}
	var err error
	if s.versions, err = connection.Client.TemplateVersions(ctx, t.ID); err != nil {
		return s, err
	}
	if s.active, err = activeOf(ctx, connection.Client, t, s.versions); err != nil {
		return s, err
	}
	s.shown = shownOf(s.versions, s.active)
	s.source, err = b.sources.read(ctx, connection, s.shown.FileID)
	return s, err
}

// activeOf finds the active version. Archived ones are not among the versions.
func activeOf(ctx context.Context, client *coderd.Client, t coderd.Template, versions []coderd.TemplateVersion) (coderd.TemplateVersion, error) {
	i := slices.IndexFunc(versions, func(v coderd.TemplateVersion) bool { return v.ID == t.ActiveVersionID })
	if i >= 0 {
		return versions[i], nil
	}
	return client.TemplateVersion(ctx, t.ActiveVersionID)
}

// loadAll reads what belongs to the templates of one Coder. One that is deleted
// meanwhile is left out.
func (b *backend) loadAll(ctx context.Context, connection connections.Connection) ([]snapshot, error) {
	all, err := connection.Client.Templates(ctx)
	if err != nil {
		return nil, err
	}
	loaded := make([]*snapshot, len(all))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for i, t := range all {
		group.Go(func() error {
			s, err := b.load(ctx, connection, t)
			if coderd.IsNotFound(err) {
				return nil
			}
			loaded[i] = &s
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var out []snapshot
	for _, s := range loaded {
		if s != nil {
			out = append(out, *s)
		}
	}
	return out, nil
}

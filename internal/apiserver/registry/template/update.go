package template

import (
	"context"
	"maps"

	"github.com/google/uuid"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// Update implements readthrough.Backend. What Coder is likeliest to refuse goes
// first, so that a refused request changes nothing.
func (b *backend) Update(ctx context.Context, current, wanted *aggregationv1alpha1.CoderTemplate) (*aggregationv1alpha1.CoderTemplate, error) {
	connection, id, err := b.locate(ctx, current)
	if err != nil {
		return nil, err
	}
	if !maps.Equal(current.Spec.Files, wanted.Spec.Files) {
		if err := b.changeFiles(ctx, connection, id, wanted); err != nil {
			return nil, err
		}
	}
	if current.Spec.VersionID != wanted.Spec.VersionID {
		if err := changeActive(ctx, connection, id, wanted); err != nil {
			return nil, err
		}
	}
	if edit := editOf(current.Spec, wanted.Spec); edit != (coderd.TemplateEdit{}) {
		if _, err := connection.Client.UpdateTemplate(ctx, id, edit); err != nil {
			return nil, fault(current.Name, err)
		}
	}
	return b.Get(ctx, current.Namespace, current.Name)
}

// changeFiles makes a version of new files, to be promoted when it is built.
func (b *backend) changeFiles(
	ctx context.Context, connection connections.Connection, id uuid.UUID, wanted *aggregationv1alpha1.CoderTemplate,
) error {
	client := connection.Client
	t, err := client.Template(ctx, id)
	if err != nil {
		return fault(wanted.Name, err)
	}
	s, err := b.load(ctx, connection, t)
	if err != nil {
		return fault(wanted.Name, err)
	}
	var base *coderd.Archive
	if s.source.problem == "" {
		if base, err = client.DownloadArchive(ctx, s.shown.FileID); err != nil {
			return fault(wanted.Name, err)
		}
	}
	file, err := b.upload(ctx, connection, wanted.Name, wanted.Spec.Files, base)
	if err != nil || file == s.shown.FileID {
		return err
	}
	_, err = client.CreateTemplateVersion(ctx, t.OrganizationID, coderd.NewTemplateVersion{TemplateID: &id, FileID: file, Message: messagePending})
	if err != nil {
		return fault(wanted.Name, err)
	}
	b.promoter.watch(connection.ControlPlane, id)
	return nil
}

// changeActive makes an existing version active. A version that was to become
// active, or failed to, is no longer wanted then.
func changeActive(
	ctx context.Context, connection connections.Connection, id uuid.UUID, wanted *aggregationv1alpha1.CoderTemplate,
) error {
	client := connection.Client
	version, err := promotable(ctx, connection, id, wanted)
	if err != nil {
		return err
	}
	versions, err := client.TemplateVersions(ctx, id)
	if err != nil {
		return fault(wanted.Name, err)
	}
	for _, v := range versions {
		if v.ID == version.ID || !isWanted(v) {
			continue
		}
		if err := client.SetVersionMessage(ctx, v.ID, messageSuperseded); err != nil {
			return fault(wanted.Name, err)
		}
	}
	return fault(wanted.Name, client.SetActiveVersion(ctx, id, version.ID))
}

// editOf gives the display fields that change.
func editOf(was, wanted aggregationv1alpha1.CoderTemplateSpec) coderd.TemplateEdit {
	var edit coderd.TemplateEdit
	for _, f := range []struct {
		was, wanted string
		edit        **string
	}{
		{was.DisplayName, wanted.DisplayName, &edit.DisplayName},
		{was.Description, wanted.Description, &edit.Description},
		{was.Icon, wanted.Icon, &edit.Icon},
	} {
		if f.was != f.wanted {
			*f.edit = &f.wanted
		}
	}
	return edit
}

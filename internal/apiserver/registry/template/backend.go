package template

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/fleet"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectname"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/readthrough"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// backend implements readthrough.Backend over Coder.
type backend struct {
	provider connections.Provider
	promoter *Promoter
	sources  *sources
}

var _ readthrough.Backend[*aggregationv1alpha1.CoderTemplate] = (*backend)(nil)

var (
	resource = aggregationv1alpha1.Resource("codertemplates")
	kind     = aggregationv1alpha1.GroupVersion.WithKind("CoderTemplate").GroupKind()
)

// fault gives the Kubernetes form of an error about a template.
func fault(name string, err error) error {
	return coderfault.Subject{
		Kind: kind, Resource: resource, Name: name,
		Fields: map[string]*field.Path{
			"name":                namePath,
			"display_name":        specPath.Child("displayName"),
			"description":         specPath.Child("description"),
			"icon":                specPath.Child("icon"),
			"template_version_id": versionPath,
			"file_id":             filesPath,
			"file":                filesPath,
		},
	}.Status(err)
}

// Get implements readthrough.Backend.
func (b *backend) Get(ctx context.Context, namespace, name string) (*aggregationv1alpha1.CoderTemplate, error) {
	parsed, err := objectname.ParseTemplate(name)
	if err != nil {
		return nil, apierrors.NewNotFound(resource, name)
	}
	connection, err := fleet.Find(ctx, b.provider, namespace, parsed.Prefix)
	if err != nil {
		return nil, err
	}
	if connection == nil {
		return nil, apierrors.NewNotFound(resource, name)
	}
	organization, err := connection.Client.OrganizationByName(ctx, parsed.Organization)
	if err != nil {
		return nil, fault(name, err)
	}
	// Coder knows organizations by further names, an object has one.
	if !strings.EqualFold(organization.Name, parsed.Organization) {
		return nil, apierrors.NewNotFound(resource, name)
	}
	found, err := connection.Client.TemplateByName(ctx, organization.ID, parsed.Name)
	if err != nil {
		return nil, fault(name, err)
	}
	return b.object(ctx, *connection, found)
}

func (b *backend) object(ctx context.Context, connection connections.Connection, t coderd.Template) (*aggregationv1alpha1.CoderTemplate, error) {
	s, err := b.load(ctx, connection, t)
	if err != nil {
		return nil, fault(t.Name, err)
	}
	return fromCoder(s)
}

// List implements readthrough.Backend.
func (b *backend) List(ctx context.Context, namespace string) ([]*aggregationv1alpha1.CoderTemplate, error) {
	return fleet.List(ctx, b.provider, namespace,
		func(ctx context.Context, connection connections.Connection) ([]*aggregationv1alpha1.CoderTemplate, error) {
			all, err := b.loadAll(ctx, connection)
			if err != nil {
				return nil, err
			}
			out := make([]*aggregationv1alpha1.CoderTemplate, 0, len(all))
			for _, s := range all {
				tmpl, err := fromCoder(s)
				if err != nil {
					return nil, err
				}
				out = append(out, tmpl)
			}
			return out, nil
		})
}

// Create implements readthrough.Backend. It does not wait for the build: the
// template exists at once, and its conditions tell of the build.
func (b *backend) Create(ctx context.Context, obj *aggregationv1alpha1.CoderTemplate) (*aggregationv1alpha1.CoderTemplate, error) {
	p, err := b.planCreate(ctx, obj)
	if err != nil {
		return nil, err
	}
	client := p.connection.Client
	if len(obj.Spec.Files) > 0 {
		file, err := b.upload(ctx, p.connection, obj.Name, obj.Spec.Files, nil)
		if err != nil {
			return nil, err
		}
		version, err := client.CreateTemplateVersion(ctx, p.organization.ID, coderd.NewTemplateVersion{FileID: file, Message: messageFirst})
		if err != nil {
			return nil, fault(obj.Name, err)
		}
		p.request.VersionID = version.ID
	}
	created, err := client.CreateTemplate(ctx, p.organization.ID, p.request)
	if err != nil {
		return nil, fault(obj.Name, err)
	}
	return b.object(ctx, p.connection, created)
}

// upload gives Coder the files. Coder keeps equal archives once.
func (b *backend) upload(
	ctx context.Context, connection connections.Connection, name string, files map[string]string, base *coderd.Archive,
) (uuid.UUID, error) {
	packed, err := coderd.PackFiles(files, base)
	if err != nil {
		return uuid.Nil, apierrors.NewInvalid(kind, name, filesProblems(err))
	}
	id, err := connection.Client.UploadArchive(ctx, packed)
	return id, fault(name, err)
}

// Delete implements readthrough.Backend.
func (b *backend) Delete(ctx context.Context, current *aggregationv1alpha1.CoderTemplate) (*aggregationv1alpha1.CoderTemplate, error) {
	connection, id, err := b.locate(ctx, current)
	if err != nil {
		return nil, err
	}
	err = connection.Client.DeleteTemplate(ctx, id)
	if coderd.IsInvalid(err) {
		// Coder says 400 while there are workspaces of the template.
		return nil, apierrors.NewConflict(resource, current.Name, fmt.Errorf("delete its workspaces first: %w", err))
	}
	if err != nil {
		return nil, fault(current.Name, err)
	}
	return current, nil
}

// locate finds the connection and the id in Coder of an object that was read.
func (b *backend) locate(ctx context.Context, tmpl *aggregationv1alpha1.CoderTemplate) (connections.Connection, uuid.UUID, error) {
	name, err := objectname.ParseTemplate(tmpl.Name)
	if err != nil {
		return connections.Connection{}, uuid.Nil, apierrors.NewNotFound(resource, tmpl.Name)
	}
	connection, err := fleet.Find(ctx, b.provider, tmpl.Namespace, name.Prefix)
	if err != nil {
		return connections.Connection{}, uuid.Nil, err
	}
	id, parseErr := uuid.Parse(string(tmpl.UID))
	if connection == nil || parseErr != nil {
		return connections.Connection{}, uuid.Nil, apierrors.NewConflict(resource, tmpl.Name, errors.New("its control plane is gone"))
	}
	return *connection, id, nil
}

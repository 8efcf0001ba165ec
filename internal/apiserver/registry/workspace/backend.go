package workspace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/google/uuid"

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
	clock    clock.PassiveClock
}

var _ readthrough.Backend[*aggregationv1alpha1.CoderWorkspace] = (*backend)(nil)

var (
	resource = aggregationv1alpha1.Resource("coderworkspaces")
	kind     = aggregationv1alpha1.GroupVersion.WithKind("CoderWorkspace").GroupKind()
)

// fault gives the Kubernetes form of an error about a workspace.
func fault(name string, err error) error {
	return coderfault.Subject{
		Kind: kind, Resource: resource, Name: name,
		Fields: map[string]*field.Path{
			"name":                namePath,
			"template_id":         specPath.Child("templateName"),
			"template_version_id": specPath.Child("templateVersionID"),
			"ttl_ms":              specPath.Child("ttlMillis"),
			"schedule":            specPath.Child("autostartSchedule"),
			"autostart_schedule":  specPath.Child("autostartSchedule"),
		},
	}.Status(err)
}

// Get implements readthrough.Backend.
func (b *backend) Get(ctx context.Context, namespace, name string) (*aggregationv1alpha1.CoderWorkspace, error) {
	parsed, err := objectname.ParseWorkspace(name)
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
	return b.read(ctx, *connection, parsed)
}

// read reads what a name stands for. Coder finds a workspace by its owner and
// name alone, so the organization is compared here.
func (b *backend) read(ctx context.Context, connection connections.Connection, name objectname.Workspace) (*aggregationv1alpha1.CoderWorkspace, error) {
	w, err := connection.Client.WorkspaceByName(ctx, name.Owner, name.Name)
	if err != nil {
		return nil, fault(name.String(), err)
	}
	if w.LatestBuild.Status == statusDeleted || !strings.EqualFold(w.OrganizationName, name.Organization) {
		return nil, apierrors.NewNotFound(resource, name.String())
	}
	return fromCoder(connection, w)
}

// List implements readthrough.Backend.
func (b *backend) List(ctx context.Context, namespace string) ([]*aggregationv1alpha1.CoderWorkspace, error) {
	return fleet.List(ctx, b.provider, namespace, listOne)
}

func listOne(ctx context.Context, connection connections.Connection) ([]*aggregationv1alpha1.CoderWorkspace, error) {
	all, err := connection.Client.Workspaces(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]*aggregationv1alpha1.CoderWorkspace, 0, len(all))
	for _, w := range all {
		ws, err := fromCoder(connection, w)
		if err != nil {
			return nil, err
		}
		out = append(out, ws)
	}
	return out, nil
}

// Create implements readthrough.Backend.
func (b *backend) Create(ctx context.Context, obj *aggregationv1alpha1.CoderWorkspace) (*aggregationv1alpha1.CoderWorkspace, error) {
	p, err := b.plan(ctx, obj)
	if err != nil {
		return nil, err
	}
	w, err := p.connection.Client.CreateWorkspace(ctx, p.name.Owner, p.request)
	if err != nil {
		return nil, fault(obj.Name, err)
	}
	return fromCoder(p.connection, w)
}

// Update implements readthrough.Backend. What Coder can refuse for its content
// goes first, and the build, which cannot be taken back, goes last.
func (b *backend) Update(ctx context.Context, current, wanted *aggregationv1alpha1.CoderWorkspace) (*aggregationv1alpha1.CoderWorkspace, error) {
	connection, id, err := b.locate(ctx, current)
	if err != nil {
		return nil, err
	}
	was, spec := current.Spec, wanted.Spec
	if !ptr.Equal(was.TTLMillis, spec.TTLMillis) {
		if err := connection.Client.SetTTL(ctx, id, durationOf(spec.TTLMillis)); err != nil {
			return nil, fault(current.Name, err)
		}
	}
	if !ptr.Equal(was.AutostartSchedule, spec.AutostartSchedule) {
		if err := connection.Client.SetAutostart(ctx, id, spec.AutostartSchedule); err != nil {
			return nil, fault(current.Name, err)
		}
	}
	if !ptr.Equal(was.Running, spec.Running) {
		transition := coderd.TransitionStop
		if *spec.Running {
			transition = coderd.TransitionStart
		}
		if err := b.build(ctx, connection, current, id, transition); err != nil {
			return nil, err
		}
	}
	return b.Get(ctx, current.Namespace, current.Name)
}

// Delete implements readthrough.Backend.
func (b *backend) Delete(ctx context.Context, current *aggregationv1alpha1.CoderWorkspace) (*aggregationv1alpha1.CoderWorkspace, error) {
	connection, id, err := b.locate(ctx, current)
	if err != nil {
		return nil, err
	}
	if err := b.build(ctx, connection, current, id, coderd.TransitionDelete); err != nil {
		return nil, err
	}
	now, err := b.Get(ctx, current.Namespace, current.Name)
	if !apierrors.IsNotFound(err) {
		return now, err
	}
	// It was deleted before it could be read again.
	gone := current.DeepCopy()
	gone.DeletionTimestamp = ptr.To(metav1.NewTime(b.clock.Now()))
	gone.DeletionGracePeriodSeconds = ptr.To[int64](0)
	return gone, nil
}

func (b *backend) build(
	ctx context.Context, connection connections.Connection, ws *aggregationv1alpha1.CoderWorkspace, id uuid.UUID, transition coderd.Transition,
) error {
	err := connection.Client.Build(ctx, id, transition)
	if coderd.IsConflict(err) {
		return apierrors.NewConflict(resource, ws.Name, fmt.Errorf(
			"the workspace cannot %s while another build of it is under way (it is %s); try again when that has ended",
			transition, strings.ToLower(ws.Status.Phase)))
	}
	return fault(ws.Name, err)
}

// locate finds the connection and the id in Coder of an object that was read.
func (b *backend) locate(ctx context.Context, ws *aggregationv1alpha1.CoderWorkspace) (connections.Connection, uuid.UUID, error) {
	name, err := objectname.ParseWorkspace(ws.Name)
	if err != nil {
		return connections.Connection{}, uuid.Nil, apierrors.NewNotFound(resource, ws.Name)
	}
	connection, err := fleet.Find(ctx, b.provider, ws.Namespace, name.Prefix)
	if err != nil {
		return connections.Connection{}, uuid.Nil, err
	}
	id, parseErr := uuid.Parse(string(ws.UID))
	if connection == nil || parseErr != nil {
		return connections.Connection{}, uuid.Nil, apierrors.NewConflict(resource, ws.Name, errors.New("its control plane is gone"))
	}
	return *connection, id, nil
}

func durationOf(millis *int64) *time.Duration {
	if millis == nil {
		return nil
	}
	return ptr.To(time.Duration(*millis) * time.Millisecond)
}

package workspace

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/acting"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectname"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// Write implements records.Writer.
func (k *Kind) Write(ctx context.Context, key string, current, wanted records.Object) (records.Object, error) {
	is, _ := current.(*aggregationv1alpha1.CoderWorkspace)
	shall, _ := wanted.(*aggregationv1alpha1.CoderWorkspace)
	var out *aggregationv1alpha1.CoderWorkspace
	var err error
	switch {
	case is == nil && shall == nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("a write of %s that wants nothing of nothing", key))
	case is == nil:
		out, err = k.create(ctx, shall)
	case shall == nil:
		out, err = k.update(ctx, is, k.deleted(is))
	default:
		out, err = k.update(ctx, is, shall)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// deleted returns the object as a client would send it to delete it.
func (k *Kind) deleted(ws *aggregationv1alpha1.CoderWorkspace) *aggregationv1alpha1.CoderWorkspace {
	out := ws.DeepCopy()
	if out.DeletionTimestamp == nil {
		out.DeletionTimestamp = ptr.To(metav1.NewTime(k.config.Clock.Now()))
		out.DeletionGracePeriodSeconds = ptr.To[int64](0)
	}
	return out
}

// CheckCreate implements registry.Checker.
func (k *Kind) CheckCreate(ctx context.Context, obj runtime.Object) error {
	ws := obj.(*aggregationv1alpha1.CoderWorkspace)
	ctx, _, err := k.beginCreate(ctx, ws)
	if err != nil {
		return err
	}
	p, err := k.plan(ctx, ws)
	if err != nil {
		return err
	}
	return acting.May(ctx, p.connection.Client, subjectOf(ws.Name, p.name.Owner), coderd.Permission{
		Resource: "workspace", Action: mayCreate, Owner: p.owner.ID, Organization: p.organization.ID,
	})
}

// CheckUpdate implements registry.Checker.
func (k *Kind) CheckUpdate(ctx context.Context, wanted, current runtime.Object) error {
	shall, is := wanted.(*aggregationv1alpha1.CoderWorkspace), current.(*aggregationv1alpha1.CoderWorkspace)
	d := differenceOf(is.Spec, shall.Spec)
	ctx, as, err := k.begin(ctx, is, shall, !d.none())
	if err != nil || d.none() {
		return err
	}
	p, err := k.prepare(ctx, is, shall, d)
	if err != nil || as == nil {
		return err
	}
	return p.mayLater(ctx)
}

// locate returns the connection of an object and its ID in Coder.
func (k *Kind) locate(ctx context.Context, ws *aggregationv1alpha1.CoderWorkspace) (connections.Connection, uuid.UUID, error) {
	name, err := objectname.ParseWorkspace(objectname.WithoutID(ws.Name))
	if err != nil {
		return connections.Connection{}, uuid.Nil, apierrors.NewNotFound(resource, ws.Name)
	}
	connection, err := registry.Connection(ctx, k.config.Connections, ws.Namespace, name.Prefix)
	if err != nil {
		return connections.Connection{}, uuid.Nil, err
	}
	id, parseErr := uuid.Parse(string(ws.UID))
	if connection == nil || parseErr != nil {
		return connections.Connection{}, uuid.Nil, apierrors.NewConflict(resource, ws.Name, errors.New("its control plane is gone"))
	}
	return *connection, id, nil
}

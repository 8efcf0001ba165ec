package workspace

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// create creates a workspace. It first records the data that Coder cannot store. If the process
// ends before Coder responds, the record is matched with the workspace by name.
func (k *Kind) create(ctx context.Context, wanted *aggregationv1alpha1.CoderWorkspace) (*aggregationv1alpha1.CoderWorkspace, error) {
	ctx, as, err := k.beginCreate(ctx, wanted)
	if err != nil {
		return nil, err
	}
	p, err := k.plan(ctx, wanted)
	if err != nil {
		return nil, err
	}
	n := notesForNew(wanted.Spec)
	n.By = as
	record := &metadata.Record{ControlPlane: p.connection.ControlPlane, Kind: kindName, Name: wanted.Name}
	metadata.Keep(wanted, record)
	if err := n.into(record); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	pending, err := k.putPending(ctx, record)
	if err != nil {
		return nil, err
	}
	w, err := p.connection.Client.CreateWorkspace(ctx, p.name.Owner, p.request)
	if err != nil {
		k.forgetPending(ctx, pending, err)
		return nil, coderfault.Subject{Kind: kind, Resource: resource, Name: wanted.Name, Fields: pathsOf(err)}.Created(err)
	}
	k.hint(p.connection.ControlPlane, w.ID)
	if n.Parameters != nil {
		n.Values = &buildValues{Build: w.LatestBuild.ID, Values: map[string]string{}}
		for _, v := range wanted.Spec.Parameters {
			n.Values.Values[v.Name] = v.Value
		}
	}
	pending = pending.DeepCopy()
	if err := n.into(pending); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	bound, err := k.config.Records.Bind(ctx, pending, types.UID(w.ID.String()))
	if err != nil {
		return nil, unrecorded(wanted.Name, fmt.Errorf("the workspace was created, but: %w", err))
	}
	return k.object(p.connection, w, bound, n, nil), nil
}

// notesForNew returns the notes of a new workspace. Coder starts each workspace that it creates, so
// other wishes, such as running=false, are applied after that build.
func notesForNew(spec aggregationv1alpha1.CoderWorkspaceSpec) notes {
	var n notes
	n.setSpec(spec)
	var c change
	if !ptr.Deref(spec.Running, true) {
		c.Running = ptr.To(false)
	}
	if ptr.Deref(spec.Dormant, false) {
		c.Dormant = ptr.To(true)
	}
	if !c.empty() {
		n.Change = &c
	}
	return n
}

// forgetPending removes the record of a creation that Coder refused. If the creation may have
// succeeded, the record stays, and the mirror resolves it.
func (k *Kind) forgetPending(ctx context.Context, pending *metadata.Record, refusal error) {
	if coderd.IsUnreachable(refusal) || pending.Version == "" {
		return
	}
	if err := k.config.Records.Delete(context.WithoutCancel(ctx), pending); err != nil {
		log.FromContext(ctx).Error(err, "Leaving the record of a workspace that was not created", "workspace", pending.Name)
	}
}

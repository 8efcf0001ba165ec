package workspace

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// update decides what a change of a workspace means, applies it in Coder, and then records the data
// that Coder cannot store.
func (k *Kind) update(ctx context.Context, current, wanted object) (object, error) {
	ctx, d, err := k.decide(ctx, current, wanted)
	if err != nil {
		return nil, err
	}
	if !d.sends() {
		return k.keep(ctx, d)
	}
	k.Hint(d.connection.ControlPlane, d.workspace.ID)
	if err := k.apply(ctx, d); err != nil {
		return nil, fault(d.name, err)
	}
	record, err := k.save(ctx, d)
	if err != nil {
		return nil, err
	}
	if d.workspace, err = d.connection.Client.Workspace(ctx, d.workspace.ID); err != nil {
		return nil, fault(d.name, err)
	}
	k.tryUsernames(ctx, d.connection, d.workspace)
	if record.DeletionDue() {
		return k.destroy(ctx, d.subject, record, d.intent, current)
	}
	return k.object(d.connection, d.workspace, record, d.intent, current), nil
}

// apply applies a decision in Coder.
func (k *Kind) apply(ctx context.Context, d *decision) error {
	if err := d.applySettings(ctx); err != nil {
		return err
	}
	switch {
	case d.restart:
		return k.restart(ctx, d)
	case d.change.empty():
		return nil
	}
	d.intent.Change = &d.change
	if d.waits {
		return nil
	}
	var err error
	if d.intent, err = d.start(ctx, d.intent, d.plan); err == nil && d.intent.Change != nil {
		// Another build was started since the workspace was read.
		err = d.may(ctx)
	}
	return err
}

// applySettings applies the changes that need no build. It skips values that Coder already has.
func (d *decision) applySettings(ctx context.Context) error {
	client, w, spec := d.connection.Client, d.workspace, d.wanted.Spec
	if ttl := registry.Millis(spec.TTLMillis); d.ttl && ptr.Deref(w.TTL, 0) != ptr.Deref(ttl, 0) {
		if err := client.SetTTL(ctx, w.ID, ttl); err != nil {
			return err
		}
	}
	if d.autostart && ptr.Deref(w.Autostart, "") != ptr.Deref(spec.AutostartSchedule, "") {
		if err := client.SetAutostart(ctx, w.ID, spec.AutostartSchedule); err != nil {
			return err
		}
	}
	if d.updates && w.AutomaticUpdates != spec.AutomaticUpdates {
		if err := client.SetAutomaticUpdates(ctx, w.ID, spec.AutomaticUpdates); err != nil {
			return err
		}
	}
	if len(d.sharing) > 0 {
		if err := client.ShareWorkspace(ctx, w.ID, d.sharing); err != nil {
			return err
		}
	}
	if d.dormant && w.Dormant != *spec.Dormant {
		return client.SetDormant(ctx, w.ID, *spec.Dormant)
	}
	return nil
}

// start starts the build that applies the waiting change. The change keeps waiting if another build
// is running.
func (s subject) start(ctx context.Context, n intent, t buildPlan) (intent, error) {
	if !t.needed {
		n.Change = nil
		return n, nil
	}
	build, err := s.connection.Client.Build(ctx, s.workspace.ID, t.request)
	if coderd.IsConflict(err) {
		return n, nil
	}
	if err != nil {
		return n, err
	}
	n.Change = nil
	if len(n.Parameters) > 0 && t.values != nil {
		n.Values = &buildValues{Build: build.ID, Values: t.values}
	}
	return n, nil
}

// restart stops the workspace now, and records that it must be started afterwards. It writes the
// record first: otherwise a workspace could stay stopped if the process ends after the stop.
func (k *Kind) restart(ctx context.Context, d *decision) error {
	d.intent.Restart = d.workspace.LatestBuild.Number
	if !d.change.empty() {
		d.intent.Change = &d.change
	}
	_, err := k.save(ctx, d)
	if err == nil {
		d.intent, _, err = k.settleBuild(ctx, d.subject, d.intent)
	}
	return err
}

// keep records a change that is not sent to Coder. It calls Coder only for a deletion that is due.
func (k *Kind) keep(ctx context.Context, d *decision) (object, error) {
	record, err := k.save(ctx, d)
	if err != nil {
		return nil, err
	}
	if record.DeletionDue() {
		if out := k.tryDestroy(ctx, d, record); out != nil {
			return out, nil
		}
	}
	return k.relabelled(d.current, d.wanted, record, d.intent), nil
}

// relabelled returns the current object with another record. It is used for changes that are not
// sent to Coder.
func (k *Kind) relabelled(
	current, wanted object, record *metadata.Record, n intent,
) object {
	out := current.DeepCopy()
	overlay(out, metadata.ControlPlaneOf(current), record)
	out.Spec, out.Generation = *wanted.Spec.DeepCopy(), wanted.Generation
	out.Status.ObservedGeneration = observedGeneration(out.Generation, n)
	out.Status.Conditions = k.conditions(situationOf(out, record, n, time.Time{}), current)
	if c := registry.UnreachableCondition(current.Status.Conditions); c != nil {
		meta.SetStatusCondition(&out.Status.Conditions, *c)
	}
	if c := meta.FindStatusCondition(current.Status.Conditions, aggregationv1alpha1.ConditionTruncated); c != nil {
		meta.SetStatusCondition(&out.Status.Conditions, *c)
	}
	return out
}

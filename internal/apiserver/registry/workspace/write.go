package workspace

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// Write implements records.Writer.
func (k *Kind) Write(ctx context.Context, key string, current, wanted records.Object) (records.Object, error) {
	return registry.Operations[object]{
		Create: k.create,
		Update: k.update,
		Delete: func(ctx context.Context, was object) (object, error) { return k.update(ctx, was, k.Deleted(was)) },
	}.Write(ctx, key, current, wanted)
}

// CheckCreate implements registry.Checker.
func (k *Kind) CheckCreate(ctx context.Context, obj runtime.Object) error {
	ws := obj.(object)
	ctx, _, p, err := k.beginCreate(ctx, ws)
	if err != nil {
		return err
	}
	return impersonation.May(ctx, p.connection.Client, subjectOf(ws.Name, coderd.Workspace{}), coderd.Permission{
		Resource: k.InCoder, Action: "create", Owner: p.owner.ID, Organization: p.organization.ID,
	})
}

// CheckUpdate implements registry.Checker.
func (k *Kind) CheckUpdate(ctx context.Context, wanted, current runtime.Object) error {
	ctx, d, err := k.decide(ctx, current.(object), wanted.(object))
	if err == nil && d.sends() {
		err = d.may(ctx)
	}
	return err
}

// CheckDelete implements registry.Checker.
func (k *Kind) CheckDelete(ctx context.Context, obj runtime.Object) error {
	ws := obj.(object)
	return k.CheckUpdate(ctx, k.Deleted(ws), ws)
}

// subjectOf returns the impersonation.Subject of a workspace that a caller wants to change. w is the
// workspace as Coder reports it for this change. It is empty if Coder cannot be asked.
func subjectOf(name string, w coderd.Workspace) impersonation.Subject {
	return impersonation.Subject{Resource: resource, Name: name, Owner: &impersonation.Owner{ID: w.OwnerID, Username: w.OwnerName}}
}

// client returns the client for the caller's sessions in a workspace and for reading its logs.
func (k *Kind) client(ctx context.Context, ws registry.Found[object]) (*coderd.Client, error) {
	return k.Actors.Client(ctx, ws.Connection, subjectOf(ws.Object.Name, coderd.Workspace{}))
}

// maySession returns an error with a readable reason if the user may not open a session in the
// workspace.
func maySession(ctx context.Context, ws registry.Found[object], client *coderd.Client) error {
	name := ws.Object.Name
	if client == ws.Connection.Client {
		return nil
	}
	allowed, err := client.May(ctx, coderd.Permission{Resource: info.InCoder, Action: "ssh", ID: ws.ID})
	if err == nil && !allowed {
		err = &coderd.Error{Op: "opening a session in workspace " + name, StatusCode: 403, Message: "the user has no permission to open a session in this workspace", ActedAs: client.ActsAs()}
	}
	return fault(name, err)
}

// save records the data that Coder cannot store, and returns the record. It retries once if the
// record was changed concurrently.
func (k *Kind) save(ctx context.Context, d *decision) (*metadata.Record, error) {
	for retried := false; ; retried = true {
		record := k.RecordOf(d.current)
		deleted := record.DeletionTimestamp != nil
		metadata.Keep(d.wanted, record)
		if d.wanted.DeletionGracePeriodSeconds == nil && !deleted {
			// The deletion was only started in Coder. If it fails, the workspace stays.
			record.DeletionTimestamp = nil
		}
		saved, err := k.Save(ctx, record, nil, d.intent.stored())
		if !apierrors.IsConflict(err) || retried {
			return saved, unrecorded(d.name, err)
		}
	}
}

func (k *Kind) saveIntent(ctx context.Context, record *metadata.Record, n intent) (*metadata.Record, error) {
	saved, err := k.Save(ctx, record, nil, n.stored())
	if err != nil {
		return nil, fmt.Errorf("storing the pending change of workspace %q: %w", record.Name, err)
	}
	return saved, nil
}

// update decides what a change of a workspace means, applies it in Coder, and then records the data
// that Coder cannot store.
func (k *Kind) update(ctx context.Context, current, wanted object) (object, error) {
	ctx, d, err := k.decide(ctx, current, wanted)
	if err != nil {
		return nil, err
	}
	if !d.sends() {
		// Coder is called only for a deletion that is due.
		record, err := k.save(ctx, d)
		if err != nil {
			return nil, err
		}
		if record.DeletionDue() {
			if out := k.tryDestroy(ctx, d, record); out != nil {
				return out, nil
			}
		}
		return k.relabelled(current, d.wanted, record, d.intent), nil
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

func (k *Kind) apply(ctx context.Context, d *decision) error {
	if err := d.applySettings(ctx); err != nil {
		return err
	}
	switch {
	case d.restart:
		// The record is written first: otherwise a workspace could stay stopped if the process ends after the stop.
		d.intent.Restart = d.workspace.LatestBuild.Number
		if !d.change.empty() {
			d.intent.Change = &d.change
		}
		_, err := k.save(ctx, d)
		if err == nil {
			d.intent, _, err = k.settleBuild(ctx, d.subject, d.intent)
		}
		return err
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

// relabelled returns the current object with another record. It is used for changes that are not
// sent to Coder.
func (k *Kind) relabelled(current, wanted object, record *metadata.Record, n intent) object {
	out := current.DeepCopy()
	overlay(out, metadata.ControlPlaneOf(current), record)
	out.Spec, out.Generation = *wanted.Spec.DeepCopy(), wanted.Generation
	out.Status.ObservedGeneration = observedGeneration(out.Generation, n)
	out.Status.Conditions = k.conditions(out, record, n, time.Time{}, current)
	if c := registry.UnreachableCondition(current.Status.Conditions); c != nil {
		meta.SetStatusCondition(&out.Status.Conditions, *c)
	}
	if c := meta.FindStatusCondition(current.Status.Conditions, aggregationv1alpha1.ConditionTruncated); c != nil {
		meta.SetStatusCondition(&out.Status.Conditions, *c)
	}
	return out
}

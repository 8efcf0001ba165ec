package workspace

import (
	"context"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// prepared is a validated update.
type prepared struct {
	subject
	id uuid.UUID
	// notes contain the wanted parameters and preset. change is the waiting change with the new one
	// on top.
	notes  notes
	change change
	plan   buildPlan
}

// prepare reads the data that an update needs from Coder, and validates the update. It only reads.
// Errors are API statuses.
func (k *Kind) prepare(ctx context.Context, current, wanted object, d difference) (prepared, error) {
	var p prepared
	var err error
	if p.connection, p.id, err = k.Locate(ctx, current); err != nil {
		return p, err
	}
	p.name = current.Name
	if p.workspace, err = p.connection.Client.Workspace(ctx, p.id); err != nil {
		return p, fault(current.Name, err)
	}
	if p.notes, err = notesOf(k.RecordOf(current)); err != nil {
		return p, unrecorded(current.Name, err)
	}
	p.notes.setSpec(wanted.Spec)
	if d.change.empty() {
		return p, nil
	}
	p.change = d.change.merge(p.notes.Change)
	if p.notes.Change == nil || !p.notes.waits() {
		p.change.Observed = current.Status.ObservedGeneration
	}
	to := p.subject
	to.workspace.AutomaticUpdates = wanted.Spec.AutomaticUpdates
	p.plan, err = k.planBuild(ctx, to, p.notes, p.change)
	return p, fault(current.Name, err)
}

// update applies a change in Coder, and then records the data that Coder cannot store.
func (k *Kind) update(ctx context.Context, current, wanted object) (object, error) {
	action, wanted := takeAction(wanted)
	d := differenceOf(current.Spec, wanted.Spec)
	action.into(&d)
	ctx, as, err := k.BeginChange(ctx, current, wanted, subjectOf(current.Name, ownerOf(current)), !d.none())
	if err != nil {
		return nil, err
	}
	if d.none() {
		return k.keep(ctx, current, wanted, as)
	}
	p, err := k.prepare(ctx, current, wanted, d)
	if err != nil {
		return nil, err
	}
	if !d.change.empty() || d.restart {
		// Any other update keeps the initiator of a change that waits.
		p.notes.By = as
	}
	if registry.Deletes(ctx, current, wanted) {
		p.notes.delete(as)
	}
	k.Hint(p.connection.ControlPlane, p.id)
	if err := p.applySettings(ctx, wanted.Spec, d); err != nil {
		return nil, fault(current.Name, err)
	}
	switch {
	case d.restart:
		if err = k.restart(ctx, current, wanted, &p); err != nil {
			return nil, err
		}
	case !d.change.empty():
		if err = p.build(ctx); err != nil {
			return nil, fault(current.Name, err)
		}
	}
	record, err := k.save(ctx, current, wanted, p.notes)
	if err != nil {
		return nil, err
	}
	if p.workspace, err = p.connection.Client.Workspace(ctx, p.id); err != nil {
		return nil, fault(current.Name, err)
	}
	if record.DeletionDue() {
		return k.destroy(ctx, p.subject, record, p.notes, current)
	}
	return k.object(p.connection, p.workspace, record, p.notes, current), nil
}

// applySettings applies the changes that need no build. It skips values that Coder already has.
func (p *prepared) applySettings(ctx context.Context, spec aggregationv1alpha1.CoderWorkspaceSpec, d difference) error {
	client, w := p.connection.Client, &p.workspace
	if ttl := registry.Millis(spec.TTLMillis); d.ttl && ptr.Deref(w.TTL, 0) != ptr.Deref(ttl, 0) {
		if err := client.SetTTL(ctx, p.id, ttl); err != nil {
			return err
		}
	}
	if d.autostart && ptr.Deref(w.Autostart, "") != ptr.Deref(spec.AutostartSchedule, "") {
		if err := client.SetAutostart(ctx, p.id, spec.AutostartSchedule); err != nil {
			return err
		}
	}
	if d.updates && w.AutomaticUpdates != spec.AutomaticUpdates {
		if err := client.SetAutomaticUpdates(ctx, p.id, spec.AutomaticUpdates); err != nil {
			return err
		}
	}
	if d.dormant && w.Dormant != *spec.Dormant {
		return client.SetDormant(ctx, p.id, *spec.Dormant)
	}
	return nil
}

// build starts the build that the change requires, or records the change if a build is running.
func (p *prepared) build(ctx context.Context) error {
	n := &p.notes
	if n.Restart > 0 && p.change.Running != nil && !*p.change.Running {
		n.Restart = 0
	}
	switch {
	case !p.plan.needed && n.Restart == 0:
		n.Change = nil
		return nil
	case isActive(p.workspace.LatestBuild) || n.Restart > 0:
		n.Change = &p.change
		return p.mayLater(ctx)
	}
	build, err := p.connection.Client.Build(ctx, p.id, p.plan.request)
	if coderd.IsConflict(err) {
		n.Change = &p.change
		return p.mayLater(ctx)
	}
	if err != nil {
		return err
	}
	n.built(build, p.plan)
	return nil
}

// built records that a build applies the change.
func (n *notes) built(build coderd.Build, t buildPlan) {
	n.Change = nil
	if len(n.Parameters) > 0 && t.values != nil {
		n.Values = &buildValues{Build: build.ID, Values: t.values}
	}
}

// restart stops the workspace now, and records that it must be started afterwards. It writes the
// record first: otherwise a workspace could stay stopped if the process ends after the stop.
func (k *Kind) restart(ctx context.Context, current, wanted object, p *prepared) error {
	if err := p.mayLater(ctx); err != nil {
		return err
	}
	p.notes.Restart = p.workspace.LatestBuild.Number
	if !p.change.empty() {
		p.notes.Change = &p.change
	}
	if _, err := k.save(ctx, current, wanted, p.notes); err != nil {
		return err
	}
	n, _, err := k.settleBuild(ctx, p.subject, p.notes)
	if err != nil {
		return fault(current.Name, err)
	}
	p.notes = n
	return nil
}

// keep records a change that is not sent to Coder. It calls Coder only for a deletion that is due.
func (k *Kind) keep(
	ctx context.Context, current, wanted object, as *impersonation.As,
) (object, error) {
	n, err := notesOf(k.RecordOf(current))
	if err != nil {
		return nil, unrecorded(current.Name, err)
	}
	n.setSpec(wanted.Spec)
	if registry.Deletes(ctx, current, wanted) {
		n.delete(as)
	}
	record, err := k.save(ctx, current, wanted, n)
	if err != nil {
		return nil, err
	}
	if record.DeletionDue() {
		if out := k.tryDestroy(ctx, current, record, n); out != nil {
			return out, nil
		}
	}
	return k.relabelled(current, wanted, record, n), nil
}

// relabelled returns the current object with another record. It is used for changes that are not
// sent to Coder.
func (k *Kind) relabelled(
	current, wanted object, record *metadata.Record, n notes,
) object {
	out := current.DeepCopy()
	overlay(out, metadata.ControlPlaneOf(current), record)
	out.Spec, out.Generation = *wanted.Spec.DeepCopy(), wanted.Generation
	out.Status.ObservedGeneration = observedGeneration(out.Generation, n)
	out.Status.Conditions = k.conditions(situationOf(out, record, n, time.Time{}), current)
	if c := registry.UnreachableCondition(current.Status.Conditions); c != nil {
		meta.SetStatusCondition(&out.Status.Conditions, *c)
	}
	return out
}

// difference is the set of changes that a client made to a spec.
type difference struct {
	ttl, autostart, updates, dormant bool
	// change is the part that requires a build, besides a restart.
	change  change
	restart bool
}

// differenceOf compares the current spec with the wanted one. A parameter that the wanted spec
// omits keeps its value in Coder, so it is no difference.
func differenceOf(was, spec aggregationv1alpha1.CoderWorkspaceSpec) difference {
	d := difference{
		ttl:       ptr.Deref(was.TTLMillis, 0) != ptr.Deref(spec.TTLMillis, 0),
		autostart: ptr.Deref(was.AutostartSchedule, "") != ptr.Deref(spec.AutostartSchedule, ""),
		updates:   spec.AutomaticUpdates != "" && was.AutomaticUpdates != spec.AutomaticUpdates,
		dormant:   spec.Dormant != nil && !ptr.Equal(was.Dormant, spec.Dormant),
	}
	if spec.Running != nil && !ptr.Equal(was.Running, spec.Running) {
		d.change.Running = ptr.To(*spec.Running)
	}
	if spec.TemplateVersionID != "" && spec.TemplateVersionID != was.TemplateVersionID {
		d.change.Version = spec.TemplateVersionID
	}
	if spec.TemplateVersionPreset != "" && spec.TemplateVersionPreset != was.TemplateVersionPreset {
		d.change.Preset = ptr.To(spec.TemplateVersionPreset)
	}
	shown := map[string]string{}
	for _, p := range was.Parameters {
		shown[p.Name] = p.Value
	}
	for _, p := range spec.Parameters {
		if v, ok := shown[p.Name]; !ok || v != p.Value {
			d.change.Parameters = append(d.change.Parameters, value{p.Name, p.Value})
		}
	}
	return d
}

// none reports whether nothing has to be sent to Coder.
func (d difference) none() bool {
	return !d.ttl && !d.autostart && !d.updates && !d.dormant && !d.restart && d.change.empty()
}

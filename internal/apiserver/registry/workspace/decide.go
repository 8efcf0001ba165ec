package workspace

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// decision is what an update of a workspace means: what differs, as whom it is made, and which build
// it needs.
type decision struct {
	subject
	difference
	current, wanted object
	// as is the Coder user who makes the update. Nil means the operator's account.
	as *impersonation.As
	// unread is the reason why the workspace could not be read for a deletion.
	unread error
	// intent contains the wanted parameters and preset. change is the waiting change with the new one
	// on top.
	intent intent
	// plan is the build for the change. waits reports that the build cannot start now.
	plan  buildPlan
	waits bool
	// sharing changes the users and groups that the workspace is shared with.
	sharing []coderd.Share
}

// decide reads the data that an update needs from Coder, checks the permissions of the caller, and
// validates the update. It only reads. The returned context makes the update as the caller's Coder
// user. Errors are API statuses.
func (k *Kind) decide(ctx context.Context, current, wanted object) (context.Context, *decision, error) {
	o, wanted, err := takeOrder(wanted)
	if err != nil {
		return ctx, nil, err
	}
	d := &decision{subject: subject{name: current.Name}, current: current, wanted: wanted, difference: differenceOf(current.Spec, wanted.Spec)}
	if o.into(&d.difference); d.orphan {
		d.wanted = k.Deleted(wanted)
	}
	if ctx, err = k.authorize(ctx, d); err != nil {
		return ctx, nil, err
	}
	if err = d.possible(o); err != nil {
		return ctx, nil, err
	}
	if d.intent, err = registry.ReadIntent[intent](k.RecordOf(current)); err != nil {
		return ctx, nil, unrecorded(d.name, err)
	}
	d.intent.setSpec(wanted.Spec)
	if d.shares {
		d.intent.Change = d.intent.Change.withoutSharing()
		// The plan shows which users and groups exist.
		if err = mayShare(ctx, d.subject, coderd.Permission{ID: d.workspace.ID}); err == nil {
			d.sharing, err = k.planSharing(ctx, d.subject, d.wanted.Spec.SharedWith)
		}
		if err != nil {
			return ctx, nil, err
		}
	}
	switch {
	case d.orphan:
		d.intent.DeletedBy, d.intent.Failed, d.intent.Orphan = d.as, nil, d.workspace.LatestBuild.Number
	case registry.Deletes(ctx, current, wanted):
		d.intent.delete(d.as)
	}
	if !d.change.empty() || d.restart {
		// Any other update keeps the initiator of a change that waits.
		d.intent.By = d.as
	}
	if !d.change.empty() {
		if err := k.plan(ctx, d); err != nil {
			return ctx, nil, fault(d.name, err)
		}
	}
	if d.stores() {
		err = d.may(ctx)
	}
	return ctx, d, err
}

// possible returns an error if the state of the workspace does not allow the update.
func (d *decision) possible(o order) error {
	if d.workspace.Prebuilt() && d.differs() && !d.orphan {
		return invalid(d.name, field.Forbidden(specPath, fmt.Sprintf(
			"Coder has built this workspace in advance for a preset of template %q, and starts and stops it itself: create a workspace with the preset, and Coder hands it over", d.workspace.TemplateName)))
	}
	if b := d.workspace.LatestBuild; o.Action == actionStart && len(o.Ephemeral) > 0 && isStarted(d.workspace) && !hasFailed(b) {
		return invalid(d.name, field.Forbidden(ephemeralPath, "the workspace is already started, and the values apply to a start: restart it with them, or stop it first"))
	}
	return nil
}

// authorize determines the Coder user that the caller acts as. Every difference needs a permission,
// also one that is not sent to Coder. So does the start of a deletion, and a new owner reference,
// because the garbage collector deletes objects because of owner references.
func (k *Kind) authorize(ctx context.Context, d *decision) (context.Context, error) {
	deletes := registry.Deletes(ctx, d.current, d.wanted)
	if !d.differs() && !deletes && !registry.AddsOwner(d.current, d.wanted) {
		return ctx, nil
	}
	// A deletion is recorded even if Coder cannot be asked now.
	recordable := deletes && !d.differs()
	var id uuid.UUID
	var err error
	if d.connection, id, err = k.LocateToChange(ctx, d.current, recordable); err != nil {
		return ctx, err
	}
	if d.connection.Client != nil {
		if d.workspace, d.unread = d.connection.Client.Workspace(ctx, id); d.unread != nil && !recordable {
			return ctx, fault(d.name, d.unread)
		}
	}
	ctx, d.as, err = k.BeginAt(ctx, d.connection, id, d.current, d.wanted, subjectOf(d.name, d.workspace))
	return ctx, err
}

// plan adds the change to the one that waits, and plans the build for both.
func (k *Kind) plan(ctx context.Context, d *decision) (err error) {
	waited := d.intent.waits()
	if d.change.Running != nil && (!*d.change.Running || d.workspace.LatestBuild.UnmatchedTags != "") {
		// A start does not wait for a stop that no provisioner takes.
		d.intent.Restart = 0
	}
	d.change = d.change.merge(d.intent.Change)
	if d.intent.Change == nil || !waited {
		d.change.Observed = d.current.Status.ObservedGeneration
	}
	to := d.subject
	to.workspace.AutomaticUpdates = d.wanted.Spec.AutomaticUpdates
	d.plan, err = k.planBuild(ctx, to, d.intent, d.change)
	d.waits = d.intent.Restart > 0 || d.plan.needed && isActive(d.workspace.LatestBuild)
	d.restart = d.restart || d.plan.replaces(d.workspace)
	return err
}

// stores reports whether the update changes data that only the record holds, for which Coder does not
// check the permission.
func (d *decision) stores() bool {
	return d.restart || d.orphan || d.waits || d.removes || d.differs() && !d.plan.needed
}

// may returns an error if Coder would refuse the update if it received it now.
func (d *decision) may(ctx context.Context) error {
	var wanted []coderd.Permission
	for _, action := range d.actions() {
		wanted = append(wanted, coderd.Permission{Resource: info.InCoder, Action: action, ID: d.workspace.ID})
	}
	// Coder lets only those who manage the template delete a workspace without a build, or start another
	// version than the active one if the template requires that.
	outdated := d.restart && d.plan.outdated(d.workspace)
	err := impersonation.May(ctx, d.connection.Client, subjectOf(d.name, d.workspace), wanted...)
	if err != nil || !d.orphan && !outdated {
		return err
	}
	err = impersonation.May(ctx, d.connection.Client,
		impersonation.Subject{Resource: aggregationv1alpha1.Resource("codertemplates"), Name: d.workspace.TemplateName},
		coderd.Permission{Resource: "template", Action: "update", ID: d.workspace.TemplateID})
	if outdated && apierrors.IsForbidden(err) {
		// The workspace would be stopped, and could not be started.
		return invalid(d.name, field.Invalid(versionPath, d.wanted.Spec.TemplateVersionID,
			fmt.Sprintf("template %q requires its active version: set %s", d.workspace.TemplateName, d.workspace.TemplateActiveVersionID)))
	}
	return err
}

// actions returns what Coder must allow for the update, in the words of its permissions.
func (d *decision) actions() (actions []string) {
	switch {
	case d.orphan:
		actions = []string{"delete"}
	case d.change.empty() && !d.restart:
	case !d.restart && d.plan.request.Transition == coderd.TransitionStop:
		actions = []string{"stop"}
	case !d.workspace.Dormant:
		// In Coder nobody may start a dormant workspace: it is woken first, which is an update.
		actions = []string{"start"}
	}
	if d.restart && isStarted(d.workspace) {
		actions = append(actions, "stop")
	}
	if len(actions) == 0 || d.ttl || d.autostart || d.updates || d.dormant || d.removes {
		actions = append(actions, "update")
	}
	return actions
}

// difference is the set of changes that a client made to a spec.
type difference struct {
	// any reports whether the specs differ at all. removes reports whether the wanted spec omits a
	// parameter or the preset. It keeps its value in Coder, so only the record changes.
	any, removes                     bool
	ttl, autostart, updates, dormant bool
	// shares reports that the users and groups differ that the workspace is shared with.
	shares bool
	// change is the part that requires a build, besides a restart.
	change  change
	restart bool
	// orphan reports that the workspace is to be deleted without a build.
	orphan bool
}

func differenceOf(was, spec aggregationv1alpha1.CoderWorkspaceSpec) difference {
	d := difference{
		any:       !equality.Semantic.DeepEqual(was, spec),
		ttl:       ptr.Deref(was.TTLMillis, 0) != ptr.Deref(spec.TTLMillis, 0),
		autostart: ptr.Deref(was.AutostartSchedule, "") != ptr.Deref(spec.AutostartSchedule, ""),
		updates:   spec.AutomaticUpdates != "" && was.AutomaticUpdates != spec.AutomaticUpdates,
		dormant:   spec.Dormant != nil && !ptr.Equal(was.Dormant, spec.Dormant),
		shares:    spec.SharedWith != nil && !sameShares(was.SharedWith, spec.SharedWith),
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
	d.removes = was.TemplateVersionPreset != "" && spec.TemplateVersionPreset == "" ||
		slices.ContainsFunc(was.Parameters, func(p aggregationv1alpha1.WorkspaceParameter) bool {
			return !slices.ContainsFunc(spec.Parameters, func(q aggregationv1alpha1.WorkspaceParameter) bool { return q.Name == p.Name })
		})
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

// differs reports whether the update is one of the spec, and not only of the metadata.
func (d difference) differs() bool { return d.any || d.sends() }

// sends reports whether something has to be sent to Coder.
func (d difference) sends() bool {
	return d.ttl || d.autostart || d.updates || d.dormant || d.shares || d.restart || d.orphan || !d.change.empty()
}

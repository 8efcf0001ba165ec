package user

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// decision is what an update of a user means: what differs, and as whom it is made.
type decision struct {
	was, wanted *aggregationv1alpha1.CoderUser
	record      *metadata.Record
	// intent is that of the record, with the update.
	intent     intent
	connection connections.Connection
	// user is the user as Coder reports it for this update. It is empty if Coder cannot be asked.
	user coderd.User
	// newer is the error of an update that is based on an outdated object, with the newer one.
	newer error
	// target are the fields to change in Coder, and changed the names of these and of the fields that
	// other managers own than before.
	target   settings
	changed  []string
	password bool
}

// sends reports whether the update needs a request to Coder.
func (d *decision) sends() bool { return d.password || d.target != (settings{}) }

// differs reports whether the update is one of the spec or of who owns its fields, and not only of
// other metadata.
func (d *decision) differs() bool {
	return len(d.changed) > 0 || !equality.Semantic.DeepEqual(d.was.Spec, d.wanted.Spec)
}

// decide reads the data that an update needs from Coder, and checks the permissions of the caller. It
// only reads. The returned context makes the update as the caller's Coder user.
func (k *Kind) decide(ctx context.Context, was, wanted object) (context.Context, *decision, error) {
	d := &decision{was: was, wanted: wanted, record: k.RecordOf(was), target: changed(was.Spec, wanted.Spec)}
	before, err := intentOf(d.record)
	if err != nil {
		return ctx, d, apierrors.NewInternalError(err)
	}
	d.intent = before
	d.intent.Owned = ownedFields(wanted)
	d.intent.PasswordFrom, d.intent.ReclaimPolicy = wanted.Spec.PasswordFrom, wanted.Spec.ReclaimPolicy
	d.password = wanted.Spec.PasswordFrom != nil && !equality.Semantic.DeepEqual(was.Spec.PasswordFrom, wanted.Spec.PasswordFrom)
	earlier, now := managersOf(was), managersOf(wanted)
	for _, name := range settingNames() {
		if d.target.only(name) != (settings{}) || !slices.Equal(earlier[name], now[name]) ||
			!equality.Semantic.DeepEqual(before.Owned.only(name), d.intent.Owned.only(name)) {
			d.changed = append(d.changed, name)
		}
	}
	deletes := registry.Deletes(ctx, was, wanted)
	if !d.differs() && !deletes && !registry.AddsOwner(was, wanted) {
		return ctx, d, nil
	}
	ctx, as, err := k.authorize(ctx, d, deletes && !d.differs())
	if err != nil {
		return ctx, d, err
	}
	if deletes {
		d.intent.DeletedBy = as
	}
	if d.differs() {
		d.intent.Refusals = nil
		d.intent.By = before.By.with(d.changed, as)
	}
	if d.sends() {
		// A list of roles replaces all of them.
		if now := k.object(ctx, d.connection, d.user, d.record, before, was); !equality.Semantic.DeepEqual(now.Spec, was.Spec) {
			d.newer = k.Newer(d.connection.ControlPlane, d.user.ID, now)
		}
	}
	return ctx, d, nil
}

// authorize reads the user, and determines the Coder user that the caller acts as. If recordable is
// true, Coder need not be available.
func (k *Kind) authorize(ctx context.Context, d *decision, recordable bool) (_ context.Context, _ *impersonation.As, err error) {
	var id uuid.UUID
	if d.connection, id, err = k.LocateToChange(ctx, d.was, recordable); err != nil {
		return ctx, nil, err
	}
	if d.connection.Client != nil {
		if d.user, err = d.connection.Client.UserByID(ctx, id); err != nil && !recordable {
			return ctx, nil, err
		}
	}
	s := subjectOf(d.was.Name, d.user)
	all := d.intent.Owned.with(d.target)
	for _, name := range d.changed {
		s.Grants = append(s.Grants, all.only(name).allRoles()...)
	}
	ctx, as, err := k.BeginAt(ctx, d.connection, id, d.was, d.wanted, s)
	if err == nil && as != nil && k.stores(ctx, d) {
		err = impersonation.May(ctx, d.connection.Client, s, coderd.Permission{Resource: k.InCoder, Action: "update", ID: id})
	}
	return ctx, as, err
}

// stores reports whether the update changes data that only the record holds, for which Coder does not
// check the permission: who owns a field, or a value that Coder has already.
func (k *Kind) stores(ctx context.Context, d *decision) bool {
	sent := k.drift(ctx, d.connection, d.user, d.target)
	return slices.ContainsFunc(d.changed, func(name string) bool { return !slices.Contains(sent, name) }) ||
		d.was.Spec.ReclaimPolicy != d.wanted.Spec.ReclaimPolicy || d.was.Spec.PasswordFrom != nil && d.wanted.Spec.PasswordFrom == nil
}

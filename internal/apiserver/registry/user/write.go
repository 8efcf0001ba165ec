package user

import (
	"context"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// Write implements records.Writer.
func (k *Kind) Write(ctx context.Context, key string, current, wanted records.Object) (records.Object, error) {
	return registry.Operations[object]{
		Create: func(ctx context.Context, wanted object) (object, error) {
			out, err := k.create(ctx, wanted)
			return out, k.Fault(wanted.Name, err)
		},
		Update: func(ctx context.Context, was, wanted object) (object, error) {
			out, err := k.update(ctx, was, wanted)
			return out, k.Fault(was.Name, err)
		},
		Delete: func(ctx context.Context, was object) (object, error) {
			return nil, k.Fault(was.Name, k.remove(ctx, was))
		},
	}.Write(ctx, key, current, wanted)
}

// CheckCreate implements registry.Checker.
func (k *Kind) CheckCreate(ctx context.Context, obj runtime.Object) error {
	u, err := k.Cast(obj)
	if err != nil {
		return err
	}
	p, err := k.planCreate(ctx, u)
	if err == nil && p.existing != nil {
		err = apierrors.NewAlreadyExists(resource, u.Name)
	}
	return k.Fault(u.Name, err)
}

// CheckUpdate implements registry.Checker.
func (k *Kind) CheckUpdate(ctx context.Context, wanted, current runtime.Object) error {
	c, err := k.planUpdate(ctx, current.(object), wanted.(object))
	if err == nil && c.needsPermission() {
		_, err = k.begin(ctx, c)
	}
	return k.Fault(c.was.Name, err)
}

// CheckDelete implements registry.Checker.
func (k *Kind) CheckDelete(ctx context.Context, obj runtime.Object) error {
	u := obj.(object)
	err := k.CheckUpdate(ctx, k.Deleted(u), u)
	if err != nil || u.Spec.ReclaimPolicy != aggregationv1alpha1.ReclaimDelete {
		return err
	}
	return k.CheckUnused(ctx, u, "owner:"+u.Status.Username)
}

// change is a plan to update a user.
type change struct {
	was, wanted *aggregationv1alpha1.CoderUser
	record      *metadata.Record
	before, now intent
	connection  connections.Connection
	id          uuid.UUID
	// target are the fields to change in Coder.
	target settings
	// deletes and addsOwner are the changes of the metadata that need a permission.
	deletes, addsOwner bool
	password           bool
}

// needsPermission reports whether the change needs permission to act in Coder.
func (c *change) needsPermission() bool {
	return c.asks() || c.deletes || c.addsOwner || c.changesOwned() || c.before.ReclaimPolicy != c.now.ReclaimPolicy
}

// changesOwned reports whether the fields that a manifest owns change.
func (c *change) changesOwned() bool {
	return !equality.Semantic.DeepEqual(c.before.Owned, c.now.Owned)
}

// changesRoles reports whether roles or organizations change, in Coder or in what a manifest owns.
func (c *change) changesRoles() bool {
	return c.target.Roles != nil || c.target.Organizations != nil ||
		!equality.Semantic.DeepEqual(c.before.Owned.Roles, c.now.Owned.Roles) ||
		!equality.Semantic.DeepEqual(c.before.Owned.Organizations, c.now.Owned.Organizations)
}

// asks reports whether the change needs a request to Coder.
func (c *change) asks() bool { return c.password || c.target != (settings{}) }

func (k *Kind) planUpdate(ctx context.Context, was, wanted object) (*change, error) {
	c := &change{
		was: was, wanted: wanted, record: k.RecordOf(was), target: changed(was.Spec, wanted.Spec),
		deletes: registry.Deletes(ctx, was, wanted), addsOwner: registry.AddsOwner(was, wanted),
	}
	var err error
	if c.before, err = intentOf(c.record); err != nil {
		return c, apierrors.NewInternalError(err)
	}
	c.now = c.before
	c.now.Owned = ownedFields(wanted)
	c.now.PasswordFrom, c.now.ReclaimPolicy = wanted.Spec.PasswordFrom, wanted.Spec.ReclaimPolicy
	c.password = wanted.Spec.PasswordFrom != nil && !equality.Semantic.DeepEqual(was.Spec.PasswordFrom, wanted.Spec.PasswordFrom)
	if !c.needsPermission() {
		return c, nil
	}
	c.connection, c.id, err = k.LocateToChange(ctx, was, c.deletes && !c.asks())
	return c, err
}

// begin determines the Coder user that the caller acts as to change a user.
func (k *Kind) begin(ctx context.Context, c *change) (context.Context, error) {
	s := subjectOf(c.was.Name, c.was.Status.Username)
	s.Deletes = c.deletes && !c.asks() && !c.addsOwner
	roles := c.changesRoles()
	if roles {
		// All roles, not only the new ones: from now on they are restored as this caller.
		s.Grants = c.now.Owned.with(c.target).allRoles()
	}
	ctx, as, err := k.Actors.Begin(ctx, c.connection, s)
	if err != nil {
		return ctx, err
	}
	if as != nil && (c.deletes || c.addsOwner) {
		err = k.MayDelete(ctx, c.connection, s, c.id)
	}
	if c.deletes {
		c.now.DeletedBy = as
	}
	if c.asks() || c.changesOwned() {
		c.now.Refusals = nil
		// Roles are never restored as a caller who did not set them.
		if roles || len(c.before.Owned.allRoles()) == 0 {
			c.now.By = as
		}
	}
	return ctx, err
}

// update changes a user, first in Coder, then in the record.
func (k *Kind) update(ctx context.Context, was, wanted object) (object, error) {
	c, err := k.planUpdate(ctx, was, wanted)
	if err != nil {
		return nil, err
	}
	acted := ctx
	if c.needsPermission() {
		if acted, err = k.begin(ctx, c); err != nil {
			return nil, err
		}
	}
	if c.asks() {
		if err := k.changeInCoder(acted, c); err != nil {
			return nil, err
		}
	}
	record, err := k.Save(ctx, c.record, wanted, c.now.stored())
	if err != nil {
		return nil, err
	}
	if !c.asks() {
		out := wanted.DeepCopy()
		out.Status.ObservedGeneration = out.Generation
		k.Observe(out)
		k.showDeletion(out, was.Status.Conditions)
		return out, nil
	}
	k.Hint(c.connection.ControlPlane, c.id)
	now, err := c.connection.Client.UserByID(ctx, c.id)
	if err != nil {
		return nil, err
	}
	return k.object(ctx, c.connection, now, record, c.now, was), nil
}

// changeInCoder applies a change in Coder.
func (k *Kind) changeInCoder(ctx context.Context, c *change) error {
	user, err := c.connection.Client.UserByID(ctx, c.id)
	if err != nil {
		return err
	}
	if c.password {
		password, err := k.password(ctx, c.wanted)
		if err == nil {
			err = c.connection.Client.SetPassword(ctx, user, password)
		}
		if err != nil {
			return err
		}
	}
	return converge(ctx, c.connection.Client, user, c.target)
}

// remove suspends or deletes a user in Coder.
func (k *Kind) remove(ctx context.Context, was object) error {
	connection, id, err := k.Locate(ctx, was)
	if err != nil {
		return err
	}
	record := k.RecordOf(was)
	in, err := intentOf(record)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	s := subjectOf(was.Name, was.Status.Username)
	if was.DeletionTimestamp == nil || records.IsDeletion(ctx) {
		s.Deletes = true
		ctx, _, err = k.Actors.Begin(ctx, connection, s)
	} else {
		// Another user may have removed the last finalizer.
		ctx, err = k.Actors.Later(ctx, connection, in.DeletedBy, s)
	}
	if err != nil {
		return err
	}
	if err := reclaim(ctx, connection.Client, id, in.ReclaimPolicy); err != nil {
		return err
	}
	return k.Records.Delete(ctx, record)
}

// reclaim suspends or deletes a user in Coder, as the reclaim policy of its object says.
func reclaim(ctx context.Context, client *coderd.Client, id uuid.UUID, policy string) error {
	user, err := client.UserByID(ctx, id)
	switch {
	case coderd.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case policy == aggregationv1alpha1.ReclaimDelete:
		return client.DeleteUser(ctx, user)
	case user.IsSuspended():
		return nil
	}
	return client.SetSuspended(ctx, user, true)
}

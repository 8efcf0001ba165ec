package user

import (
	"cmp"
	"context"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
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
	if err == nil {
		err = k.checkInDryRun(ctx, p.connection.Client, u, u.Spec.LoginType == loginPassword, settingsOf(u.Spec, every))
	}
	return k.Fault(u.Name, err)
}

// CheckUpdate implements registry.Checker.
func (k *Kind) CheckUpdate(ctx context.Context, wanted, current runtime.Object) error {
	was := current.(object)
	_, d, err := k.decide(ctx, was, wanted.(object))
	if err == nil && d.sends() {
		err = k.checkInDryRun(ctx, d.connection.Client, d.wanted, d.password, d.target)
	}
	return k.Fault(was.Name, err)
}

// CheckDelete implements registry.Checker.
func (k *Kind) CheckDelete(ctx context.Context, obj runtime.Object) error {
	u := obj.(object)
	_, d, err := k.decide(ctx, u, k.Deleted(u))
	if err != nil || u.Spec.ReclaimPolicy != aggregationv1alpha1.ReclaimDelete || d.user.Username == "" {
		return k.Fault(u.Name, err)
	}
	return k.CheckUnused(ctx, u, "owner:"+d.user.Username)
}

// update decides what a change of a user means, applies it in Coder, and then writes the record.
func (k *Kind) update(ctx context.Context, was, wanted object) (object, error) {
	ctx, d, err := k.decide(ctx, was, wanted)
	if err = cmp.Or(d.newer, err); err != nil {
		return nil, err
	}
	if err := k.apply(ctx, d); err != nil {
		return nil, err
	}
	record, err := k.Save(ctx, d.record, wanted, d.intent.stored())
	if err != nil {
		return nil, err
	}
	if !d.sends() {
		out := wanted.DeepCopy()
		out.Status.ObservedGeneration = out.Generation
		k.Observe(out)
		k.showDeletion(out, was.Status.Conditions)
		return out, nil
	}
	k.Hint(d.connection.ControlPlane, d.user.ID)
	now, err := d.connection.Client.UserByID(ctx, d.user.ID)
	if err != nil {
		return nil, err
	}
	return k.object(ctx, d.connection, now, record, d.intent, was), nil
}

// apply applies a decision in Coder.
func (k *Kind) apply(ctx context.Context, d *decision) error {
	client := d.connection.Client
	if d.password {
		password, err := k.password(ctx, d.wanted)
		if err == nil {
			err = client.SetPassword(ctx, d.user, password)
		}
		if err != nil {
			return err
		}
	}
	return converge(ctx, client, d.user, d.target)
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
	user, err := connection.Client.UserByID(ctx, id)
	if err != nil && !coderd.IsNotFound(err) {
		return err
	}
	s := subjectOf(was.Name, user)
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
		return client.Absent(ctx, coderd.ResourceUser, err)
	case err != nil:
		return err
	case policy == aggregationv1alpha1.ReclaimDelete:
		return client.DeleteUser(ctx, user)
	case user.IsSuspended():
		return nil
	}
	return client.SetSuspended(ctx, user, true)
}

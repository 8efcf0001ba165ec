package user

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectname"
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

// creation is a plan to create a user.
type creation struct {
	// ctx is the context in which Coder is changed.
	ctx        context.Context //nolint:containedctx // It is the context of the call.
	connection connections.Connection
	as         *impersonation.As
	username   string
	// existing is the user that has the name already, or nil.
	existing      *coderd.User
	organizations []coderd.Organization
}

// planCreate reads the data that a creation needs from Coder, and validates it. It only reads.
func (k *Kind) planCreate(ctx context.Context, u object) (p creation, err error) {
	// BeginCreate returns the error of a name that is not valid.
	name, _ := objectname.ParseUser(u.Name)
	p.username = name.Name
	s := subjectOf(u.Name, name.Name)
	s.Grants = settingsOf(u.Spec, every).allRoles()
	if p.ctx, p.as, p.connection, err = k.BeginCreate(ctx, u, s); err != nil {
		return p, err
	}
	client := p.connection.Client
	if err := impersonation.May(p.ctx, client, s, coderd.Permission{Resource: coderd.ResourceUser, Action: "create"}); err != nil {
		return p, err
	}
	if p.organizations, err = client.Organizations(ctx); err != nil {
		return p, err
	}
	if _, err := find(p.organizations, u.Spec.Organizations); err != nil {
		return p, err
	}
	existing, err := client.UserByName(ctx, name.Name)
	switch {
	case coderd.IsNotFound(err):
		return p, nil
	case err == nil:
		p.existing = &existing
	}
	return p, err
}

func every(string) bool { return true }

// create creates a user. Fields that Coder does not accept in the same request are set afterwards. If
// that is interrupted, the mirror sets them.
func (k *Kind) create(ctx context.Context, wanted object) (object, error) {
	p, err := k.planCreate(ctx, wanted)
	if err != nil {
		return nil, err
	}
	controlPlane := p.connection.ControlPlane
	record := &metadata.Record{ControlPlane: controlPlane, Kind: k.Kind, Name: wanted.Name}
	earlier, retried := k.Records.PendingFor(controlPlane, k.Kind, wanted.Name)
	if retried {
		record.Version = earlier.Version
	}
	if p.existing != nil && (!retried || !strings.EqualFold(p.existing.Email, wanted.Spec.Email)) {
		return nil, apierrors.NewAlreadyExists(resource, wanted.Name)
	}
	in := intent{Owned: ownedFields(wanted), By: p.as, PasswordFrom: wanted.Spec.PasswordFrom, ReclaimPolicy: wanted.Spec.ReclaimPolicy}
	metadata.Keep(wanted, record)
	if err := in.into(record); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if record, err = k.Records.Put(ctx, record); err != nil {
		return nil, err
	}
	made := p.existing
	if made == nil {
		if made, err = k.createInCoder(p, wanted); err != nil {
			err = k.CreateFault(wanted.Name, err)
			if isRefusal(err) || apierrors.IsAlreadyExists(err) {
				k.forget(ctx, record)
			}
			return nil, err
		}
	}
	if record, err = k.Records.Bind(ctx, record, types.UID(made.ID.String())); err != nil {
		return nil, err
	}
	err = k.Fault(wanted.Name, converge(p.ctx, p.connection.Client, *made, settingsOf(wanted.Spec, every)))
	if err != nil {
		// The user exists. The mirror sets the owned fields.
		warning.AddWarning(ctx, "", fmt.Sprintf("the user was created, but not all of the spec could be brought to Coder: %v", err))
	}
	k.Hint(controlPlane, made.ID)
	now, err := p.connection.Client.UserByID(ctx, made.ID)
	if err != nil {
		now = *made
	}
	return k.object(ctx, p.connection, now, record, in, nil), nil
}

func (k *Kind) createInCoder(p creation, wanted object) (*coderd.User, error) {
	spec := wanted.Spec
	request := coderd.NewUser{Username: p.username, Email: spec.Email, Name: spec.FullName, LoginType: spec.LoginType}
	chosen, err := find(p.organizations, spec.Organizations)
	if err != nil {
		return nil, err
	}
	for _, o := range p.organizations {
		if len(spec.Organizations) == 0 && o.IsDefault {
			chosen = append(chosen, o)
		}
	}
	for _, o := range chosen {
		request.OrganizationIDs = append(request.OrganizationIDs, o.ID)
	}
	if spec.LoginType == loginPassword {
		if request.Password, err = k.password(p.ctx, wanted); err != nil {
			return nil, err
		}
	}
	user, err := p.connection.Client.CreateUser(p.ctx, request)
	return &user, err
}

// password returns the password in the Secret of a spec, or a random one.
func (k *Kind) password(ctx context.Context, u object) (string, error) {
	if u.Spec.PasswordFrom == nil {
		return rand.Text() + "a-0", nil
	}
	ref := u.Spec.PasswordFrom.SecretKeyRef
	value, err := k.secrets.Read(ctx, u.Namespace, ref.Name, ref.Key)
	switch {
	case apierrors.IsNotFound(err):
		return "", field.Invalid(passwordPath, ref.Name, err.Error())
	case err == nil && value == "":
		return "", field.Invalid(passwordPath, ref.Name, fmt.Sprintf("key %q of this Secret is empty", ref.Key))
	}
	return value, err
}

// find returns the organizations with the names of the memberships.
func find(known []coderd.Organization, wanted organizations) ([]coderd.Organization, error) {
	var out []coderd.Organization
	for i, o := range wanted {
		at := slices.IndexFunc(known, func(k coderd.Organization) bool { return strings.EqualFold(k.Name, o.Name) })
		if at < 0 {
			return nil, field.Invalid(organizationsPath.Index(i).Child("name"), o.Name, "there is no such organization in Coder")
		}
		out = append(out, known[at])
	}
	return out, nil
}

// forget deletes the record of a user that Coder refused.
func (k *Kind) forget(ctx context.Context, record *metadata.Record) {
	if err := k.Records.Delete(ctx, record); err != nil {
		log.FromContext(ctx).V(1).Info("Removing the record of a user who was refused is delayed",
			"controlPlane", record.ControlPlane, "name", record.Name, "reason", err.Error())
	}
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
		deletes: registry.Deletes(was, wanted), addsOwner: registry.AddsOwner(was, wanted),
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
		c.now.Refused = nil
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
	record := c.record.DeepCopy()
	metadata.Keep(wanted, record)
	if err := c.now.into(record); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if record, err = k.Records.Put(ctx, record); err != nil {
		return nil, err
	}
	if !c.asks() {
		out := wanted.DeepCopy()
		out.Status.ObservedGeneration = out.Generation
		for i := range out.Status.Conditions {
			out.Status.Conditions[i].ObservedGeneration = out.Generation
		}
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
	if was.DeletionTimestamp == nil {
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

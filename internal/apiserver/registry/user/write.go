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
	"github.com/coder-k8s/coder-k8s/internal/apiserver/acting"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectname"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// Write implements records.Writer.
func (k *Kind) Write(ctx context.Context, _ string, current, wanted records.Object) (records.Object, error) {
	was, _ := current.(*aggregationv1alpha1.CoderUser)
	u, _ := wanted.(*aggregationv1alpha1.CoderUser)
	var out *aggregationv1alpha1.CoderUser
	var err error
	switch {
	case was == nil && u == nil:
		err = apierrors.NewInternalError(fmt.Errorf("a write of %T to %T makes no sense", current, wanted))
	case was == nil:
		out, err = k.create(ctx, u)
	case u == nil:
		err = k.remove(ctx, was)
	default:
		out, err = k.update(ctx, was, u)
	}
	if out == nil || err != nil {
		// An interface that is nil.
		return nil, fault(nameOf(was, u), err)
	}
	return out, nil
}

func nameOf(was, wanted *aggregationv1alpha1.CoderUser) string {
	if wanted != nil {
		return wanted.Name
	}
	return was.Name
}

// CheckCreate implements registry.Checker.
func (k *Kind) CheckCreate(ctx context.Context, obj runtime.Object) error {
	u, ok := obj.(*aggregationv1alpha1.CoderUser)
	if !ok {
		return errNotUser(obj)
	}
	p, err := k.planCreate(ctx, u)
	if err == nil && p.existing != nil {
		err = apierrors.NewAlreadyExists(resource, u.Name)
	}
	return fault(u.Name, err)
}

// CheckUpdate implements registry.Checker.
func (k *Kind) CheckUpdate(ctx context.Context, wanted, current runtime.Object) error {
	u, ok := wanted.(*aggregationv1alpha1.CoderUser)
	was, okay := current.(*aggregationv1alpha1.CoderUser)
	if !ok || !okay {
		return errNotUser(wanted)
	}
	c, err := k.planUpdate(ctx, was, u)
	if err != nil || !c.needsPermission() {
		return fault(u.Name, err)
	}
	_, err = k.begin(ctx, c)
	return fault(u.Name, err)
}

// creation is a user that is to be made.
type creation struct {
	// ctx is the one in which Coder is changed.
	ctx        context.Context //nolint:containedctx // It is that of the call.
	connection connections.Connection
	as         *acting.As
	username   string
	// existing is the user who has the name already, or nil.
	existing      *coderd.User
	organizations []coderd.Organization
}

// planCreate finds out what a creation will ask of Coder. It only reads.
func (k *Kind) planCreate(ctx context.Context, u *aggregationv1alpha1.CoderUser) (creation, error) {
	name, err := objectname.ParseUser(u.Name)
	if err != nil {
		return creation{}, field.Invalid(namePath, u.Name, err.Error())
	}
	connection, err := registry.Connection(ctx, k.config.Connections, u.Namespace, name.Prefix)
	if err != nil {
		return creation{}, err
	}
	if connection == nil {
		return creation{}, registry.NoControlPlane(u.Namespace, name.Prefix)
	}
	p := creation{connection: *connection, username: name.Name}
	s := acting.Subject{Resource: resource, Name: u.Name, Owner: name.Name, IsUser: true, Grants: settingsOf(u.Spec, every).allRoles()}
	if p.ctx, p.as, err = k.config.Actors.Begin(ctx, *connection, s); err != nil {
		return p, err
	}
	if err := acting.May(p.ctx, connection.Client, s, coderd.Permission{Resource: coderd.ResourceUser, Action: "create"}); err != nil {
		return p, err
	}
	if p.organizations, err = connection.Client.Organizations(ctx); err != nil {
		return p, err
	}
	if _, err := find(p.organizations, u.Spec.Organizations); err != nil {
		return p, err
	}
	existing, err := connection.Client.UserByName(ctx, name.Name)
	switch {
	case coderd.IsNotFound(err):
		return p, nil
	case err == nil:
		p.existing = &existing
	}
	return p, err
}

func every(string) bool { return true }

// create makes a user. What Coder does not take in one call is brought to it afterwards,
// and by the mirror if that is cut off.
func (k *Kind) create(ctx context.Context, wanted *aggregationv1alpha1.CoderUser) (*aggregationv1alpha1.CoderUser, error) {
	p, err := k.planCreate(ctx, wanted)
	if err != nil {
		return nil, err
	}
	controlPlane := p.connection.ControlPlane
	record := &metadata.Record{ControlPlane: controlPlane, Kind: kindName, Name: wanted.Name}
	earlier, retried := k.config.Records.PendingFor(controlPlane, kindName, wanted.Name)
	if retried {
		record.Version = earlier.Version
	}
	if p.existing != nil && (!retried || !strings.EqualFold(p.existing.Email, wanted.Spec.Email)) {
		return nil, apierrors.NewAlreadyExists(resource, wanted.Name)
	}
	in := intent{Owned: ownedBy(wanted), By: p.as, PasswordFrom: wanted.Spec.PasswordFrom, ReclaimPolicy: wanted.Spec.ReclaimPolicy}
	metadata.Keep(wanted, record)
	if err := in.into(record); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if record, err = k.config.Records.Put(ctx, record); err != nil {
		return nil, err
	}
	made := p.existing
	if made == nil {
		if made, err = k.createInCoder(p, wanted); err != nil {
			err = createFault(wanted.Name, err)
			if isRefusal(err) || apierrors.IsAlreadyExists(err) {
				k.forget(ctx, record)
			}
			return nil, err
		}
	}
	if record, err = k.config.Records.Bind(ctx, record, types.UID(made.ID.String())); err != nil {
		return nil, err
	}
	err = fault(wanted.Name, converge(p.ctx, p.connection.Client, *made, settingsOf(wanted.Spec, every)))
	if err != nil {
		// The user is there. What is owned is brought to Coder by the mirror.
		warning.AddWarning(ctx, "", fmt.Sprintf("the user was created, but not all of the spec could be brought to Coder: %v", err))
	}
	k.hint(controlPlane, made.ID)
	now, err := p.connection.Client.UserByID(ctx, made.ID)
	if err != nil {
		now = *made
	}
	return k.object(ctx, p.connection, now, record, in, nil), nil
}

func (k *Kind) createInCoder(p creation, wanted *aggregationv1alpha1.CoderUser) (*coderd.User, error) {
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

// password returns that of a Secret, or a random one.
func (k *Kind) password(ctx context.Context, u *aggregationv1alpha1.CoderUser) (string, error) {
	if u.Spec.PasswordFrom == nil {
		return rand.Text() + "a-0", nil
	}
	ref := u.Spec.PasswordFrom.SecretKeyRef
	value, err := k.config.ReadSecret(ctx, u.Namespace, ref.Name, ref.Key)
	switch {
	case apierrors.IsNotFound(err):
		return "", field.Invalid(passwordPath, ref.Name, err.Error())
	case err == nil && value == "":
		return "", field.Invalid(passwordPath, ref.Name, fmt.Sprintf("key %q of this Secret is empty", ref.Key))
	}
	return value, err
}

// find returns the organizations that are named.
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

// forget removes the record of a user whom Coder refused.
func (k *Kind) forget(ctx context.Context, record *metadata.Record) {
	if err := k.config.Records.Delete(ctx, record); err != nil {
		log.FromContext(ctx).V(1).Info("Removing the record of a user who was refused is delayed",
			"controlPlane", record.ControlPlane, "name", record.Name, "reason", err.Error())
	}
}

// change is an update.
type change struct {
	was, wanted *aggregationv1alpha1.CoderUser
	record      *metadata.Record
	before, now intent
	connection  connections.Connection
	id          uuid.UUID
	// target is what Coder is to have.
	target settings
	// deletes and addsOwner say what of the metadata changes that needs a permission.
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

func (k *Kind) planUpdate(ctx context.Context, was, wanted *aggregationv1alpha1.CoderUser) (*change, error) {
	c := &change{
		was: was, wanted: wanted, record: k.recordOf(was), target: changed(was.Spec, wanted.Spec),
		deletes: was.DeletionTimestamp == nil && wanted.DeletionTimestamp != nil, addsOwner: registry.AddsOwner(was, wanted),
	}
	var err error
	if c.before, err = intentOf(c.record); err != nil {
		return c, apierrors.NewInternalError(err)
	}
	c.now = c.before
	c.now.Owned = ownedBy(wanted)
	c.now.PasswordFrom, c.now.ReclaimPolicy = wanted.Spec.PasswordFrom, wanted.Spec.ReclaimPolicy
	c.password = wanted.Spec.PasswordFrom != nil && !equality.Semantic.DeepEqual(was.Spec.PasswordFrom, wanted.Spec.PasswordFrom)
	if !c.needsPermission() {
		return c, nil
	}
	c.connection, c.id, err = k.locate(ctx, was)
	if err != nil && c.deletes && !c.asks() {
		// A deletion is recorded also while Coder cannot be asked.
		c.connection, err = registry.Unconnected(ctx, k.config.Connections, controlPlaneOf(was), err)
	}
	return c, err
}

// begin decides as whom a change is made.
func (k *Kind) begin(ctx context.Context, c *change) (context.Context, error) {
	s := subject(c.was)
	s.Deletes = c.deletes && !c.asks() && !c.addsOwner
	roles := c.changesRoles()
	if roles {
		// All roles, not only the new ones: from now on they are restored as this caller.
		s.Grants = c.now.Owned.with(c.target).allRoles()
	}
	ctx, as, err := k.config.Actors.Begin(ctx, c.connection, s)
	if err != nil {
		return ctx, err
	}
	if as != nil && (c.deletes || c.addsOwner) {
		err = acting.May(ctx, c.connection.Client, s, coderd.Permission{Resource: coderd.ResourceUser, Action: "delete", ID: c.id})
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
func (k *Kind) update(ctx context.Context, was, wanted *aggregationv1alpha1.CoderUser) (*aggregationv1alpha1.CoderUser, error) {
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
		if err := k.tell(acted, c); err != nil {
			return nil, err
		}
	}
	record := c.record.DeepCopy()
	metadata.Keep(wanted, record)
	if err := c.now.into(record); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if record, err = k.config.Records.Put(ctx, record); err != nil {
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
	k.hint(c.connection.ControlPlane, c.id)
	now, err := c.connection.Client.UserByID(ctx, c.id)
	if err != nil {
		return nil, err
	}
	return k.object(ctx, c.connection, now, record, c.now, was), nil
}

// tell brings a change to Coder.
func (k *Kind) tell(ctx context.Context, c *change) error {
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
func (k *Kind) remove(ctx context.Context, was *aggregationv1alpha1.CoderUser) error {
	connection, id, err := k.locate(ctx, was)
	if err != nil {
		return err
	}
	record := k.recordOf(was)
	in, err := intentOf(record)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if was.DeletionTimestamp == nil {
		s := subject(was)
		s.Deletes = true
		ctx, _, err = k.config.Actors.Begin(ctx, connection, s)
	} else {
		// Somebody else may have removed the last finalizer.
		ctx, err = k.config.Actors.Later(ctx, connection, in.DeletedBy, subject(was))
	}
	if err != nil {
		return err
	}
	if err := reclaim(ctx, connection.Client, id, in.ReclaimPolicy); err != nil {
		return err
	}
	return k.config.Records.Delete(ctx, record)
}

// reclaim does what the deletion of an object does in Coder.
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

// recordOf returns a copy of the record of an object, and a new one if there is none.
func (k *Kind) recordOf(u *aggregationv1alpha1.CoderUser) *metadata.Record {
	controlPlane := controlPlaneOf(u)
	if known, ok := k.config.Records.Get(controlPlane, u.UID); ok {
		record := known.DeepCopy()
		record.Name = u.Name
		return record
	}
	return &metadata.Record{ControlPlane: controlPlane, Kind: kindName, Name: u.Name, UID: u.UID}
}

// locate finds the connection and the id in Coder of an object that was read.
func (k *Kind) locate(ctx context.Context, u *aggregationv1alpha1.CoderUser) (connections.Connection, uuid.UUID, error) {
	id, err := uuid.Parse(string(u.UID))
	if err != nil {
		return connections.Connection{}, uuid.Nil, apierrors.NewConflict(resource, u.Name, fmt.Errorf("its metadata.uid %q is not an id in Coder", u.UID))
	}
	connection, err := registry.Connection(ctx, k.config.Connections, u.Namespace, k.prefix(u.Name))
	if err != nil {
		return connections.Connection{}, uuid.Nil, err
	}
	if connection == nil || connection.ControlPlane != controlPlaneOf(u) {
		return connections.Connection{}, uuid.Nil, apierrors.NewConflict(resource, u.Name,
			fmt.Errorf("its control plane %s is not served any more", controlPlaneOf(u)))
	}
	return *connection, id, nil
}

func controlPlaneOf(u *aggregationv1alpha1.CoderUser) types.NamespacedName {
	return types.NamespacedName{
		Namespace: u.Labels[aggregationv1alpha1.LabelControlPlaneNamespace], Name: u.Labels[aggregationv1alpha1.LabelControlPlaneName],
	}
}

// subject is a user whom a caller wants to change.
func subject(u *aggregationv1alpha1.CoderUser) acting.Subject {
	return acting.Subject{Resource: resource, Name: u.Name, Owner: u.Status.Username, IsUser: true}
}

package user

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
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
	u := obj.(object)
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
	client := d.connection.Client
	if d.password {
		password, err := k.password(ctx, wanted)
		if err == nil {
			err = client.SetPassword(ctx, d.user, password)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := converge(ctx, client, d.user, d.target); err != nil {
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
	now, err := client.UserByID(ctx, d.user.ID)
	if err != nil {
		return nil, err
	}
	return k.object(ctx, d.connection, now, record, d.intent, was), nil
}

// remove suspends or deletes a user in Coder.
func (k *Kind) remove(ctx context.Context, was object) error {
	connection, id, err := k.Locate(ctx, was)
	if err != nil {
		return err
	}
	record := k.RecordOf(was)
	in, err := registry.ReadIntent[intent](record)
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
	before, err := registry.ReadIntent[intent](d.record)
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
	for _, name := range d.changed {
		s.Grants = append(s.Grants, cmp.Or(d.target.only(name), d.intent.Owned.only(name)).allRoles()...)
	}
	ctx, as, err := k.BeginAt(ctx, d.connection, id, d.was, d.wanted, s)
	if err != nil || as == nil {
		return ctx, as, err
	}
	// Coder does not check the permission for data that only the record holds: who owns a field, or a value that Coder has already.
	sent := k.drift(ctx, d.connection, d.user, d.target)
	if slices.ContainsFunc(d.changed, func(name string) bool { return !slices.Contains(sent, name) }) ||
		d.was.Spec.ReclaimPolicy != d.wanted.Spec.ReclaimPolicy || d.was.Spec.PasswordFrom != nil && d.wanted.Spec.PasswordFrom == nil {
		err = impersonation.May(ctx, d.connection.Client, s, coderd.Permission{Resource: k.InCoder, Action: "update", ID: id})
	}
	return ctx, as, err
}

// creation is a plan to create a user.
type creation struct {
	// ctx is the context in which Coder is changed.
	ctx        context.Context //nolint:containedctx // It is the context of the call.
	connection connections.Connection
	as         *impersonation.As
	username   string
	// existing is the user that has the name already, or nil.
	existing *coderd.User
	// organizations are those that the user becomes a member of.
	organizations []coderd.Organization
}

// planCreate reads the data that a creation needs from Coder, and validates it. It only reads.
func (k *Kind) planCreate(ctx context.Context, u object) (p creation, err error) {
	// LocateNew returns the error of a name that is not valid.
	name, _ := metadata.ParseUserName(u.Name)
	p.username = name.Name
	if p.connection, err = k.LocateNew(ctx, u); err != nil {
		return p, err
	}
	client := p.connection.Client
	existing, err := client.UserByName(ctx, p.username)
	switch {
	case err == nil:
		p.existing = &existing
	case !coderd.IsNotFound(err):
		return p, err
	}
	s := subjectOf(u.Name, coderd.User{ID: existing.ID, Username: p.username})
	s.Grants = settingsOf(u.Spec, every).allRoles()
	if p.ctx, p.as, err = k.Actors.Begin(ctx, p.connection, s); err != nil {
		return p, err
	}
	if err := impersonation.May(p.ctx, client, s, coderd.Permission{Resource: coderd.ResourceUser, Action: "create"}); err != nil {
		return p, err
	}
	known, err := client.Organizations(ctx)
	if err != nil {
		return p, err
	}
	p.organizations, err = find(known, u.Spec.Organizations)
	for _, o := range known {
		if len(u.Spec.Organizations) == 0 && o.IsDefault {
			p.organizations = append(p.organizations, o)
		}
	}
	switch {
	case err != nil || p.existing != nil:
	case isService(u.Spec):
		err = servicesAllowed(ctx, client)
	default:
		var others []coderd.User
		if others, err = client.UsersByEmail(ctx, u.Spec.Email); err == nil && len(others) > 0 {
			err = field.Invalid(emailPath, u.Spec.Email, "another user in Coder has this email address")
		}
	}
	return p, err
}

// servicesAllowed returns an error if this Coder creates no service accounts: it is too old, or its license does not include them.
func servicesAllowed(ctx context.Context, client *coderd.Client) error {
	entitlements, err := client.Entitlements(ctx)
	switch entitlement := entitlements.Of(coderd.FeatureServiceAccounts); {
	case err != nil && !coderd.IsNotSupported(err):
		return err
	case entitlement.Allows():
		return nil
	case entitlement == coderd.NotEntitled:
		return field.Forbidden(servicePath, "no license of this Coder includes service accounts (Premium does); add one, or create a user with loginType password")
	}
	return field.Forbidden(servicePath,
		"this Coder has no service accounts: they need the official image of Coder 2.36 or later, and a Premium license; create a user with loginType password instead")
}

// checkInDryRun checks what a creation or a change leaves to Coder: the strength of a password. It warns about roles,
// which only Coder can check.
func (k *Kind) checkInDryRun(ctx context.Context, client *coderd.Client, u object, password bool, set settings) error {
	if roles := set.allRoles(); len(roles) > 0 {
		warning.AddWarning(ctx, "", "a dry run does not check whether Coder has these roles: "+strings.Join(roles, ", "))
	}
	if !password || u.Spec.PasswordFrom == nil {
		return nil
	}
	value, err := k.password(ctx, u)
	if err != nil {
		return err
	}
	problem, err := client.PasswordProblem(ctx, value)
	if err == nil && problem != "" {
		err = field.Invalid(passwordPath, u.Spec.PasswordFrom.SecretKeyRef.Name, "the password in this Secret: "+problem)
	}
	return err
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
	in := intent{
		Owned: ownedFields(wanted), By: setters(nil).with(settingNames(), p.as),
		PasswordFrom: wanted.Spec.PasswordFrom, ReclaimPolicy: wanted.Spec.ReclaimPolicy, Email: wanted.Spec.Email,
	}
	if record, err = k.Save(ctx, record, wanted, in.stored()); err != nil {
		return nil, err
	}
	made := p.existing
	if made == nil {
		if made, err = k.createInCoder(p, wanted); err != nil {
			// The user who has the name may be the result of an earlier attempt.
			uncertain := retried && coderd.IsConflict(err)
			err = k.CreateFault(wanted.Name, err)
			if !uncertain && (isRefusal(err) || apierrors.IsAlreadyExists(err)) {
				if problem := k.Records.Delete(ctx, record); problem != nil {
					log.FromContext(ctx).V(1).Info("Could not remove the record of a user that Coder rejected; retrying later",
						"controlPlane", record.ControlPlane, "name", record.Name, "reason", problem.Error())
				}
			}
			return nil, err
		}
	}
	in.Email = ""
	if record, err = k.BindPending(ctx, record, nil, in.stored(), made.ID); err != nil {
		return nil, err
	}
	err = k.Fault(wanted.Name, converge(p.ctx, p.connection.Client, *made, settingsOf(wanted.Spec, every)))
	if err != nil {
		// The user exists. The mirror sets the owned fields.
		warning.AddWarning(ctx, "", fmt.Sprintf("the user was created, but not all of the spec could be applied to Coder: %v", err))
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
	request := coderd.NewUser{Username: p.username, Email: spec.Email, Name: spec.FullName, LoginType: spec.LoginType, ServiceAccount: isService(spec)}
	for _, o := range p.organizations {
		request.OrganizationIDs = append(request.OrganizationIDs, o.ID)
	}
	var err error
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

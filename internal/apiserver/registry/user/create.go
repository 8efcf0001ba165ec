package user

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

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
	if p.organizations, err = client.Organizations(ctx); err != nil {
		return p, err
	}
	_, err = find(p.organizations, u.Spec.Organizations)
	switch {
	case err != nil || p.existing != nil:
	case isService(u.Spec):
		err = servicesAllowed(ctx, client)
	default:
		err = freeEmail(ctx, client, u.Spec.Email)
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

// freeEmail returns an error if a user in Coder has the email address.
func freeEmail(ctx context.Context, client *coderd.Client, email string) error {
	users, err := client.UsersByEmail(ctx, email)
	if err == nil && len(users) > 0 {
		err = field.Invalid(emailPath, email, "another user in Coder has this email address")
	}
	return err
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
	in := intent{Owned: ownedFields(wanted), By: setters(nil).with(settingNames(), p.as), PasswordFrom: wanted.Spec.PasswordFrom, ReclaimPolicy: wanted.Spec.ReclaimPolicy, Email: wanted.Spec.Email}
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
				k.forget(ctx, record)
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
		log.FromContext(ctx).V(1).Info("Could not remove the record of a user that Coder rejected; retrying later",
			"controlPlane", record.ControlPlane, "name", record.Name, "reason", err.Error())
	}
}

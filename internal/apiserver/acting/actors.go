package acting

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/coderd/sessions"
	"github.com/coder-k8s/coder-k8s/internal/identity"
)

const (
	// userTTL is how long it is believed that a user of Coder is active, has a name, and has
	// roles.
	userTTL = time.Minute
	// garbageCollector deletes objects whose owners are gone. It may do so with the
	// operator's account unless a rule says otherwise, because who adds an owner reference
	// needs what a deletion needs.
	garbageCollector = "system:serviceaccount:kube-system:generic-garbage-collector"
)

// Config is what Actors work with.
type Config struct {
	Authorizer authorizer.UnconditionalAuthorizer
	Sessions   *sessions.Manager
	Clock      clock.PassiveClock
}

// Actors decides as whom requests change something in Coder. A nil one is for tests:
// everything is done with the operator's account.
type Actors struct {
	config Config
	mu     sync.Mutex
	users  map[userKey]knownUser
}

type userKey struct {
	controlPlane types.NamespacedName
	uid          types.UID
	// name is "name:", "email:", "id:" or "owner:" with what the user is looked up by.
	name string
}

type knownUser struct {
	coderd.User
	readAt time.Time
}

// New returns Actors.
func New(config Config) *Actors { return &Actors{config: config, users: map[userKey]knownUser{}} }

// As is as whom something is done later that was asked for now. Records keep it. Nil is
// the operator's account.
type As struct {
	// ID and Username are those of the Coder user.
	ID       uuid.UUID `json:"id"`
	Username string    `json:"username"`
}

// Subject is what a caller wants to change, or to use.
type Subject struct {
	Resource schema.GroupResource
	Name     string
	// Owner is the username of the workspace's owner. It is empty for a template.
	Owner string
	// Deletes says that it is to be deleted.
	Deletes bool
	// IsUser says that the subject is the Coder user Owner itself, Grants are the roles that
	// the user gets, those in organizations as <organization>/<role>.
	IsUser bool
	Grants []string
}

func (s Subject) forbidden(format string, args ...any) error {
	return apierrors.NewForbidden(s.Resource, s.Name, fmt.Errorf(format, args...))
}

// Begin decides as whom the caller changes the subject. The context has all changes that
// are made with it made as that user. The client of a connection may be nil, where it
// cannot be asked now. Errors are API statuses.
func (a *Actors) Begin(ctx context.Context, connection connections.Connection, s Subject) (context.Context, *As, error) {
	if a == nil {
		return ctx, nil, nil
	}
	session, caller, outcome, err := a.mapped(ctx, connection, s)
	switch {
	case err != nil:
		return ctx, nil, err
	case session != nil:
		return coderd.WithActor(ctx, session), &As{ID: session.UserID(), Username: session.Username()}, nil
	case outcome == identity.Unmapped:
		err = a.mayUnmapped(ctx, connection, caller, s)
	case s.IsUser && (!s.Deletes || caller.GetName() != garbageCollector):
		// With the operator's account anybody could be made an Owner.
		err = a.mayOperate(ctx, connection, caller, s)
	}
	return ctx, nil, err
}

// Client returns the client with which the caller uses the subject: their own, or the
// operator's for callers that are not mapped, whom RBAC alone has let in. Errors are API
// statuses.
func (a *Actors) Client(ctx context.Context, connection connections.Connection, s Subject) (*coderd.Client, error) {
	if a == nil {
		return connection.Client, nil
	}
	session, _, _, err := a.mapped(ctx, connection, s)
	if err != nil || session == nil {
		return connection.Client, err
	}
	return session.Client(), nil
}

// Later returns a context in which what was asked for earlier is done, as the user who
// asked. Errors are API statuses.
func (a *Actors) Later(ctx context.Context, connection connections.Connection, as *As, s Subject) (context.Context, error) {
	if a == nil {
		return ctx, nil
	}
	// Who does something now is not who asked for it.
	ctx = coderd.WithActor(ctx, nil)
	if as == nil {
		return ctx, nil
	}
	found, err := a.known(connection, "id:"+as.ID.String(), func() (coderd.User, error) {
		found, err := connection.Client.UserByName(ctx, as.ID.String())
		if coderd.IsNotFound(err) {
			err = problem("user %q, who asked for it, is not in Coder any more", as.Username)
		}
		if err == nil && found.IsSuspended() {
			err = problem("user %q, who asked for it, is suspended in Coder", found.Username)
		}
		return found, err
	})
	if err != nil {
		return ctx, s.status(err)
	}
	session, err := a.session(ctx, connection, found, s)
	if err != nil {
		return ctx, err
	}
	return coderd.WithActor(ctx, session), nil
}

// mapped returns the session of a caller that is mapped to a Coder user. Otherwise it is
// nil, and the outcome is Operator or Unmapped. Errors are API statuses.
func (a *Actors) mapped(
	ctx context.Context, connection connections.Connection, s Subject,
) (_ *sessions.Session, caller user.Info, outcome identity.Outcome, err error) {
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return nil, nil, "", apierrors.NewInternalError(errors.New("bug: a change of nobody"))
	}
	d := identity.Decide(connection.Rules, caller)
	switch {
	case d.Outcome == identity.Unmapped && s.Deletes && caller.GetName() == garbageCollector:
		return nil, caller, identity.Operator, nil
	case d.Outcome == identity.Nobody:
		return nil, caller, d.Outcome, s.forbidden("%s, and this rule of CoderControlPlane %s lets you change and enter nothing in its Coder", d.Reason, connection.ControlPlane)
	case d.Outcome != identity.CoderUser:
		return nil, caller, d.Outcome, nil
	case connection.Client == nil:
		return nil, caller, d.Outcome, coderfault.Unavailable(fmt.Sprintf("CoderControlPlane %s cannot be asked now", connection.ControlPlane), 0)
	}
	by := "name:" + d.Username
	if d.Username == "" {
		by = "email:" + d.Email
	}
	found, err := a.known(connection, by, func() (coderd.User, error) { return FindUser(ctx, connection.Client, d) })
	if err != nil {
		return nil, caller, d.Outcome, s.status(err)
	}
	if found.IsOwner() {
		if err := a.require(ctx, caller, connection, s, subresourceOwner, found.Username,
			fmt.Sprintf("%s, and user %q is an Owner in Coder", d.Reason, found.Username)); err != nil {
			return nil, caller, d.Outcome, err
		}
	}
	session, err := a.session(ctx, connection, found, s)
	return session, caller, d.Outcome, err
}

// session returns the session of a user. Errors are API statuses.
func (a *Actors) session(ctx context.Context, connection connections.Connection, found coderd.User, s Subject) (*sessions.Session, error) {
	session, err := a.config.Sessions.Get(ctx, connection, found)
	switch {
	case err == nil:
		return session, nil
	case errors.Is(err, sessions.ErrEnded):
		return nil, coderfault.Unavailable(err.Error(), 0)
	case coderd.IsForbidden(err), coderd.IsInvalid(err), coderd.IsNotFound(err), coderd.IsConflict(err):
		return nil, s.forbidden("you act as user %q in Coder, for whom Coder lets the operator make no token that lives %s: %w",
			found.Username, sessions.Lifetime, err)
	default:
		return nil, s.status(err)
	}
}

// mayUnmapped wants the virtual permission of a caller that is not mapped.
func (a *Actors) mayUnmapped(ctx context.Context, connection connections.Connection, caller user.Info, s Subject) error {
	unmapped := fmt.Sprintf("no rule of spec.identity.rules of CoderControlPlane %s matches you", connection.ControlPlane)
	if s.Owner == "" || s.IsUser {
		err := a.require(ctx, caller, connection, s, subresourceOperator, connection.ControlPlane.Name, unmapped)
		if err != nil || s.Owner == "" {
			return err
		}
	}
	if err := a.mayGrant(ctx, connection, caller, s); err != nil {
		return err
	}
	if err := a.require(ctx, caller, connection, s, "", s.Owner, unmapped); err != nil {
		return err
	}
	return a.mayForOwner(ctx, connection, caller, s, unmapped)
}

// mayOperate wants of a caller whom a rule lets act as the operator the permission for
// Owners, if the subject is one or becomes one.
func (a *Actors) mayOperate(ctx context.Context, connection connections.Connection, caller user.Info, s Subject) error {
	if slices.Contains(s.Grants, roleOwner) {
		return a.mayMakeOwner(ctx, connection, caller, s)
	}
	return a.mayForOwner(ctx, connection, caller, s, "a rule lets you act with the operator's account")
}

// mayForOwner wants the permission for Owners if the user of the subject is one. Because
// says why the operator's account is used.
func (a *Actors) mayForOwner(ctx context.Context, connection connections.Connection, caller user.Info, s Subject, because string) error {
	// Who may act for Owners too needs no question to Coder.
	refused := a.require(ctx, caller, connection, s, subresourceOwner, s.Owner, fmt.Sprintf("%s, and user %q is an Owner in Coder", because, s.Owner))
	if !apierrors.IsForbidden(refused) {
		return refused
	}
	if connection.Client == nil {
		return coderfault.Unavailable(fmt.Sprintf("CoderControlPlane %s cannot be asked now whether user %q is an Owner", connection.ControlPlane, s.Owner), 0)
	}
	owner, err := a.known(connection, "owner:"+s.Owner, func() (coderd.User, error) { return connection.Client.UserByName(ctx, s.Owner) })
	switch {
	case coderd.IsNotFound(err) || err == nil && !owner.IsOwner():
		return nil
	case err != nil:
		return s.status(err)
	}
	return refused
}

// mayGrant wants of a caller who gives roles with the operator's account the permissions
// over everybody over whom the roles give power.
func (a *Actors) mayGrant(ctx context.Context, connection connections.Connection, caller user.Info, s Subject) error {
	if slices.Contains(s.Grants, roleOwner) {
		if err := a.mayMakeOwner(ctx, connection, caller, s); err != nil {
			return err
		}
	}
	if len(s.Grants) == 0 {
		return nil
	}
	// No name stands for all users.
	return a.require(ctx, caller, connection, s, "", "",
		fmt.Sprintf("it gives user %q the roles %s, which give power over other users", s.Owner, strings.Join(s.Grants, ", ")))
}

func (a *Actors) mayMakeOwner(ctx context.Context, connection connections.Connection, caller user.Info, s Subject) error {
	return a.require(ctx, caller, connection, s, subresourceOwner, s.Owner, fmt.Sprintf("it makes user %q an Owner in Coder", s.Owner))
}

// roleOwner may do everything in Coder.
const roleOwner = "owner"

// require wants the verb impersonate on coderusers, or on a subresource of it. Because
// says why it is needed.
func (a *Actors) require(
	ctx context.Context, caller user.Info, connection connections.Connection, s Subject, subresource, name, because string,
) error {
	namespace := connection.ControlPlane.Namespace
	decision, _, err := a.config.Authorizer.Authorize(ctx, impersonation(caller, namespace, subresource, name))
	switch {
	case err != nil:
		return coderfault.Unavailable(fmt.Sprintf("what %q may do cannot be found out now: %v", caller.GetName(), err), 0)
	case decision == authorizer.DecisionAllow:
		return nil
	}
	resource := resourceUsers
	if subresource != "" {
		resource += "/" + subresource
	}
	of := fmt.Sprintf("%s %q", resource, strings.ToLower(name))
	if name == "" {
		of = resource + " without resourceNames"
	}
	return s.forbidden("%s, so this needs the verb impersonate on %s of group aggregation.coder.com in namespace %q, "+
		"which %q lacks: ask who administers the control plane for that, or for a rule that maps you to your Coder user",
		because, of, namespace, caller.GetName())
}

// known returns a user that was looked up lately, or looks it up.
func (a *Actors) known(connection connections.Connection, by string, look func() (coderd.User, error)) (coderd.User, error) {
	k := userKey{connection.ControlPlane, connection.UID, by}
	now := a.config.Clock.Now()
	a.mu.Lock()
	known, ok := a.users[k]
	a.mu.Unlock()
	if ok && now.Sub(known.readAt) < userTTL {
		return known.User, nil
	}
	found, err := look()
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.users, k)
	if err != nil {
		return found, err
	}
	for other, old := range a.users {
		if now.Sub(old.readAt) >= userTTL {
			delete(a.users, other)
		}
	}
	a.users[k] = knownUser{found, now}
	return found, nil
}

// status is the API status of an error about a Coder user.
func (s Subject) status(err error) error {
	if message, ok := problemOf(err); ok {
		return s.forbidden("%s", message)
	}
	return coderfault.Subject{Resource: s.Resource, Name: s.Name}.Status(err)
}

// May returns nil if the user as whom the context acts has the permissions in Coder.
// Without such a user it is nil. It is for what Coder is not told at once, and so
// cannot refuse. Errors are API statuses.
func May(ctx context.Context, client *coderd.Client, s Subject, wanted ...coderd.Permission) error {
	actor := coderd.ActorFrom(ctx)
	if actor == nil {
		return nil
	}
	ok, err := client.May(ctx, wanted...)
	if err != nil {
		return s.status(err)
	}
	if !ok {
		return s.forbidden("user %q, as whom you act, may not %s this in Coder", actor.Username(), wanted[0].Action)
	}
	return nil
}

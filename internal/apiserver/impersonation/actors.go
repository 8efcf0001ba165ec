package impersonation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/coderd/usertokens"
)

const (
	// userTTL is how long the status, the name and the roles of a Coder user are cached.
	userTTL = time.Minute
	// problemTTL is how long a review shows that no user was found. A change does not use it, because
	// somebody may have solved the problem.
	problemTTL = 10 * time.Second
	// maxUsers limits how many users are cached.
	maxUsers = 10_000
	// garbageCollector deletes objects whose owners are gone. Unless a rule says otherwise, it may
	// use the operator's account, because adding an owner reference requires the permissions of a
	// deletion.
	garbageCollector = "system:serviceaccount:kube-system:generic-garbage-collector"
)

// Config configures Actors.
type Config struct {
	Authorizer authorizer.UnconditionalAuthorizer
	Sessions   *usertokens.Sessions
	Clock      clock.PassiveClock
	// Board lists the control planes that exist.
	Board   *syncstatus.Board
	Metrics *Metrics
}

// Actors decides as which Coder user a request changes Coder. A nil Actors uses the operator's
// account for all requests. It is for tests.
type Actors struct {
	config Config
	// users maps a userKey to a knownUser.
	users *lru.Cache
	// reviews are the lookups for reviews that are running.
	reviews singleflight.Group
	mu      sync.Mutex
	// counted are the control planes with metrics.
	counted sets.Set[types.NamespacedName]
}

type userKey struct {
	controlPlane types.NamespacedName
	uid          types.UID
	// name is "name:", "email:" or "id:", followed by the key of the lookup. The key of a problem also
	// contains the reason of the decision.
	name string
}

type knownUser struct {
	coderd.User
	// problem is the error of the lookup, or nil.
	problem error
	readAt  time.Time
}

// New returns Actors.
func New(config Config) *Actors {
	return &Actors{config: config, users: lru.New(maxUsers), counted: sets.Set[types.NamespacedName]{}}
}

// As is the Coder user as whom a change is made later than it was requested. It is stored in
// records. Nil means the operator's account.
type As struct {
	// ID and Username identify the Coder user.
	ID       uuid.UUID `json:"id"`
	Username string    `json:"username"`
}

// Subject is the object that a caller wants to change or use.
type Subject struct {
	Resource schema.GroupResource
	Name     string
	// Owner is the owner of the workspace. It is nil for a template.
	Owner *Owner
	// Deletes is true if the subject is to be deleted.
	Deletes bool
	// IsUser is true if the subject is the Coder user Owner itself. Grants are the roles that the
	// user gets. A role in an organization has the form <organization>/<role>.
	IsUser bool
	Grants []string
}

// Owner is the Coder user of a Subject, as Coder reports it for this change, and not as an object shows
// it: users are renamed. It is empty if Coder cannot be asked now.
type Owner struct {
	// ID is zero if Coder has no such user.
	ID       uuid.UUID
	Username string
}

func (s Subject) forbidden(format string, args ...any) error {
	return apierrors.NewForbidden(s.Resource, s.Name, fmt.Errorf(format, args...))
}

// Begin decides as whom the caller changes the subject. Changes with the returned context are made
// as the caller's Coder user, or else with the operator's account if the caller has the permission
// for that. The client of a connection may be nil if Coder cannot be reached now. Errors are API
// statuses.
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
	case outcome == Unmapped:
		err = a.mayUnmapped(ctx, connection, caller, s)
	case s.IsUser && (!s.Deletes || caller.GetName() != garbageCollector):
		// With the operator's account every user could be made an Owner.
		err = a.mayOperate(ctx, connection, caller, s)
	}
	return ctx, nil, err
}

// Client returns the client with which the caller uses the subject: the client of the caller's
// Coder user, or the operator's client for unmapped callers, which RBAC alone authorizes. Errors
// are API statuses.
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

// Later returns a context for changes that were requested earlier. They are made as the user who
// requested them. Errors are API statuses.
func (a *Actors) Later(ctx context.Context, connection connections.Connection, as *As, s Subject) (context.Context, error) {
	if a == nil {
		return ctx, nil
	}
	// The present caller is not the one who requested the change.
	ctx = coderd.WithActor(ctx, nil)
	if as == nil {
		return ctx, nil
	}
	found, err := a.known(userKey{connection.ControlPlane, connection.UID, "id:" + as.ID.String()}, func() (coderd.User, error) {
		// A lookup by name would also return a deleted user.
		found, err := connection.Client.UserByID(ctx, as.ID)
		if coderd.IsNotFound(err) {
			err = problem("user %q, who requested the change, no longer exists in Coder; request it again as another user", as.Username)
		}
		if err == nil && found.IsSuspended() {
			err = problem("user %q, who requested the change, is suspended in Coder; activate the user, or request it again as another user", found.Username)
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

// mapped returns the session of a caller that is mapped to a Coder user. Otherwise the session is
// nil, and the outcome is Operator or Unmapped. Errors are API statuses.
func (a *Actors) mapped(
	ctx context.Context, connection connections.Connection, s Subject,
) (_ *usertokens.Session, caller user.Info, outcome Outcome, err error) {
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return nil, nil, "", apierrors.NewInternalError(errors.New("bug: the request has no user"))
	}
	d := Decide(connection.Rules, caller)
	a.count(connection.ControlPlane, d.Rule)
	switch {
	case d.Outcome == Unmapped && s.Deletes && caller.GetName() == garbageCollector:
		return nil, caller, Operator, nil
	case d.Outcome == Nobody:
		return nil, caller, d.Outcome, s.forbidden("%s, and this rule of CoderControlPlane %s denies all changes and all sessions in workspaces", d.Reason, connection.ControlPlane)
	case d.Outcome != CoderUser:
		return nil, caller, d.Outcome, nil
	case connection.Client == nil:
		return nil, caller, d.Outcome, coderfault.Unavailable(fmt.Sprintf("CoderControlPlane %s is not available", connection.ControlPlane), 0)
	}
	found, err := a.known(keyOf(connection, d), func() (coderd.User, error) { return FindUser(ctx, connection.Client, d) })
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
func (a *Actors) session(ctx context.Context, connection connections.Connection, found coderd.User, s Subject) (*usertokens.Session, error) {
	session, err := a.config.Sessions.Get(ctx, connection, found)
	switch {
	case err == nil:
		return session, nil
	case errors.Is(err, usertokens.ErrEnded):
		return nil, coderfault.Unavailable(err.Error(), 0)
	case coderd.IsForbidden(err), coderd.IsInvalid(err), coderd.IsNotFound(err), coderd.IsConflict(err):
		return nil, s.forbidden("you act as user %q in Coder, but Coder does not let the operator create a token of this user with a lifetime of %s: %w",
			found.Username, usertokens.SessionLifetime, err)
	default:
		return nil, s.status(err)
	}
}

// mayUnmapped checks the impersonate permission of an unmapped caller.
func (a *Actors) mayUnmapped(ctx context.Context, connection connections.Connection, caller user.Info, s Subject) error {
	unmapped := fmt.Sprintf("no rule of spec.identity.rules of CoderControlPlane %s matches you", connection.ControlPlane)
	if s.Owner == nil || s.IsUser {
		err := a.require(ctx, caller, connection, s, subresourceOperator, connection.ControlPlane.Name, unmapped)
		if err != nil || s.Owner == nil {
			return err
		}
	}
	if err := a.mayGrant(ctx, connection, caller, s); err != nil {
		return err
	}
	if err := a.require(ctx, caller, connection, s, "", s.Owner.Username, unmapped); err != nil {
		return s.ifKnown(connection, err)
	}
	return a.mayForOwner(ctx, connection, caller, s, unmapped)
}

// mayOperate checks the permission for Owners if the subject is an Owner or becomes one. It is for
// callers to whom a rule assigns the operator's account.
func (a *Actors) mayOperate(ctx context.Context, connection connections.Connection, caller user.Info, s Subject) error {
	if slices.Contains(s.Grants, roleOwner) {
		return a.mayMakeOwner(ctx, connection, caller, s)
	}
	return a.mayForOwner(ctx, connection, caller, s, "a rule maps you to the operator's account")
}

// mayForOwner checks the permission for Owners if the user of the subject is one. because is the
// reason why the operator's account is used.
func (a *Actors) mayForOwner(ctx context.Context, connection connections.Connection, caller user.Info, s Subject, because string) error {
	// A caller with the permission for Owners needs no lookup in Coder.
	refused := a.require(ctx, caller, connection, s, subresourceOwner, s.Owner.Username, fmt.Sprintf("%s, and user %q is an Owner in Coder", because, s.Owner.Username))
	switch {
	case !apierrors.IsForbidden(refused):
		return refused
	case *s.Owner == (Owner{}):
		return s.ifKnown(connection, refused)
	case s.Owner.ID == uuid.Nil && s.IsUser:
		// A new user has no roles but those that mayGrant and mayOperate check.
		return nil
	case s.Owner.ID == uuid.Nil:
		return s.forbidden("there is no user %q in Coder", s.Owner.Username)
	}
	// The roles are not cached, and not looked up by a name: either would be those of another user after a rename.
	owner, err := connection.Client.UserByName(ctx, s.Owner.ID.String())
	switch {
	case coderd.IsNotFound(err):
		return s.forbidden("there is no user %q in Coder", s.Owner.Username)
	case err != nil:
		return s.status(err)
	case owner.IsOwner():
		return refused
	}
	return nil
}

// ifKnown returns 503 instead of a refusal if Coder cannot be asked who the owner is. Only callers with
// the permission for all users need not wait.
func (s Subject) ifKnown(connection connections.Connection, refused error) error {
	if !apierrors.IsForbidden(refused) || *s.Owner != (Owner{}) {
		return refused
	}
	return coderfault.Unavailable(fmt.Sprintf("CoderControlPlane %s does not answer, or no longer has this %s, so it cannot be checked who may change it: try again later (%v)",
		connection.ControlPlane, strings.TrimSuffix(s.Resource.Resource, "s"), refused), 0)
}

// mayGrant checks the permissions of a caller who assigns roles with the operator's account: the
// caller needs permissions for all users that the roles have power over.
func (a *Actors) mayGrant(ctx context.Context, connection connections.Connection, caller user.Info, s Subject) error {
	if slices.Contains(s.Grants, roleOwner) {
		if err := a.mayMakeOwner(ctx, connection, caller, s); err != nil {
			return err
		}
	}
	if len(s.Grants) == 0 {
		return nil
	}
	// An empty name means all users.
	return a.require(ctx, caller, connection, s, "", "",
		fmt.Sprintf("user %q would get the roles %s, which have permissions on other users", s.Owner.Username, strings.Join(s.Grants, ", ")))
}

func (a *Actors) mayMakeOwner(ctx context.Context, connection connections.Connection, caller user.Info, s Subject) error {
	return a.require(ctx, caller, connection, s, subresourceOwner, s.Owner.Username, fmt.Sprintf("user %q would become an Owner in Coder", s.Owner.Username))
}

// roleOwner is the role that may do everything in Coder.
const roleOwner = "owner"

// require checks the verb impersonate on coderusers, or on a subresource of it. because is the
// reason why it is needed.
func (a *Actors) require(
	ctx context.Context, caller user.Info, connection connections.Connection, s Subject, subresource, name, because string,
) error {
	namespace := connection.ControlPlane.Namespace
	if allowed, err := Allowed(ctx, a.config.Authorizer, impersonation(caller, namespace, subresource, name)); err != nil || allowed {
		return err
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
		"which %q lacks: ask an administrator of the control plane for this permission, or for a rule that maps you to your Coder user",
		because, of, namespace, caller.GetName())
}

// keyOf returns the key of the user that a decision names.
func keyOf(connection connections.Connection, d Decision) userKey {
	by := "name:" + d.Username
	if d.Username == "" {
		by = "email:" + d.Email
	}
	return userKey{connection.ControlPlane, connection.UID, by}
}

// known returns a user from the cache, or looks it up.
func (a *Actors) known(k userKey, look func() (coderd.User, error)) (coderd.User, error) {
	if cached, ok := a.cached(k); ok {
		return cached.User, nil
	}
	found, err := look()
	if err != nil {
		a.users.Remove(k)
		return found, err
	}
	a.users.Add(k, knownUser{User: found, readAt: a.config.Clock.Now()})
	return found, nil
}

func (a *Actors) cached(k userKey) (knownUser, bool) {
	value, _ := a.users.Get(k)
	known, ok := value.(knownUser)
	ttl := userTTL
	if known.problem != nil {
		ttl = problemTTL
	}
	return known, ok && a.config.Clock.Since(known.readAt) < ttl
}

// status returns the API status of an error about a Coder user.
func (s Subject) status(err error) error {
	var p *ProblemError
	if errors.As(err, &p) {
		return s.forbidden("%s", p.Message)
	}
	return coderfault.Subject{Resource: s.Resource, Name: s.Name}.Status(err)
}

// May returns nil if the Coder user of the context has the permissions, or if the context has no
// user. It is for changes that are sent to Coder later, so that Coder cannot reject them at once.
// Errors are API statuses.
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
		return s.forbidden("you act as user %q in Coder, who has no permission to %s this", actor.Username(), wanted[0].Action)
	}
	return nil
}

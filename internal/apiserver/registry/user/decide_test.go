package user

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	userinfo "k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	clocktesting "k8s.io/utils/clock/testing"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records/recordstest"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/coderd/usertokens"
)

// permitted are the resources and names for which the caller carol has the verb impersonate.
type permitted []string

// Authorize implements authorizer.UnconditionalAuthorizer.
func (p permitted) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	resource := a.GetResource()
	if a.GetSubresource() != "" {
		resource += "/" + a.GetSubresource()
	}
	if slices.Contains(p, resource+" "+a.GetName()) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionDeny, "", nil
}

// provider provides a single control plane.
type provider struct{ connection connections.Connection }

func (p provider) ForNamespace(context.Context, string) ([]connections.Connection, error) {
	return []connections.Connection{p.connection}, nil
}

func (p provider) Members(context.Context) ([]connections.Member, error) {
	return []connections.Member{{ControlPlane: p.connection.ControlPlane, Connection: &p.connection, Named: true}}, nil
}

// fixture has a Coder and its records. No mirror runs.
type fixture struct {
	t     *testing.T
	coder *coderdtest.Server
	provider
	kind *Kind
}

// newFixture returns a Coder with the users operator, boss (an Owner), ada and bob. The caller alice
// acts as ada, and the caller carol with the operator's account, with these permissions.
func newFixture(t *testing.T, permissions ...string) *fixture {
	t.Helper()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	f := &fixture{t: t, coder: coderdtest.New(t, coderdtest.WithClock(clock))}
	token := f.coder.AddUser("operator", "owner")
	f.coder.AddUser("boss", "owner")
	f.coder.AddUser("ada", "member")
	f.coder.AddUser("bob", "member")
	client, err := coderd.New(coderd.Config{URL: f.coder.URL, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	f.connection = connections.Connection{
		ControlPlane: types.NamespacedName{Namespace: "team", Name: "cp"}, Client: client,
		Rules: []coderv1alpha1.IdentityRule{{
			Match: coderv1alpha1.IdentityMatch{UserName: "alice"}, CoderUser: &coderv1alpha1.CoderUserReference{Username: "ada"},
		}},
	}
	actors := impersonation.New(impersonation.Config{
		Authorizer: permitted(permissions), Sessions: usertokens.NewSessions(f.provider, "replica", clock), Clock: clock,
	})
	f.kind = New(Config{Config: registry.Config{
		Connections: f.provider, Records: recordstest.NewWithClock(t, clock), Clock: clock, Actors: actors,
	}})
	return f
}

// object reads a user as the mirror does.
func (f *fixture) object(username string) object {
	f.t.Helper()
	item, err := f.connection.Client.UserByName(f.t.Context(), username)
	if err != nil {
		f.t.Fatal(err)
	}
	record, _ := f.kind.Records.Get(f.connection.ControlPlane, types.UID(item.ID.String()))
	obj, err := f.kind.Object(f.t.Context(), f.connection, item, record, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return obj.(object)
}

// update changes an object as a caller, first as a dry run.
func (f *fixture) update(caller string, was object, change func(u object)) error {
	f.t.Helper()
	ctx := request.WithUser(f.t.Context(), &userinfo.DefaultInfo{Name: caller})
	wanted := was.DeepCopy()
	change(wanted)
	dryRun := f.kind.CheckUpdate(ctx, wanted, was)
	_, err := f.kind.Write(ctx, "key", was, wanted)
	if apierrors.IsForbidden(dryRun) && !apierrors.IsForbidden(err) {
		f.t.Errorf("the dry run: %v, the write: %v", dryRun, err)
	}
	if newer, ok := errors.AsType[*records.NewerError](err); ok {
		// The Store repeats it.
		return f.update(caller, newer.Object.(object), change)
	}
	return err
}

// owned makes a manager own fields of the spec.
func owned(manager, fields string) func(u object) {
	return func(u object) {
		u.ManagedFields = append(slices.Clone(u.ManagedFields), metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{` + fields + `}}`),
		})
	}
}

// edited makes a manager that does not apply own a field of the spec.
func edited(u object) {
	owned("edit", `"f:fullName":{}`)(u)
	u.ManagedFields[len(u.ManagedFields)-1].Operation = metav1.ManagedFieldsOperationUpdate
}

func (f *fixture) settersOf(u object) string {
	record, ok := f.kind.Records.Get(f.connection.ControlPlane, types.UID(u.Status.ID))
	if !ok {
		return ""
	}
	in, err := registry.ReadIntent[intent](record)
	if err != nil {
		f.t.Fatal(err)
	}
	out := ""
	for _, set := range in.stored().By {
		out += set.Field + "=" + set.As.Username + " "
	}
	return out
}

// TestOwnershipNeedsAPermission checks that a caller who may not change a user in Coder can neither become the owner of a
// field, nor take it from another manager, and that each field is corrected as the user who set it.
func TestOwnershipNeedsAPermission(t *testing.T) {
	f := newFixture(t, "coderusers/operator cp", "coderusers bob", "coderusers ")
	bob := f.object("bob")
	name := func(u object) { u.Spec.FullName = "Bob" }
	for what, change := range map[string]func(u object){
		"owns a field":          owned("mine", `"f:suspended":{}`),
		"sets a reclaim policy": func(u object) { u.Spec.ReclaimPolicy = "Delete" },
		"changes a value":       name,
	} {
		if err := f.update("alice", bob, change); !apierrors.IsForbidden(err) {
			t.Errorf("alice %s: %v, want 403", what, err)
		}
	}
	if err := f.update("carol", bob, func(u object) { name(u); owned("git", `"f:fullName":{},"f:suspended":{}`)(u); edited(u) }); err != nil {
		t.Fatal(err)
	}
	bob = f.object("bob")
	// The API server merges the managers of updates when there are too many, no matter which client writes.
	if err := f.update("alice", bob, func(u object) {
		u.Labels["a"] = "b"
		u.ManagedFields[len(u.ManagedFields)-1].Manager = "ancient-changes"
	}); err != nil {
		t.Errorf("a label, after many updates: %v", err)
	}
	for what, change := range map[string]func(u object){
		"owns another field":      owned("mine", `"f:roles":{}`),
		"owns a field of another": owned("mine", `"f:fullName":{}`),
		"takes a field":           func(u object) { u.ManagedFields = nil },
	} {
		if err := f.update("alice", bob, change); !apierrors.IsForbidden(err) {
			t.Errorf("alice %s: %v, want 403", what, err)
		}
	}
	if err := f.update("alice", bob, func(u object) { u.Labels["a"] = "b" }); err != nil {
		t.Errorf("a label: %v", err)
	}
	f.coder.EditUser("ada", "", false, "user-admin")
	if err := f.update("alice", f.object("bob"), owned("mine", `"f:roles":{},"f:suspended":{}`)); err != nil {
		t.Fatal(err)
	}
	if got := f.settersOf(bob); got != "roles=ada suspended=ada " {
		t.Errorf("the setters are %q", got)
	}
	// What carol set is corrected with the operator's account, and what alice set as ada.
	f.coder.EditUser("ada", "", false)
	f.coder.EditUser("bob", "x", true)
	bob = f.object("bob")
	record, _ := f.kind.Records.Get(f.connection.ControlPlane, types.UID(bob.Status.ID))
	item, err := f.connection.Client.UserByID(t.Context(), uuid.MustParse(bob.Status.ID))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.kind.Settle(t.Context(), f.connection, item, record); err != nil {
		t.Fatal(err)
	}
	if u, _ := f.coder.User("bob"); u.Name != "Bob" || !u.Suspended {
		t.Errorf("bob is %+v", u)
	}
}

// TestOwnersAreThoseOfNow checks that a change of a user is authorized for the present name and roles.
func TestOwnersAreThoseOfNow(t *testing.T) {
	for name, c := range map[string]struct {
		since   func(*coderdtest.Server)
		has     []string
		allowed bool
	}{
		"an Owner is renamed":            {func(s *coderdtest.Server) { s.RenameUser("boss", "head") }, []string{"coderusers boss", "coderusers head"}, false},
		"with the old name":              {func(s *coderdtest.Server) { s.RenameUser("boss", "head") }, []string{"coderusers boss", "coderusers/owner boss"}, false},
		"with the new name":              {func(s *coderdtest.Server) { s.RenameUser("boss", "head") }, []string{"coderusers head", "coderusers/owner head"}, true},
		"somebody else has the old name": {func(s *coderdtest.Server) { s.RenameUser("boss", "head"); s.RenameUser("bob", "boss") }, []string{"coderusers boss", "coderusers head"}, false},
		"not an Owner any more":          {func(s *coderdtest.Server) { s.EditUser("boss", "", false) }, []string{"coderusers boss"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, append(c.has, "coderusers/operator cp")...)
			boss := f.object("boss")
			c.since(f.coder)
			err := f.update("carol", boss, func(u object) { u.Spec.FullName = "x" })
			if c.allowed && err != nil || !c.allowed && !apierrors.IsForbidden(err) {
				t.Errorf("a change: %v, allowed %t", err, c.allowed)
			}
			ctx := request.WithUser(t.Context(), &userinfo.DefaultInfo{Name: "carol"})
			if _, err := f.kind.Write(ctx, "key", boss, nil); !c.allowed && !apierrors.IsForbidden(err) {
				t.Errorf("the deletion: %v", err)
			}
		})
	}
}

// TestNewUsersNeedNoLookup checks that the creation of a user is authorized by the roles, unless the user exists already.
func TestNewUsersNeedNoLookup(t *testing.T) {
	f := newFixture(t, "coderusers/operator cp", "coderusers zoe", "coderusers boss", "coderusers ")
	create := func(name string, roles ...string) error {
		u := info.New().(object)
		u.Name, u.Namespace = name, "team"
		u.Spec.Email, u.Spec.LoginType, u.Spec.Roles = name+"@example.com", "none", roles
		ctx := request.WithUser(t.Context(), &userinfo.DefaultInfo{Name: "carol"})
		_, err := f.kind.Write(ctx, "key", nil, u)
		return err
	}
	if err := create("zoe", "owner"); !apierrors.IsForbidden(err) {
		t.Errorf("an Owner: %v, want 403", err)
	}
	if err := create("boss"); !apierrors.IsForbidden(err) {
		t.Errorf("the name of an Owner: %v, want 403", err)
	}
	if err := create("zoe", "auditor"); err != nil {
		t.Error(err)
	}
}

// TestSettersOfEarlierVersions checks that the user of a record of an earlier version is that of all fields until they change.
func TestSettersOfEarlierVersions(t *testing.T) {
	id := uuid.New()
	var in intent
	if err := json.Unmarshal([]byte(`{"by":{"id":"`+id.String()+`","username":"ada"}}`), &in); err != nil {
		t.Fatal(err)
	}
	by := in.By.with([]string{"roles"}, nil)
	if in.By.of("roles").Username != "ada" || by.of("roles") != nil || by.of("suspended").ID != id {
		t.Errorf("%+v, then %+v", in.By, by)
	}
	data, err := json.Marshal(intent{By: by})
	if err != nil {
		t.Fatal(err)
	}
	var again intent
	if err := json.Unmarshal(data, &again); err != nil || again.By.of("fullName").Username != "ada" || again.By.of("roles") != nil {
		t.Errorf("%s: %+v, %v", data, again.By, err)
	}
}

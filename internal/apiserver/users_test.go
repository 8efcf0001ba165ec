package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	kubetesting "k8s.io/client-go/testing"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/usertokens"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

var usersGVR = schema.GroupVersionResource{Group: "aggregation.coder.com", Version: "v1alpha1", Resource: "coderusers"}

func (f *fixture) users() dynamic.ResourceInterface {
	return f.client.Resource(usersGVR).Namespace(f.namespace)
}

func userObject(name string, spec map[string]any) *unstructured.Unstructured {
	return object("CoderUser", name, spec)
}

// zoe is a user with a password.
func zoe(more map[string]any) *unstructured.Unstructured {
	spec := map[string]any{"email": "zoe@example.com", "loginType": "password"}
	for key, value := range more {
		spec[key] = value
	}
	return userObject("zoe", spec)
}

// applyUser applies a manifest.
func (f *fixture) applyUser(t *testing.T, u *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	out, err := f.users().Apply(t.Context(), u.GetName(), u, metav1.ApplyOptions{FieldManager: "git"})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// userIs waits until a user in Coder is as it should be.
func (f *fixture) userIs(t *testing.T, username, what string, ok func(coderdtest.UserState) bool) {
	t.Helper()
	polltest.Eventually(t, username+" in Coder: "+what, func() error {
		if u, found := f.coder.User(username); !found || !ok(u) {
			return fmt.Errorf("%v: %+v", found, u)
		}
		return nil
	})
}

func TestUsersAreShown(t *testing.T) {
	f := newFixture(t)
	f.coder.AddUser("Boss", "owner", "auditor")
	f.coder.SetMember("boss", "coder", "organization-admin")
	f.coder.SeeUser("boss", time.Now().Add(-26*time.Hour))
	f.coder.EditUser("ada", "Ada Lovelace", true)
	boss := until(t, f.users(), "boss", func(u *unstructured.Unstructured) bool {
		return strings.Contains(at(u, "status", "organizations"), "organization-admin")
	})
	for path, want := range map[string]string{
		"status.username": "Boss", "status.email": "Boss@example.com", "status.roles": "[auditor owner]", "status.state": "active",
		"status.organizations": "[map[name:coder roles:[organization-admin]]]", "spec.loginType": "password", "spec.suspended": "false",
		"spec.organizations": "[map[name:coder roles:[organization-admin]]]",
	} {
		if got := at(boss, strings.Split(path, ".")...); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	until(t, f.users(), "ada", func(u *unstructured.Unstructured) bool {
		return at(u, "status", "state") == "suspended" && condition(u, "Ready") == "True Suspended" && at(u, "spec", "fullName") == "Ada Lovelace"
	})
	table := f.do(t, http.MethodGet, f.path("coderusers/boss"), map[string]string{"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}, "")
	if want := `"cells":["boss","Boss@example.com","active","auditor,owner","password","26h",`; !strings.Contains(table.body, want) {
		t.Errorf("%s does not have %s", table.body, want)
	}
	list, err := f.users().List(t.Context(), metav1.ListOptions{FieldSelector: "status.state=suspended"})
	if err != nil || !slices.Equal(names(list), []string{"ada"}) {
		t.Errorf("%v, %v", list, err)
	}
	// Of tokens name and times are shown, and not those that the operator makes.
	token := f.coder.AddNamedToken("boss", "laptop", time.Hour)
	f.coder.AddNamedToken("boss", usertokens.SessionPrefix+"boss", time.Hour)
	f.coder.AddNamedToken("boss", "old", -time.Hour)
	boss = until(t, f.users(), "boss", func(u *unstructured.Unstructured) bool {
		return strings.Contains(at(u, "status", "tokens"), "name:laptop") && at(u, "status", "tokenCount") == "2"
	})
	if text := fmt.Sprint(boss.Object); strings.Contains(text, token) || strings.Contains(text, token[:10]) {
		t.Errorf("the object has the token: %s", text)
	}
	// A user who is renamed keeps the object, and one who is deleted has none.
	f.coder.RenameUser("ada", "countess")
	until(t, f.users(), "ada", func(u *unstructured.Unstructured) bool { return at(u, "status", "username") == "countess" })
	f.coder.RemoveUser("countess")
	gone(t, f.users(), "ada")
}

// TestUsersAtRest writes nothing while users only work.
func TestUsersAtRest(t *testing.T) {
	f := newFixture(t)
	seen := time.Now().Add(-10 * time.Hour)
	f.coder.SeeUser("ada", seen)
	before := until(t, f.users(), "ada", func(u *unstructured.Unstructured) bool { return at(u, "status", "lastSeenAt") != "" })
	f.coder.SeeUser("ada", seen.Add(50*time.Minute))
	const list, one = "GET /api/v2/users", "GET /api/v2/users/{user}/roles"
	start := f.coder.Requests()
	polltest.Eventually(t, "the users are listed three times, and none is read by itself", func() error {
		now := f.coder.Requests()
		if n := now[one] - start[one]; n > 0 {
			// Users that were listed before the mirror saw its own first write of them are read again.
			start = now
			return fmt.Errorf("%d users were read by themselves", n)
		}
		if n := now[list] - start[list]; n < 3 {
			return fmt.Errorf("they were listed %d times", n)
		}
		return nil
	})
	after := until(t, f.users(), "ada", func(*unstructured.Unstructured) bool { return true })
	if before.GetResourceVersion() != after.GetResourceVersion() {
		t.Errorf("the object was written: %v, was %v", after.Object, before.Object)
	}
	f.coder.SeeUser("ada", seen.Add(70*time.Minute))
	until(t, f.users(), "ada", func(u *unstructured.Unstructured) bool { return u.GetResourceVersion() != after.GetResourceVersion() })
}

// newSecretsFixture returns a namespace on a server of its own, in which all callers but one may
// read Secrets.
func newSecretsFixture(t *testing.T, but string) *fixture {
	t.Helper()
	t.Parallel()
	s := newSite(t, logged)
	// Before the start: the fake takes no reactors while it is used.
	s.kube.PrependReactor("create", "subjectaccessreviews", func(action kubetesting.Action) (bool, runtime.Object, error) {
		review := action.(kubetesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		review.Status.Allowed = review.Spec.User != but
		return true, review, nil
	})
	s.start(t)
	return join(t, s)
}

func TestUserIsCreated(t *testing.T) {
	f := newSecretsFixture(t, "")
	f.coder.AddOrganization("second")
	if _, err := f.kube.CoreV1().Secrets(f.namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "zoe"}, Data: map[string][]byte{"password": []byte("Secret-Passw0rd")},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	created, err := f.users().Create(t.Context(), zoe(map[string]any{
		"fullName": "Zoe", "roles": []any{"template-admin"}, "suspended": true,
		"organizations": []any{map[string]any{"name": "second", "roles": []any{"organization-admin"}}},
		"passwordFrom":  map[string]any{"secretKeyRef": map[string]any{"name": "zoe", "key": "password"}},
	}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if condition(created, "Synced") != "True Synced" || at(created, "status", "state") != "suspended" {
		t.Errorf("created %v", created.Object)
	}
	got, _ := f.coder.User("zoe")
	if idIn(created) != got.ID.String() {
		t.Errorf("the id is %s, want %s", idIn(created), got.ID)
	}
	if got.Password != "Secret-Passw0rd" || got.Name != "Zoe" || !got.Suspended || !slices.Equal(got.Roles, []string{"template-admin"}) ||
		!slices.Equal(got.Organizations, []string{"second [organization-admin]"}) {
		t.Errorf("in Coder: %+v", got)
	}
	if text, _ := created.MarshalJSON(); strings.Contains(string(text), "Passw0rd") {
		t.Errorf("the object has the password: %s", text)
	}
	if _, err := f.users().Create(t.Context(), zoe(nil), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("again: %v", err)
	}
}

// TestLoginTypes creates a user with each type. Without a Secret nobody knows the password; the other
// types have none.
func TestLoginTypes(t *testing.T) {
	for _, release := range []coderdtest.Release{coderdtest.Release230, coderdtest.Release236} {
		t.Run(string(release), func(t *testing.T) {
			f := newFixture(t, coderdtest.WithOIDC(), coderdtest.WithRelease(release))
			for name, loginType := range map[string]string{"pat": "password", "otto": "oidc", "robot": "none"} {
				u := userObject(name, map[string]any{"email": name + "@example.com", "loginType": loginType})
				_, err := f.users().Create(t.Context(), u, metav1.CreateOptions{})
				if loginType == "none" && release == coderdtest.Release236 {
					if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "requires a service account") {
						t.Errorf("%s: %v", name, err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				got, _ := f.coder.User(name)
				if got.LoginType != loginType || (got.Password != "") != (loginType == "password") || !slices.Equal(got.Organizations, []string{"coder []"}) {
					t.Errorf("%s in Coder: %+v", name, got)
				}
			}
		})
	}
}

// TestLoginTypeChangesInUpgrade applies the manifest of a user again whose login type none was changed
// by the upgrade to Coder 2.36.
func TestLoginTypeChangesInUpgrade(t *testing.T) {
	f := newFixture(t)
	manifest := userObject("robot", map[string]any{"email": "robot@example.com", "loginType": "none", "fullName": "Robot"})
	f.applyUser(t, manifest)
	f.coder.SetLoginType("robot", "password")
	before := until(t, f.users(), "robot", func(u *unstructured.Unstructured) bool { return at(u, "spec", "loginType") == "password" })
	for range 2 {
		after := f.applyUser(t, manifest)
		if after.GetGeneration() != before.GetGeneration() || fmt.Sprint(after.Object["spec"]) != fmt.Sprint(before.Object["spec"]) ||
			condition(after, "Synced") != "True Synced" {
			t.Errorf("after the same manifest: %v, was %v", after.Object, before.Object)
		}
	}
}

// TestServiceAccounts checks that service accounts need a license that includes them, and that they behave like other users.
func TestServiceAccounts(t *testing.T) {
	f := newFixture(t, coderdtest.WithRelease(coderdtest.Release236), coderdtest.WithLicensing())
	manifest := userObject("robot", map[string]any{"serviceAccount": true, "fullName": "Robot", "roles": []any{"auditor"}})
	for _, license := range []string{"", coderdtest.NewLicense(coderdtest.License{FeatureSet: "enterprise"})} {
		if license != "" && !f.coder.AddLicense(license) {
			t.Fatal("Coder does not accept the license")
		}
		for _, dryRun := range [][]string{{metav1.DryRunAll}, nil} {
			_, err := f.users().Create(t.Context(), manifest, metav1.CreateOptions{DryRun: dryRun})
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.serviceAccount: Forbidden: no license of this Coder includes service accounts") {
				t.Errorf("with the license %q: %v", license, err)
			}
		}
	}
	f.coder.AddLicense(coderdtest.NewLicense(coderdtest.License{FeatureSet: "premium"}))
	// The license ends after it was read.
	f.coder.Fail(coderdtest.Fault{
		Method: http.MethodPost, PathPrefix: "/api/v2/users", Status: http.StatusForbidden, Message: "Service Accounts is a Premium feature. Contact sales!", Times: 1,
	})
	if _, err := f.users().Create(t.Context(), manifest, metav1.CreateOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "Premium feature") {
		t.Errorf("without the license: %v", err)
	}
	if kept := f.kept(); len(kept) > 0 {
		t.Errorf("the records are %v", kept)
	}
	made := f.applyUser(t, manifest)
	if at(made, "spec", "loginType") != "none" || at(made, "status", "serviceAccount") != "true" || condition(made, "Ready") != "True Active" {
		t.Errorf("the object is %v", made.Object)
	}
	if u, _ := f.coder.User("robot"); !u.ServiceAccount || u.Email != "" || u.LoginType != "none" || u.Name != "Robot" || !slices.Equal(u.Roles, []string{"auditor"}) {
		t.Errorf("in Coder: %+v", u)
	}
	// A second one has no email either.
	f.applyUser(t, userObject("android", map[string]any{"serviceAccount": true}))
	patch := func(body string) error {
		_, err := f.users().Patch(t.Context(), "robot", types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	for body, says := range map[string]string{
		`{"spec":{"serviceAccount":false}}`:          "cannot change",
		`{"spec":{"email":"robot@example.com"}}`:     "spec.email",
		`{"spec":{"loginType":"password"}}`:          "cannot change",
		`{"spec":{"serviceAccount":null}}`:           "",
		`{"spec":{"fullName":"R","suspended":true}}`: "",
	} {
		if err := patch(body); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", body, err, says)
		}
	}
	until(t, f.users(), "robot", func(u *unstructured.Unstructured) bool {
		return at(u, "spec", "serviceAccount") == "true" && at(u, "status", "state") == "suspended"
	})
	until(t, f.users(), "ada", func(u *unstructured.Unstructured) bool { return at(u, "spec", "serviceAccount") == "" })
	if _, err := f.users().Patch(t.Context(), "ada", types.MergePatchType, []byte(`{"spec":{"serviceAccount":true}}`), metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a user becomes a service account: %v", err)
	}
	if err := f.users().Delete(t.Context(), "android", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// TestInterruptedCreationOfUser checks that a user who was created without an answer gets the rest of
// the manifest, and that another person who takes the username does not.
func TestInterruptedCreationOfUser(t *testing.T) {
	for name, c := range map[string]struct{ email, roles, team string }{
		"the user was created":                {"ZOE@example.com", "[auditor]", "blue"},
		"another person has the username now": {"zoe@corp.example.com", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			manifest := zoe(map[string]any{"email": c.email, "roles": []any{"auditor"}})
			manifest.SetLabels(map[string]string{"team": "blue"})
			f.coder.Fail(coderdtest.Fault{Method: http.MethodPost, PathPrefix: "/api/v2/users", Times: 1})
			if _, err := f.users().Apply(t.Context(), "zoe", manifest, metav1.ApplyOptions{FieldManager: "git"}); !apierrors.IsTimeout(err) {
				t.Fatalf("without an answer: %v", err)
			}
			// Coder completes the first request between the next attempt's check and its request.
			f.coder.Fail(coderdtest.Fault{Method: http.MethodPost, PathPrefix: "/api/v2/users", Status: http.StatusConflict, Message: "User already exists.", Times: 1})
			if _, err := f.users().Apply(t.Context(), "zoe", manifest, metav1.ApplyOptions{FieldManager: "git"}); !apierrors.IsAlreadyExists(err) {
				t.Fatalf("the next attempt: %v", err)
			}
			f.coder.AddUser("zoe")
			u := until(t, f.users(), "zoe", func(*unstructured.Unstructured) bool { return true })
			if at(u, "spec", "roles") != c.roles || u.GetLabels()["team"] != c.team || at(u, "spec", "email") != "zoe@example.com" {
				t.Errorf("the object is %v", u.Object)
			}
			if bound := len(f.kept()) > 0; bound != (c.roles != "") {
				t.Errorf("the records are %v", f.kept())
			}
			f.userIs(t, "zoe", "the roles are those of the object", func(u coderdtest.UserState) bool {
				return slices.Equal(u.Roles, []string{"auditor"}) == (c.roles != "")
			})
		})
	}
}

func TestBadUsersAreRefused(t *testing.T) {
	f := newFixture(t)
	secret := map[string]any{"secretKeyRef": map[string]any{"name": "no-such", "key": "password"}}
	for name, c := range map[string]struct {
		object *unstructured.Unstructured
		says   string
	}{
		"no email":        {userObject("zoe", map[string]any{"loginType": "none"}), "spec.email"},
		"no address":      {userObject("zoe", map[string]any{"loginType": "none", "email": "zoe"}), "spec.email"},
		"no login type":   {userObject("zoe", map[string]any{"email": "z@example.com"}), "spec.loginType"},
		"another login":   {zoe(map[string]any{"loginType": "github"}), "spec.loginType"},
		"no OIDC":         {zoe(map[string]any{"loginType": "oidc"}), "You must configure OIDC"},
		"a bad name":      {userObject("zoe--x", map[string]any{"email": "z@example.com", "loginType": "none"}), "metadata.name"},
		"member":          {zoe(map[string]any{"roles": []any{"member"}}), "every user has this role"},
		"twice":           {zoe(map[string]any{"roles": []any{"auditor", "auditor"}}), "Duplicate"},
		"no organization": {zoe(map[string]any{"organizations": []any{map[string]any{"name": "none"}}}), "there is no such organization"},
		"policy":          {zoe(map[string]any{"reclaimPolicy": "Keep"}), "spec.reclaimPolicy"},
		"no Secret":       {zoe(map[string]any{"passwordFrom": secret}), "no-such"},
		"not a password":  {zoe(map[string]any{"loginType": "none", "passwordFrom": secret}), "spec.passwordFrom"},
		"another's email": {zoe(map[string]any{"email": "ada@example.com"}), "another user in Coder has this email address"},
		"a reserved name": {userObject("new", map[string]any{"email": "z@example.com", "loginType": "none"}), "metadata.name"},
		"a local address": {zoe(map[string]any{"email": "zoe@localhost"}), "spec.email"},
		"a spaced name":   {zoe(map[string]any{"fullName": "Zoe "}), "spec.fullName"},
		"no Premium":      {userObject("zoe", map[string]any{"serviceAccount": true}), "no service accounts"},
		"service email":   {zoe(map[string]any{"serviceAccount": true, "loginType": "none"}), "has no email"},
		"service login":   {userObject("zoe", map[string]any{"serviceAccount": true, "loginType": "oidc"}), "cannot log in"},
		"service secret":  {userObject("zoe", map[string]any{"serviceAccount": true, "passwordFrom": secret}), "spec.passwordFrom"},
		"the wrong plane": {userObject("other.zoe", map[string]any{"email": "z@example.com", "loginType": "none"}), "no CoderControlPlane"},
	} {
		for _, dryRun := range [][]string{{metav1.DryRunAll}, nil} {
			_, err := f.users().Create(t.Context(), c.object, metav1.CreateOptions{DryRun: dryRun})
			// Coder does not say before a creation how users log in.
			if unknown := dryRun != nil && name == "no OIDC"; !unknown && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%s %v: %v, want %q", name, dryRun, err, c.says)
			}
		}
	}
	if _, found := f.coder.User("zoe"); found || len(f.kept()) > 0 {
		t.Errorf("in Coder: %v, records %v", found, f.kept())
	}
	_, err := f.users().Create(t.Context(), zoe(nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if _, found := f.coder.User("zoe"); found || err != nil {
		t.Errorf("a dry run made the user: %v, %v", found, err)
	}
}

func TestUserIsUpdated(t *testing.T) {
	f := newFixture(t)
	f.coder.AddOrganization("second")
	until(t, f.users(), "ada", func(*unstructured.Unstructured) bool { return true })
	patch := func(body string) error {
		_, err := f.users().Patch(t.Context(), "ada", types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	if err := patch(`{"spec":{"fullName":"Ada","roles":["auditor"],"suspended":true,
		"organizations":[{"name":"coder","roles":["organization-auditor"]},{"name":"second"}]}}`); err != nil {
		t.Fatal(err)
	}
	f.userIs(t, "ada", "all is changed", func(u coderdtest.UserState) bool {
		return u.Name == "Ada" && u.Suspended && slices.Equal(u.Roles, []string{"auditor"}) &&
			slices.Equal(u.Organizations, []string{"coder [organization-auditor]", "second []"})
	})
	if err := patch(`{"spec":{"roles":[],"suspended":false,"organizations":[{"name":"second"}]}}`); err != nil {
		t.Fatal(err)
	}
	f.userIs(t, "ada", "all is taken back", func(u coderdtest.UserState) bool {
		return u.Name == "Ada" && !u.Suspended && len(u.Roles) == 0 && slices.Equal(u.Organizations, []string{"second []"})
	})
	for body, says := range map[string]string{
		`{"spec":{"email":"other@example.com"}}`: "Coder's API cannot change it",
		`{"spec":{"loginType":"oidc"}}`:          "cannot change from",
		`{"spec":{"roles":["king"]}}`:            "is not a supported role",
	} {
		if err := patch(body); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestUserIsDeleted(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"kept", "removed"} {
		f.coder.AddUser(name)
		until(t, f.users(), name, func(*unstructured.Unstructured) bool { return true })
	}
	if err := f.users().Delete(t.Context(), "kept", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.userIs(t, "kept", "suspended", func(u coderdtest.UserState) bool { return u.Suspended })
	until(t, f.users(), "kept", func(u *unstructured.Unstructured) bool { return at(u, "status", "state") == "suspended" })

	if _, err := f.users().Patch(t.Context(), "removed", types.MergePatchType, []byte(`{"spec":{"reclaimPolicy":"Delete"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	workspace := f.coder.AddWorkspace("removed", f.template, "dev")
	if err := f.users().Delete(t.Context(), "removed", metav1.DeleteOptions{}); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "has workspaces") {
		t.Errorf("with a workspace: %v", err)
	}
	dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	if err := f.users().Delete(t.Context(), "removed", dry); !apierrors.IsConflict(err) {
		t.Errorf("a dry run with a workspace: %v", err)
	}
	f.coder.RemoveWorkspace(workspace)
	if err := f.users().Delete(t.Context(), "removed", dry); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	if err := f.users().Delete(t.Context(), "removed", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, found := f.coder.User("removed"); found {
		t.Error("the user is in Coder")
	}
	gone(t, f.users(), "removed")

	// Coder suspends no Owner.
	f.coder.AddUser("boss", "owner")
	until(t, f.users(), "boss", func(*unstructured.Unstructured) bool { return true })
	if err := f.users().Delete(t.Context(), "boss", metav1.DeleteOptions{}); err == nil || !strings.Contains(err.Error(), "remove the role first") {
		t.Errorf("an Owner: %v", err)
	}
	// One with a finalizer is suspended when that is gone.
	if _, err := f.users().Patch(t.Context(), "ada", types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/wait"]}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.users().Delete(t.Context(), "ada", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if u, _ := f.coder.User("ada"); u.Suspended {
		t.Error("suspended before the finalizer is gone")
	}
	if _, err := f.users().Patch(t.Context(), "ada", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	f.userIs(t, "ada", "suspended", func(u coderdtest.UserState) bool { return u.Suspended })
}

// TestAForegroundDeletionOfAUserSaysWhatItWaitsFor checks the same as for templates: Coder deletes no user with workspaces, and
// suspends no Owner.
func TestAForegroundDeletionOfAUserSaysWhatItWaitsFor(t *testing.T) {
	f := newFixture(t)
	f.coder.AddUser("boss", "owner")
	for _, name := range []string{"ada", "boss"} {
		// The tokens are read later than the user.
		until(t, f.users(), name, func(u *unstructured.Unstructured) bool { return at(u, "status", "tokenCount") == "1" })
	}
	if _, err := f.users().Patch(t.Context(), "ada", types.MergePatchType, []byte(`{"spec":{"reclaimPolicy":"Delete"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	workspace := f.addWorkspace(t, "dev")
	const finalizer = "these finalizers are removed: foregroundDeletion"
	pending := map[string]*unstructured.Unstructured{}
	for name, message := range map[string]string{
		"ada":  "the user will be deleted in Coder after its workspace is deleted, and after " + finalizer,
		"boss": "the user will be suspended in Coder after the role owner is removed (Coder suspends no Owner), and after " + finalizer,
	} {
		if err := f.users().Delete(t.Context(), name, foreground()); err != nil {
			t.Fatal(err)
		}
		u, err := f.users().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || !deletionOf(message)(u) {
			t.Errorf("%v, %v", err, u.Object["status"])
		}
		pending[name] = u
	}
	table := f.do(t, http.MethodGet, f.path("coderusers/boss"), map[string]string{"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}, "")
	if !strings.Contains(table.body, `"Deleting"`) || !strings.Contains(table.body, "the role owner is removed") {
		t.Errorf("kubectl get shows %s", table.body)
	}
	f.readAgain(t, "GET /api/v2/users")
	for name, was := range pending {
		if now, err := f.users().Get(t.Context(), name, metav1.GetOptions{}); err != nil || now.GetResourceVersion() != was.GetResourceVersion() {
			t.Errorf("%v, it was written at rest (-before +after):\n%s", err, cmp.Diff(was.Object, now.Object))
		}
	}
	f.coder.RemoveWorkspace(workspace)
	f.coder.EditUser("boss", "", false)
	until(t, f.users(), "ada", deletionOf("the user will be deleted in Coder after "+finalizer))
	until(t, f.users(), "boss", deletionOf("the user will be suspended in Coder after "+finalizer))
	for name := range pending {
		if _, err := f.users().Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	gone(t, f.users(), "ada")
	until(t, f.users(), "boss", func(u *unstructured.Unstructured) bool { return condition(u, "Ready") == "True Suspended" })
}

// TestDriftOfUsers corrects what a manifest owns, and shows the rest.
func TestDriftOfUsers(t *testing.T) {
	f := newFixture(t)
	manifest := zoe(map[string]any{"roles": []any{"auditor"}, "suspended": false})
	f.applyUser(t, manifest)
	f.coder.EditUser("zoe", "Changed", true, "template-admin")
	f.userIs(t, "zoe", "only what is owned is corrected", func(u coderdtest.UserState) bool {
		return u.Name == "Changed" && !u.Suspended && slices.Equal(u.Roles, []string{"auditor"})
	})
	until(t, f.users(), "zoe", func(u *unstructured.Unstructured) bool {
		return at(u, "spec", "fullName") == "Changed" && condition(u, "Synced") == "True Synced" && at(u, "status", "roles") == "[auditor]"
	})
	// Applied again it changes nothing.
	before := until(t, f.users(), "zoe", func(*unstructured.Unstructured) bool { return true })
	if after := f.applyUser(t, manifest); after.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("the same again wrote %v, was %v", after.Object, before.Object)
	}
	// What the manifest no longer has belongs to Coder again.
	f.applyUser(t, zoe(map[string]any{"suspended": false}))
	f.coder.EditUser("zoe", "Changed", false, "user-admin")
	until(t, f.users(), "zoe", func(u *unstructured.Unstructured) bool { return at(u, "spec", "roles") == "[user-admin]" })
	f.userIs(t, "zoe", "the role stays", func(u coderdtest.UserState) bool { return slices.Equal(u.Roles, []string{"user-admin"}) })
	// What Coder refuses is said.
	f.applyUser(t, zoe(map[string]any{"suspended": true}))
	f.coder.EditUser("zoe", "Changed", false, "owner")
	until(t, f.users(), "zoe", func(u *unstructured.Unstructured) bool {
		return condition(u, "Synced") == "False ChangeRefused" && condition(u, "Stalled") == "True ChangeRefused"
	})
}

// TestRefusedFieldsOfUsers checks that a field that Coder does not accept does not prevent the
// correction of the others.
func TestRefusedFieldsOfUsers(t *testing.T) {
	f := newFixture(t)
	f.coder.AddOrganization("second")
	f.applyUser(t, zoe(map[string]any{"roles": []any{"auditor"}, "suspended": false, "organizations": []any{map[string]any{"name": "second"}}}))
	f.coder.RenameOrganization("second", "infra")
	f.coder.SetMember("zoe", "coder")
	f.coder.EditUser("zoe", "", false, "template-admin")
	corrected := func(u coderdtest.UserState) bool { return slices.Equal(u.Roles, []string{"auditor"}) && !u.Suspended }
	f.userIs(t, "zoe", "the role is corrected", corrected)
	until(t, f.users(), "zoe", func(u *unstructured.Unstructured) bool {
		return condition(u, "Synced") == "False ChangeRefused" && at(u, "status", "roles") == "[auditor]" &&
			strings.Contains(at(u, "status", "conditions"), "Coder does not accept spec.organizations: ")
	})
	// Also while the correction of the organizations is not tried again.
	f.coder.EditUser("zoe", "", true, "user-admin")
	f.userIs(t, "zoe", "roles and suspension are corrected", corrected)
	// Each field that Coder does not accept is named.
	f.applyUser(t, zoe(map[string]any{"suspended": true, "organizations": []any{map[string]any{"name": "second"}}}))
	f.coder.EditUser("zoe", "", false, "owner")
	until(t, f.users(), "zoe", func(u *unstructured.Unstructured) bool {
		conditions := at(u, "status", "conditions")
		return strings.Contains(conditions, "spec.organizations: ") && strings.Contains(conditions, "spec.suspended: ")
	})
}

// TestAnOwnerIsSuspended checks that a user who became an Owner loses the role first: Coder does not suspend Owners.
func TestAnOwnerIsSuspended(t *testing.T) {
	f := newFixture(t)
	f.applyUser(t, zoe(map[string]any{"suspended": true, "roles": []any{}}))
	f.userIs(t, "zoe", "suspended", func(u coderdtest.UserState) bool { return u.Suspended })
	f.coder.EditUser("zoe", "", false, "owner")
	f.userIs(t, "zoe", "suspended again", func(u coderdtest.UserState) bool { return u.Suspended && len(u.Roles) == 0 })
}

// TestEmptyListsOfUsers checks that an empty list in a manifest is owned like any other: a role that is
// granted later is taken away again.
func TestEmptyListsOfUsers(t *testing.T) {
	nothing := map[string]any{"roles": []any{}, "organizations": []any{}}
	for name, write := range map[string]func(*fixture) error{
		"created": func(f *fixture) error {
			_, err := f.users().Create(t.Context(), zoe(nothing), metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"})
			return err
		},
		"patched": func(f *fixture) error {
			if _, err := f.users().Create(t.Context(), zoe(nil), metav1.CreateOptions{}); err != nil {
				return err
			}
			_, err := f.users().Patch(t.Context(), "zoe", types.MergePatchType, []byte(`{"spec":{"roles":[],"organizations":[]}}`), metav1.PatchOptions{})
			return err
		},
		"applied": func(f *fixture) error {
			_, err := f.users().Apply(t.Context(), "zoe", zoe(nothing), metav1.ApplyOptions{FieldManager: "git"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if err := write(f); err != nil {
				t.Fatal(err)
			}
			f.coder.EditUser("zoe", "Zoe", false, "auditor")
			f.userIs(t, "zoe", "it has no role", func(u coderdtest.UserState) bool {
				return u.Name == "Zoe" && len(u.Roles) == 0 && len(u.Organizations) == 0
			})
			until(t, f.users(), "zoe", func(u *unstructured.Unstructured) bool {
				return at(u, "spec", "roles") == "[]" && at(u, "spec", "organizations") == "[]" && condition(u, "Synced") == "True Synced"
			})
		})
	}
}

// TestWhoMayChangeUsers is the table of callers.
func TestWhoMayChangeUsers(t *testing.T) {
	f := newFixture(t)
	f.coder.AddUser("boss", "owner")
	f.coder.AddUser("keeper", "user-admin")
	f.coder.AddUser("bob")
	f.rules(t, `[{match: {userName: "person:alice"}, coderUser: {username: ada}},
		{match: {userName: "person:keeper"}, coderUser: {username: keeper}},
		{match: {userName: "person:nobody"}, nobody: true}, {match: {userName: "person:flux"}, operator: true}]`)
	for _, name := range []string{"boss", "bob"} {
		until(t, f.users(), name, func(*unstructured.Unstructured) bool { return true })
	}
	patch := func(name, body string) func(dynamic.ResourceInterface) error {
		return func(users dynamic.ResourceInterface) error {
			_, err := users.Patch(context.Background(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
			return err
		}
	}
	made := 0
	create := func(roles ...any) func(dynamic.ResourceInterface) error {
		return func(users dynamic.ResourceInterface) error {
			made++
			name := fmt.Sprintf("new%d", made)
			spec := map[string]any{"email": name + "@example.com", "loginType": "none"}
			if len(roles) > 0 {
				spec["roles"] = roles
			}
			_, err := users.Create(context.Background(), userObject(name, spec), metav1.CreateOptions{})
			return err
		}
	}
	remove := func(name string) func(dynamic.ResourceInterface) error {
		return func(users dynamic.ResourceInterface) error {
			return users.Delete(context.Background(), name, metav1.DeleteOptions{})
		}
	}
	for _, c := range []struct {
		caller, what string
		do           func(dynamic.ResourceInterface) error
		// says is a part of the refusal, empty if it succeeds.
		says string
	}{
		{"dora", "creates a user", create(), `coderusers/operator "coder"`},
		{"dora", "renames bob", patch("bob", `{"spec":{"fullName":"x"}}`), "coderusers/operator"},
		{"dora", "suspends bob", remove("bob"), "coderusers/operator"},
		{"nobody", "creates a user", create(), "denies all changes and all sessions"},
		{"alice", "creates a user", create(), `you act as user "ada"`},
		{"alice", "renames bob", patch("bob", `{"spec":{"fullName":"x"}}`), `you act as user "ada"`},
		{"alice", "makes herself an Owner", patch("ada", `{"spec":{"roles":["owner"]}}`), "You cannot change your own roles"},
		{"alice", "suspends bob", remove("bob"), `you act as user "ada"`},
		{"keeper", "creates a user", create(), ""},
		{"keeper", "gives bob a role", patch("bob", `{"spec":{"roles":["auditor"]}}`), ""},
		{"keeper", "makes bob an Owner", patch("bob", `{"spec":{"roles":["owner"]}}`), `you act as user "keeper"`},
		{"warden", "renames bob", patch("bob", `{"spec":{"fullName":"Bob"}}`), ""},
		{"warden", "creates a user", create(), ""},
		{"warden", "gives bob another role", patch("bob", `{"spec":{"roles":["user-admin"]}}`), "coderusers without resourceNames"},
		{"warden", "creates an admin", create("user-admin"), "coderusers without resourceNames"},
		{"warden", "gives bob a role in an organization", patch("bob", `{"spec":{"organizations":[{"name":"coder","roles":["organization-admin"]}]}}`),
			"coderusers without resourceNames"},
		{"warden", "renames an Owner", patch("boss", `{"spec":{"fullName":"x"}}`), `coderusers/owner "boss"`},
		{"chief", "gives bob another role", patch("bob", `{"spec":{"roles":["user-admin"]}}`), ""},
		{"chief", "makes bob an Owner", patch("bob", `{"spec":{"roles":["owner"]}}`), `coderusers/owner "bob"`},
		{"chief", "creates an Owner", create("owner"), "coderusers/owner"},
		{"chief", "takes boss's role", patch("boss", `{"spec":{"roles":[]}}`), `coderusers/owner "boss"`},
		{"flux", "creates a user", create("user-admin"), ""},
		{"flux", "gives bob another role", patch("bob", `{"spec":{"roles":["template-admin"]}}`), ""},
		{"flux", "makes bob an Owner", patch("bob", `{"spec":{"roles":["owner"]}}`), `coderusers/owner "bob"`},
		{"flux", "renames an Owner", patch("boss", `{"spec":{"fullName":"x"}}`), `coderusers/owner "boss"`},
		{"king", "makes bob an Owner", patch("bob", `{"spec":{"roles":["owner"]}}`), ""},
		{"king", "creates an Owner", create("owner"), ""},
	} {
		err := c.do(f.as(t, "person:"+c.caller, usersGVR))
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s %s: %v", c.caller, c.what, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s %s: %v, want %q", c.caller, c.what, err, c.says)
		}
	}
	if u, _ := f.coder.User("ada"); slices.Contains(u.Roles, "owner") {
		t.Error("ada is an Owner")
	}
}

// TestRolesAreRestoredAsWhoSetThem checks that a caller with fewer permissions, who changes another
// field, does not make the operator restore a role that its author may not grant any more.
func TestRolesAreRestoredAsWhoSetThem(t *testing.T) {
	f := newFixture(t)
	f.coder.AddUser("keeper", "owner")
	f.coder.AddUser("bob")
	f.rules(t, `[{match: {userName: "person:king"}, coderUser: {username: keeper}}]`)
	until(t, f.users(), "bob", func(*unstructured.Unstructured) bool { return true })
	patch := func(caller, body string) {
		t.Helper()
		if _, err := f.as(t, caller, usersGVR).Patch(t.Context(), "bob", types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch("person:king", `{"spec":{"roles":["owner"]}}`)
	f.coder.EditUser("keeper", "", false)
	f.coder.EditUser("bob", "", false)
	until(t, f.users(), "bob", func(u *unstructured.Unstructured) bool { return condition(u, "Synced") == "False ChangeRefused" })
	patch("person:warden", `{"spec":{"fullName":"Bob"}}`)
	f.userIs(t, "bob", "renamed", func(u coderdtest.UserState) bool { return u.Name == "Bob" })
	until(t, f.users(), "bob", func(u *unstructured.Unstructured) bool {
		return at(u, "spec", "fullName") == "Bob" && condition(u, "Synced") == "False ChangeRefused"
	})
	if u, _ := f.coder.User("bob"); slices.Contains(u.Roles, "owner") {
		t.Error("bob is an Owner again")
	}
}

// TestUserOfADeletedToken checks that Coder deleting the tokens of a mapped user does not count as a
// refusal of what that user has set.
func TestUserOfADeletedToken(t *testing.T) {
	f := newFixture(t)
	client, err := coderd.New(coderd.Config{URL: f.coder.URL, Token: f.coder.AddUser("root", "owner")})
	if err != nil {
		t.Fatal(err)
	}
	f.coder.AddUser("keeper", "owner")
	f.coder.AddUser("bob")
	f.rules(t, `[{match: {userName: "person:king"}, coderUser: {username: keeper}}]`)
	until(t, f.users(), "bob", func(*unstructured.Unstructured) bool { return true })
	patch := []byte(`{"spec":{"roles":["auditor"]}}`)
	if _, err := f.as(t, "person:king", usersGVR).Patch(t.Context(), "bob", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	keeper, err := client.UserByName(t.Context(), "keeper")
	if err == nil {
		err = client.SetPassword(t.Context(), keeper, "Secret-Passw0rd")
	}
	if err != nil {
		t.Fatal(err)
	}
	f.coder.EditUser("bob", "", false)
	f.userIs(t, "bob", "corrected", func(u coderdtest.UserState) bool { return slices.Equal(u.Roles, []string{"auditor"}) })
}

// TestSecretsOfPasswords are read for callers who may read them.
func TestSecretsOfPasswords(t *testing.T) {
	f := newSecretsFixture(t, "person:king")
	if _, err := f.kube.CoreV1().Secrets(f.namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "hidden"}, Data: map[string][]byte{"password": []byte("Hidden-Passw0rd"), "second": []byte("Second-Passw0rd"), "weak": []byte("secret7")},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	from := map[string]any{"passwordFrom": map[string]any{"secretKeyRef": map[string]any{"name": "hidden", "key": "password"}}}
	_, err := f.as(t, "person:king", usersGVR).Create(t.Context(), zoe(from), metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "may not get Secret hidden") {
		t.Errorf("a Secret that the caller may not read: %v", err)
	}
	f.applyUser(t, zoe(from))
	f.userIs(t, "zoe", "the password", func(u coderdtest.UserState) bool { return u.Password == "Hidden-Passw0rd" })
	// Another reference is another password, and the Secret must have the key.
	missing := zoe(map[string]any{"passwordFrom": map[string]any{"secretKeyRef": map[string]any{"name": "hidden", "key": "none"}}})
	if _, err := f.users().Apply(t.Context(), "zoe", missing, metav1.ApplyOptions{FieldManager: "git"}); !apierrors.IsInvalid(err) {
		t.Errorf("a key that the Secret lacks: %v", err)
	}
	missing.SetName("yan")
	if _, err := f.users().Create(t.Context(), missing, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || len(f.kept()) != 1 {
		t.Errorf("a new user: %v, %d records", err, len(f.kept()))
	}
	weak := zoe(map[string]any{"passwordFrom": map[string]any{"secretKeyRef": map[string]any{"name": "hidden", "key": "weak"}}})
	_, err = f.users().Apply(t.Context(), "zoe", weak, metav1.ApplyOptions{FieldManager: "git", DryRun: []string{metav1.DryRunAll}})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "insecure password") || strings.Contains(err.Error(), "secret7") {
		t.Errorf("a dry run with a weak password: %v", err)
	}
	f.applyUser(t, zoe(map[string]any{"passwordFrom": map[string]any{"secretKeyRef": map[string]any{"name": "hidden", "key": "second"}}}))
	f.userIs(t, "zoe", "the second password", func(u coderdtest.UserState) bool { return u.Password == "Second-Passw0rd" })
	for _, record := range f.kept() {
		if text := fmt.Sprintf("%+v %s", record, record.Intent); strings.Contains(text, "Passw0rd") {
			t.Errorf("a record has the password: %s", text)
		}
	}
}

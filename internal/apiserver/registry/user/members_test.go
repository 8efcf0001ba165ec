package user

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// TestMembersOfSeveralOrganizations checks that the members of all organizations are read again, one
// organization at a time, although the users always come in the same order.
func TestMembersOfSeveralOrganizations(t *testing.T) {
	server := coderdtest.New(t)
	token := server.AddUser("ada", "owner")
	organizations := []string{"coder", "second", "third"}
	for _, name := range organizations[1:] {
		server.AddOrganization(name)
	}
	setRoles := func(role string) {
		for _, name := range organizations {
			server.SetMember("ada", name, role)
		}
	}
	setRoles("organization-auditor")
	client, err := coderd.New(coderd.Config{URL: server.URL, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	connection := connections.Connection{ControlPlane: types.NamespacedName{Namespace: "team", Name: "prod"}, Client: client}
	clock := clocktesting.NewFakePassiveClock(time.Now())
	m := newMembers(clock, time.Minute)
	read := func() (roles string, requests int) {
		t.Helper()
		page, err := client.UserPage(t.Context(), 0, coderd.MaxUserPage)
		if err != nil || len(page.Users) != 1 {
			t.Fatal(page, err)
		}
		roles = fmt.Sprint(m.of(t.Context(), connection, page.Users[0]))
		return roles, server.Requests()["GET /api/v2/organizations/{organization}/members"]
	}
	if roles, requests := read(); roles != "[{coder [organization-auditor]} {second [organization-auditor]} {third [organization-auditor]}]" || requests != 3 {
		t.Fatalf("first: %s after %d requests", roles, requests)
	}
	setRoles("organization-admin")
	for requests := 4; requests <= 7; requests++ {
		clock.SetTime(clock.Now().Add(61 * time.Second))
		for range 2 {
			if _, got := read(); got != requests {
				t.Errorf("%d requests, want %d", got, requests)
			}
		}
	}
	if roles, _ := read(); roles != "[{coder [organization-admin]} {second [organization-admin]} {third [organization-admin]}]" {
		t.Errorf("after a round: %s", roles)
	}
	if lists := m.planes[connection.ControlPlane].lists; len(lists) != len(organizations) {
		t.Errorf("the lists are %v", lists)
	}
}

// TestMembersOfADeletedOrganization checks that a deleted organization, whose last member Coder keeps, is
// not shown and not read, and that its id is shown if it is not known whether it is deleted.
func TestMembersOfADeletedOrganization(t *testing.T) {
	server := coderdtest.New(t)
	client, err := coderd.New(coderd.Config{URL: server.URL, Token: server.AddUser("ada", "owner")})
	if err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakePassiveClock(time.Now())
	m, id := newMembers(clock, time.Minute), uuid.New()
	read := func() (string, map[string]int) {
		clock.SetTime(clock.Now().Add(61 * time.Second))
		user := coderd.User{ID: uuid.New(), OrganizationIDs: []uuid.UUID{id}}
		return fmt.Sprint(m.of(t.Context(), connections.Connection{Client: client}, user)), server.Requests()
	}
	remove := server.Fail(coderdtest.Fault{})
	if got, _ := read(); got != "[{"+id.String()+" []}]" {
		t.Errorf("while Coder does not answer: %s", got)
	}
	remove()
	got, before := read()
	if got != "[]" {
		t.Errorf("deleted: %s", got)
	}
	if got, after := read(); got != "[]" || !maps.Equal(before, after) {
		t.Errorf("again: %s, requests %v, before %v", got, after, before)
	}
	// Also while the names cannot be read again.
	clock.SetTime(clock.Now().Add(organizationsAge))
	server.Fail(coderdtest.Fault{})
	if got, _ := read(); got != "[]" {
		t.Errorf("while Coder does not answer: %s", got)
	}
	if lists := m.plane(connections.Connection{Client: client}).lists; len(lists) > 0 {
		t.Errorf("the lists are %v", lists)
	}
}

// TestReclaimOfAHiddenUser checks that a user that Coder does not show counts as deleted only if the operator's account sees all users.
func TestReclaimOfAHiddenUser(t *testing.T) {
	server := coderdtest.New(t)
	client, err := coderd.New(coderd.Config{URL: server.URL, Token: server.AddUser("operator", "owner")})
	if err != nil {
		t.Fatal(err)
	}
	server.AddUser("ada")
	ada, err := client.UserByName(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	server.EditUser("operator", "", false)
	if err := reclaim(t.Context(), client, ada.ID, "Delete"); !coderd.IsForbidden(err) || !strings.Contains(err.Error(), "does not have the role owner") {
		t.Errorf("a hidden user: %v", err)
	}
	server.EditUser("operator", "", false, "owner")
	server.ForgetUser("ada")
	if err := reclaim(t.Context(), client, ada.ID, "Delete"); err != nil {
		t.Errorf("a user that is not in the database: %v", err)
	}
}

// TestInventedOrganizations has a Coder whose users are members of organizations that do not exist. What is kept of them is
// bounded, and so are the requests for them.
func TestInventedOrganizations(t *testing.T) {
	server := coderdtest.New(t)
	client, err := coderd.New(coderd.Config{URL: server.URL, Token: server.AddUser("ada", "owner")})
	if err != nil {
		t.Fatal(err)
	}
	m := newMembers(clocktesting.NewFakePassiveClock(time.Now()), time.Minute)
	connection := connections.Connection{Client: client}
	invent := func() {
		for range 30 {
			user := coderd.User{ID: uuid.New()}
			for range 100 {
				user.OrganizationIDs = append(user.OrganizationIDs, uuid.New())
			}
			m.of(t.Context(), connection, user)
		}
	}
	invent()
	remove := server.Fail(coderdtest.Fault{})
	invent()
	remove()
	p := m.plane(connection)
	if n := len(p.deleted) + len(p.missed) + len(p.lists); n > maxUnnamed {
		t.Errorf("%d invented organizations are known", n)
	}
	if n := server.Requests()["GET /api/v2/organizations"]; n > maxUnnamed+10 {
		t.Errorf("%d requests for the names of organizations", n)
	}
	user, err := client.UserByName(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(m.of(t.Context(), connection, user)); got != "[{coder []}]" {
		t.Errorf("a user has the organizations %s", got)
	}
}

// TestTokensOfACoderWithAnotherTime checks that the tokens of a user are shown until they expire, also if the clock of
// Coder is wrong.
func TestTokensOfACoderWithAnotherTime(t *testing.T) {
	for name, by := range map[string]time.Duration{"ahead": 26 * time.Hour, "behind": -26 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			mine := clocktesting.NewFakePassiveClock(time.Now())
			coders := clocktesting.NewFakePassiveClock(mine.Now().Add(by))
			server := coderdtest.New(t, coderdtest.WithClock(coders))
			client, err := coderd.New(coderd.Config{URL: server.URL, Token: server.AddUser("ada", "owner")})
			if err != nil {
				t.Fatal(err)
			}
			server.AddNamedToken("ada", "short", time.Hour)
			me, err := client.Me(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			m := newMembers(mine, time.Minute)
			connection := connections.Connection{ControlPlane: types.NamespacedName{Namespace: "team", Name: "prod"}, Client: client}
			shown := func() bool {
				tokens, _ := m.tokens(t.Context(), connection, me.ID)
				return slices.ContainsFunc(tokens, func(token aggregationv1alpha1.CoderUserToken) bool { return token.Name == "short" })
			}
			if !shown() {
				t.Error("a valid token is not shown")
			}
			for _, c := range []*clocktesting.FakePassiveClock{mine, coders} {
				c.SetTime(c.Now().Add(time.Hour + time.Second))
			}
			if shown() {
				t.Error("an expired token is shown")
			}
		})
	}
}

package user

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

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
	// The organization of this user does not exist any more.
	m.of(t.Context(), connection, coderd.User{ID: uuid.New(), OrganizationIDs: []uuid.UUID{uuid.New()}})
	setRoles("organization-admin")
	for requests := 5; requests <= 8; requests++ {
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

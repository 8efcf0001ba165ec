package mirror

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// userKind makes objects with the full name, which counts the versions of a user.
type userKind struct{}

func (userKind) Object(_ context.Context, c connections.Connection, u coderd.User, r *metadata.Record, _ records.Object) (records.Object, error) {
	o := &aggregationv1alpha1.CoderUser{ObjectMeta: metav1.ObjectMeta{
		Name: metadata.JoinName(c.NamePrefix, u.Username), Namespace: c.ControlPlane.Namespace, UID: types.UID(u.ID.String()), Generation: 1,
		Labels: map[string]string{aggregationv1alpha1.LabelControlPlaneName: c.ControlPlane.Name},
	}}
	o.Spec.FullName = u.Name
	metadata.Overlay(o, r)
	return o, nil
}

func (userKind) Settle(context.Context, connections.Connection, coderd.User, *metadata.Record) (bool, error) {
	return false, nil
}

func (userKind) Unreadable(records.Object, time.Time, string) records.Object { return nil }

func (userKind) Unreachable(records.Object, time.Time, string) records.Object { return nil }

func (userKind) Unrecovered(records.Object, records.Object) records.Object { return nil }

func (c *fakeCoder) putUser(name, fullName string) uuid.UUID {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := coderd.User{ID: c.id(), Username: name, Name: fullName}
	c.users[u.ID] = u
	return u.ID
}

func (c *fakeCoder) changeUser(id uuid.UUID, change func(*coderd.User)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.users[id]
	change(&u)
	c.users[id] = u
}

func (c *fakeCoder) UserPage(_ context.Context, offset, limit int) (page coderd.UserPage, err error) {
	err = c.call(callUsers, 1, func() {
		for _, u := range c.users {
			if !c.blind && !c.hidden[u.ID] && !c.unseen[u.ID] {
				page.Users = append(page.Users, u)
			}
		}
		slices.SortFunc(page.Users, func(a, b coderd.User) int { return strings.Compare(a.Username, b.Username) })
		page.Count = len(page.Users)
		page.Users = page.Users[min(offset, page.Count):min(offset+limit, page.Count)]
	})
	return page, err
}

func (c *fakeCoder) UserByID(_ context.Context, id uuid.UUID) (out coderd.User, err error) {
	var answer error
	err = c.call("one user", 3, func() {
		u, ok := c.users[id]
		switch out = u; {
		case c.blind, c.hidden[id], c.unseen[id]:
			answer = &coderd.Error{Op: "reading", StatusCode: 404, Message: "not found"}
		case !ok:
			answer = &coderd.Error{Op: "reading", StatusCode: 410, Message: "gone"}
		}
	})
	return out, cmp.Or(err, answer)
}

// wantUsers waits until the records have exactly these users, as "name fullName".
func (s *sim) wantUsers(within time.Duration, want map[string]string) {
	s.t.Helper()
	s.run(within)
	got := map[string]string{}
	for _, entry := range s.records.Users.Table.Of(types.NamespacedName{Namespace: "team", Name: "prod"}) {
		got[entry.Object.GetName()] = entry.Object.(*aggregationv1alpha1.CoderUser).Spec.FullName
	}
	if problem := diff.Diff(want, got); problem != "" {
		s.t.Errorf("the users are not those of Coder (-want +got):\n%s", problem)
	}
}

// TestUsers checks that changes of users are seen within a minute.
func TestUsers(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	ada, bob := c.putUser("ada", "1"), c.putUser("bob", "1")
	c.putUser("eve", "1")
	s.until(time.Minute, "Ready", s.ready(c))
	s.wantUsers(0, map[string]string{"ada": "1", "bob": "1", "eve": "1"})
	c.changeUser(ada, func(u *coderd.User) { u.Name = "2" })
	c.putUser("new", "1")
	s.wantUsers(time.Minute, map[string]string{"ada": "2", "bob": "1", "eve": "1", "new": "1"})
	c.changeUser(ada, func(u *coderd.User) { u.Username, u.Name = "lovelace", "3" })
	delete(c.users, bob)
	s.wantUsers(time.Minute, map[string]string{"ada": "3", "eve": "1", "new": "1"})
	// A hint causes an immediate read.
	c.changeUser(ada, func(u *coderd.User) { u.Name = "4" })
	s.mirror.config.Hints.Object("CoderUser", c.name, ada)
	s.wantUsers(2*time.Second, map[string]string{"ada": "4", "eve": "1", "new": "1"})
	// If Coder shows no user any more, no user is removed.
	c.blind, c.roles = true, nil
	s.wantUsers(2*time.Minute, map[string]string{"ada": "4", "eve": "1", "new": "1"})
}

// TestUsersMissingFromABackup checks that users whom a restored database does not contain are removed, together with
// deleted users, and that another user may have the name of one. The token must see all users.
func TestUsersMissingFromABackup(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	ada, bob := c.putUser("ada", "1"), c.putUser("bob", "1")
	c.putUser("eve", "1")
	s.until(time.Minute, "Ready", s.ready(c))
	c.roles, c.hidden = nil, map[uuid.UUID]bool{ada: true}
	s.wantUsers(5*time.Minute, map[string]string{"ada": "1", "bob": "1", "eve": "1"})
	c.roles = []string{"owner"}
	delete(c.users, bob)
	c.putUser("ada", "2")
	// Coder is read again after at most a minute, and several deletions at once are confirmed after another one.
	s.wantUsers(4*time.Minute, map[string]string{"ada": "2", "eve": "1"})
	c.calls = map[string]int{}
	s.run(10 * time.Minute)
	if n := c.calls["one user"]; n > 0 {
		t.Errorf("%d requests for single users although none changed", n)
	}
}

// TestObjectOfASuspendedUserIsDeleted checks that the object of a user who stays in Coder is gone for a moment after
// another replica deleted it.
func TestObjectOfASuspendedUserIsDeleted(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	ada := c.putUser("ada", "1")
	s.until(time.Minute, "Ready", s.ready(c))
	s.wantUsers(0, map[string]string{"ada": "1"})
	other := s.records.Replica()
	entry, _ := other.Users.Table.Find(c.name, uidOf(ada))
	if err := other.Users.Propose(s.ctx, records.Proposal{Key: entry.Key, Expect: entry.Revision}); err != nil {
		t.Fatal(err)
	}
	if err := s.records.Users.Learn(s.ctx, entry.Key); err != nil {
		t.Fatal(err)
	}
	s.wantUsers(goneGap-time.Second, map[string]string{})
	s.wantUsers(2*time.Second, map[string]string{"ada": "1"})
}

// TestUsersCannotBeRead checks that the other kinds are served.
func TestUsersCannotBeRead(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	c.fill(3)
	c.putUser("ada", "1")
	c.fault = func(call string) error {
		if call == callUsers {
			return &coderd.Error{Op: "listing the users", StatusCode: 403, Message: "Forbidden"}
		}
		return nil
	}
	s.until(time.Minute, "Ready", s.ready(c))
	s.run(10 * time.Minute)
	if !s.ready(c)() {
		t.Error("a Coder whose users cannot be read is not served")
	}
	s.equal(c)
	c.fault = nil
	s.wantUsers(time.Minute, map[string]string{"ada": "1"})
}

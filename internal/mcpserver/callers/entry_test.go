package callers

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

func TestEntryIsAskedWithTheWholeCaller(t *testing.T) {
	for name, groups := range map[string][]string{
		"with all groups":         {"platform", "system:authenticated"},
		"without the common ones": {"platform"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoor(t)
			d.people.set(func(p *people) {
				p.users[aliceToken] = authenticationv1.UserInfo{Username: "alice", UID: "1", Groups: groups, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}
			})
			if w := d.knock(t, "Bearer "+aliceToken); w.Code != http.StatusOK {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			want := []authorizationv1.SubjectAccessReviewSpec{{
				User: "alice", UID: "1", Groups: []string{"platform", "system:authenticated"}, Extra: map[string]authorizationv1.ExtraValue{"k": {"v"}},
				NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/mcp", Verb: "post"},
			}}
			if diff := cmp.Diff(want, d.people.entries); diff != "" {
				t.Errorf("the reviews (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEntryIsRememberedForAShortTime(t *testing.T) {
	for name, tc := range map[string]struct {
		allowed bool
		ttl     time.Duration
		status  int
	}{"yes for ten seconds": {true, 10 * time.Second, 200}, "no for five": {false, 5 * time.Second, 403}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDoor(t)
				d.people.entry["alice"] = tc.allowed
				for _, step := range []struct {
					at    time.Duration
					asked int
				}{{0, 1}, {tc.ttl - time.Second, 1}, {tc.ttl + time.Second, 2}} {
					pass(time.Until(bubbleStart.Add(step.at)))
					if w := d.knock(t, "Bearer "+aliceToken); w.Code != tc.status {
						t.Errorf("after %s: %d %s", step.at, w.Code, w.Body)
					}
					if n := len(d.people.entries); n != step.asked {
						t.Errorf("after %s there were %d reviews, want %d", step.at, n, step.asked)
					}
				}
			})
		})
	}
}

func TestEntryOfOneIsNotThatOfAnother(t *testing.T) {
	d := newDoor(t)
	for token, u := range map[string]authenticationv1.UserInfo{
		"a": {Username: "alice"}, "b": {Username: "bob"}, "c": {Username: "alice", UID: "2"}, "d": {Username: "alice", Groups: []string{"g"}},
		"e": {Username: "alice", Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}},
	} {
		d.people.set(func(p *people) { p.users[token] = u })
		d.knock(t, "Bearer "+token)
	}
	if n := len(d.people.entries); n != 5 {
		t.Errorf("five callers made %d reviews", n)
	}
}

func TestAReviewOfEntryThatFailsIsNotRemembered(t *testing.T) {
	d := newDoor(t)
	d.people.entryErr = errors.New("no answer")
	if w := d.knock(t, "Bearer "+aliceToken); w.Code != http.StatusServiceUnavailable {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	d.people.entryErr = nil
	if w := d.knock(t, "Bearer "+aliceToken); w.Code != http.StatusOK {
		t.Errorf("after it came back: %d %s", w.Code, w.Body)
	}
}

// TestAUserWithTheNameOfTheProcess checks that no token makes its user the process itself, which
// needs no permission.
func TestAUserWithTheNameOfTheProcess(t *testing.T) {
	d := newDoor(t)
	d.people.users[aliceToken] = authenticationv1.UserInfo{Username: Local{}.GetName()}
	if w := d.knock(t, "Bearer "+aliceToken); w.Code != http.StatusForbidden {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

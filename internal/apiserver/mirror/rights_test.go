package mirror_test

import (
	"strings"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/mirror"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// TestRightsOverHTTP checks that no object is removed while the operator's account sees only a part of Coder, and that
// what was deleted meanwhile is removed when it sees everything again.
func TestRightsOverHTTP(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(l *live)
		// says is a part of the message of the sync status.
		says string
	}{
		"administrator of one organization": {
			func(l *live) {
				l.SetMember("operator", "coder", "organization-admin")
				l.EditUser("operator", "", false)
			},
			`the operator's user "operator" does not have the role owner`,
		},
		"member":                  {func(l *live) { l.EditUser("operator", "", false) }, "the role owner"},
		"administrator of users":  {func(l *live) { l.EditUser("operator", "", false, "user-admin") }, "the role owner"},
		"suspended":               {func(l *live) { l.SuspendUser("operator") }, "suspended"},
		"a token of another user": {func(l *live) { l.token.Store(l.AddUser("lesser")) }, "the role owner"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLiveWith(t, func(timing *mirror.Timing) {
				timing.ConfirmAfter, timing.Users = 50*time.Millisecond, 50*time.Millisecond
			})
			l.AddOrganization("other")
			l.AddUser("ada")
			l.SetMember("ada", "other")
			here := l.AddTemplate("coder", "docker", map[string]string{"main.tf": "# one"})
			there := l.AddTemplate("other", "docker", map[string]string{"main.tf": "# one"})
			empty := l.AddTemplate("other", "empty", map[string]string{"main.tf": "# one"})
			l.AddWorkspaces(3, "ada", here)
			hidden := l.AddWorkspaces(5, "ada", there)
			l.run()
			l.until("Ready", l.state(syncstatus.Ready))
			w, tt, u := l.workspaces.Head(), l.templates.Head(), l.users.Head()
			before := l.workspaces.Len() + l.templates.Len() + l.users.Len()
			c.lose(l)
			l.until("Quarantined", l.state(syncstatus.Quarantined))
			if all, _ := l.board.All(); !strings.Contains(all[0].Message, c.says) {
				t.Errorf("the message is %q, want %q", all[0].Message, c.says)
			}
			l.until("three further attempts to read Coder", l.attempts(3))
			for _, log := range []*mirror.Log{l.workspaces, l.templates, l.users} {
				for _, e := range log.Since(map[*mirror.Log]uint64{l.workspaces: w, l.templates: tt, l.users: u}[log]) {
					if e.Object == nil {
						t.Errorf("%s was removed", e.Key)
					}
				}
			}
			if after := l.workspaces.Len() + l.templates.Len() + l.users.Len(); after < before {
				t.Errorf("%d objects of %d are left", after, before)
			}

			l.RemoveWorkspace(hidden[0])
			l.BuildWorkspace(hidden[1], "delete")
			l.DeleteTemplate(empty)
			l.token.Store(l.owner)
			l.EditUser("operator", "", false, "owner")
			l.until("Ready again", l.state(syncstatus.Ready))
			l.until("the deleted ones are gone", func() bool { return l.workspaces.Len() == 6 && l.templates.Len() == 2 })
		})
	}
}

// TestRestoredDatabase checks that the objects that a backup of Coder's database does not contain are removed, although
// Coder does not know that it ever had them.
func TestRestoredDatabase(t *testing.T) {
	l := newLiveWith(t, func(timing *mirror.Timing) {
		timing.ConfirmAfter, timing.Users = 50*time.Millisecond, 50*time.Millisecond
	})
	l.AddUser("ada")
	docker := l.AddTemplate("coder", "docker", map[string]string{"main.tf": "# one"})
	ids := l.AddWorkspaces(150, "ada", docker)
	l.run()
	l.until("Ready", l.state(syncstatus.Ready))
	restored := l.Fail(coderdtest.Fault{DropConnection: true})
	for _, id := range ids {
		l.RemoveWorkspace(id)
	}
	l.DeleteTemplate(docker)
	l.ForgetUser("ada")
	restored()
	l.until("everything is gone", func() bool { return l.workspaces.Len()+l.templates.Len() == 0 && l.users.Len() == 1 })
	l.until("Ready", l.state(syncstatus.Ready))
}

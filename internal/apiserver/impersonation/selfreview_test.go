package impersonation

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	clocktesting "k8s.io/utils/clock/testing"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// TestProblemsOfOthers checks that a cached problem contains no attributes of another caller.
func TestProblemsOfOthers(t *testing.T) {
	coder := coderdtest.New(t)
	client, err := coderd.New(coderd.Config{URL: coder.URL, Token: coder.AddUser("operator", "owner")})
	if err != nil {
		t.Fatal(err)
	}
	connection := connections.Connection{ControlPlane: types.NamespacedName{Namespace: "team", Name: "cp"}, Client: client}
	actors := New(Config{Clock: clocktesting.NewFakePassiveClock(time.Now())})
	match := coderv1alpha1.IdentityMatch{Extra: &coderv1alpha1.ExtraMatch{Key: "mail", Value: "*"}}
	for name, to := range map[string]coderv1alpha1.CoderUserReference{
		"several values": {Email: "{extra}"}, "a user who does not exist": {Username: "nobody"},
	} {
		connection.Rules = []coderv1alpha1.IdentityRule{{Match: match, CoderUser: &to}}
		for _, caller := range []string{"alice", "bob"} {
			d := Decide(connection.Rules, &user.DefaultInfo{Name: caller, Extra: map[string][]string{"mail": {caller + "@a.example", caller + "@b.example"}}})
			if _, err := actors.review(t.Context(), connection, d); err == nil || strings.Count(err.Error(), "@a.example") != strings.Count(err.Error(), caller+"@a.example") {
				t.Errorf("%s: %s is told: %v", name, caller, err)
			}
		}
	}
}

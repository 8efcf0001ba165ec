package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// rules sets the identity rules of the fixture's control plane.
func (f *fixture) rules(t *testing.T, text string) {
	t.Helper()
	var rules []coderv1alpha1.IdentityRule
	if err := yaml.UnmarshalStrict([]byte(text), &rules); err != nil {
		t.Fatal(err)
	}
	f.provider.setRules(f.namespace, rules)
}

func TestWhoami(t *testing.T) {
	f := newFixture(t)
	f.coder.AddUser("boss", "owner")
	f.coder.AddUser("gone")
	f.coder.SuspendUser("gone")
	whoami := func(t *testing.T) aggregationv1alpha1.CoderSelf {
		t.Helper()
		got := f.do(t, http.MethodPost, f.path("coderselfreviews"), map[string]string{"Content-Type": "application/json"},
			`{"apiVersion":"aggregation.coder.com/v1alpha1","kind":"CoderSelfReview"}`)
		var review aggregationv1alpha1.CoderSelfReview
		if err := json.Unmarshal([]byte(got.body), &review); err != nil || got.status != http.StatusCreated {
			t.Fatalf("%d %s", got.status, got.body)
		}
		if len(review.Status.ControlPlanes) != 1 || review.Status.User != "tester" {
			t.Fatalf("%+v", review.Status)
		}
		return review.Status.ControlPlanes[0]
	}
	for name, c := range map[string]struct {
		rules string
		want  aggregationv1alpha1.CoderSelf
	}{
		"unmapped":     {`[]`, aggregationv1alpha1.CoderSelf{ActsAs: "Unmapped"}},
		"a user":       {`[{match: {userName: tester}, coderUser: {username: ada}}]`, aggregationv1alpha1.CoderSelf{ActsAs: "CoderUser", CoderUser: "ada"}},
		"by email":     {`[{match: {userName: tester}, coderUser: {email: ADA@example.com}}]`, aggregationv1alpha1.CoderSelf{ActsAs: "CoderUser", CoderUser: "ada"}},
		"an Owner":     {`[{match: {userName: tester}, coderUser: {username: boss}}]`, aggregationv1alpha1.CoderSelf{ActsAs: "CoderUser", CoderUser: "boss", Permission: "x"}},
		"no such user": {`[{match: {userName: tester}, coderUser: {username: Ada}}]`, aggregationv1alpha1.CoderSelf{ActsAs: "CoderUser", Problem: `there is no user "Ada" in Coder`}},
		"suspended":    {`[{match: {userName: tester}, coderUser: {username: gone}}]`, aggregationv1alpha1.CoderSelf{ActsAs: "CoderUser", Problem: `suspended`}},
		"the operator": {`[{match: {userName: other}, nobody: true}, {match: {userName: "*"}, operator: true}]`, aggregationv1alpha1.CoderSelf{ActsAs: "Operator"}},
		"nobody":       {`[{match: {userName: "*"}, nobody: true}]`, aggregationv1alpha1.CoderSelf{ActsAs: "Nobody"}},
	} {
		t.Run(name, func(t *testing.T) {
			f.rules(t, c.rules)
			self := whoami(t)
			if self.ActsAs != c.want.ActsAs || self.CoderUser != c.want.CoderUser || (self.Problem == "") != (c.want.Problem == "") ||
				self.Reason == "" || c.want.Permission != "" && self.Permission == "" {
				t.Errorf("%+v, want %+v", self, c.want)
			}
		})
	}
	// A Coder that does not answer must not hide what the others answer.
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusInternalServerError} {
		username := fmt.Sprintf("eve%d", status)
		f.coder.AddUser(username)
		f.rules(t, `[{match: {userName: tester}, coderUser: {username: `+username+`}}]`)
		remove := f.coder.Fail(coderdtest.Fault{Method: http.MethodGet, PathPrefix: "/api/v2/users/" + username, Status: status})
		if self := whoami(t); self.ActsAs != "CoderUser" || self.CoderUser != "" || !strings.Contains(self.Problem, username) {
			t.Errorf("%d: %+v", status, self)
		}
		remove()
	}
	if got := f.do(t, http.MethodGet, f.path("coderselfreviews"), nil, ""); got.status != http.StatusMethodNotAllowed {
		t.Errorf("a list answers %d", got.status)
	}
}

// TestReviewsAreNotLookups checks that many reviews cause few requests to Coder, also if there is no such user.
func TestReviewsAreNotLookups(t *testing.T) {
	f := newFixture(t)
	f.coder.AddUser("gone")
	f.coder.SuspendUser("gone")
	for name, rule := range map[string]string{"a user": "username: ada", "no user": "username: none", "suspended": "username: gone", "no email": "email: none@example.com"} {
		f.rules(t, `[{match: {userName: tester}, coderUser: {`+rule+`}}]`)
		lookups := func() int {
			all := f.coder.Requests()
			return all["GET /api/v2/users/{user}"] + all["GET /api/v2/users"]
		}
		before := lookups()
		const reviews = 50
		var all sync.WaitGroup
		for range reviews {
			all.Go(func() {
				got := f.do(t, http.MethodPost, f.path("coderselfreviews"), map[string]string{"Content-Type": "application/json"},
					`{"apiVersion":"aggregation.coder.com/v1alpha1","kind":"CoderSelfReview"}`)
				if got.status != http.StatusCreated || strings.Contains(got.body, `"problem"`) != (name != "a user") {
					t.Errorf("%s: %d %s", name, got.status, got.body)
				}
			})
		}
		all.Wait()
		// The mirror sends some of these requests too.
		if n := lookups() - before; n > reviews/2 {
			t.Errorf("%s: %d lookups for %d reviews", name, n, reviews)
		}
	}
}

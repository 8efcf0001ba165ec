package apiserver

import (
	"encoding/json"
	"net/http"
	"strings"
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
	f.rules(t, `[{match: {userName: tester}, coderUser: {username: ada}}]`)
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusInternalServerError} {
		remove := f.coder.Fail(coderdtest.Fault{Method: http.MethodGet, PathPrefix: "/api/v2/users/ada", Status: status})
		if self := whoami(t); self.ActsAs != "CoderUser" || self.CoderUser != "" || !strings.Contains(self.Problem, "ada") {
			t.Errorf("%d: %+v", status, self)
		}
		remove()
	}
	if got := f.do(t, http.MethodGet, f.path("coderselfreviews"), nil, ""); got.status != http.StatusMethodNotAllowed {
		t.Errorf("a list answers %d", got.status)
	}
}

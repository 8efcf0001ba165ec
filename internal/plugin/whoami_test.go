package plugin

import (
	"net/http"
	"testing"
)

func TestWhoami(t *testing.T) {
	api := newFakeAPI(t, "apiVersion: coder.com/v1alpha1\nkind: CoderControlPlane\nmetadata: {name: coder, namespace: team}\n---\n"+
		"apiVersion: coder.com/v1alpha1\nkind: CoderControlPlane\nmetadata: {name: coder, namespace: closed}")
	review := func(planes ...any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			respond(w, http.StatusCreated, map[string]any{
				"apiVersion": "aggregation.coder.com/v1alpha1", "kind": "CoderSelfReview",
				"status": map[string]any{"user": "oidc:ada", "controlPlanes": planes},
			})
		}
	}
	const path = "POST /apis/aggregation.coder.com/v1alpha1/namespaces/"
	api.answer(path+"team/coderselfreviews", review(
		map[string]any{"controlPlane": "coder", "actsAs": "CoderUser", "rule": 1, "coderUser": "ada", "reason": "spec.identity.rules[1] matches the user name"},
		map[string]any{"controlPlane": "other", "actsAs": "Unmapped", "reason": "no rule matches", "permission": "the verb impersonate"},
		map[string]any{"controlPlane": "third", "actsAs": "CoderUser", "rule": 0, "reason": "spec.identity.rules[0] matches", "problem": "user ada is suspended"}))
	got := newHarness().run(t, api, "whoami", "-n", "team")
	got.want(t, 0, `In Kubernetes you are "oidc:ada".
CONTROL PLANE   ACTS AS           RULE   WHY
team/coder      Coder user ada    1      spec.identity.rules[1] matches the user name
team/other      unmapped          -      no rule matches; changes need the verb impersonate
team/third      nobody, refused   0      user ada is suspended
`, "")
	api.answer(path+"empty/coderselfreviews", review())
	newHarness().run(t, api, "whoami", "-n", "empty").want(t, 0, "There is no control plane in namespace empty (-A shows all namespaces).\n", "")
	newHarness().run(t, newFakeAPI(t), "whoami", "-A").want(t, 0, "There is no control plane on this cluster.\n", "")
	api.answer(path+"closed/coderselfreviews", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusForbidden, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no role"})
	})
	newHarness().run(t, api, "whoami", "-A").want(t, 3, "team/coder", `reading your identity in namespace "closed": no role`)
	newHarness().run(t, api, "whoami", "-n", "closed").want(t, 1, "", "no role")
	newHarness().run(t, api, "whoami", "-A", "-o", "json").want(t, 3, `"coderUser": "ada"`, "closed")
}

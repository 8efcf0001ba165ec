package plugin

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

func TestTokens(t *testing.T) {
	const path = inCoder + "/coderworkspaces/coder.ada.dev/token"
	status := func(id string) fields {
		return fields{"tokenID": id, "coderUser": "ada", "requestedBy": "oidc:alice", "workspaceID": "w-1", "expirationTimestamp": "2026-11-23T12:00:00Z"}
	}
	api := sampleAPI(t)
	api.answer("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		var asked aggregationv1alpha1.CoderWorkspaceToken
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || ptr.Deref(asked.Spec.ExpirationSeconds, 0) > 3600 {
			refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "must be 60 to 3600")(w, r)
			return
		}
		made := status("one")
		made["token"] = "s3cret-" + number(asked.Spec.ExpirationSeconds)
		respond(w, http.StatusCreated, fields{"apiVersion": "aggregation.coder.com/v1alpha1", "kind": "CoderWorkspaceToken", "status": made})
	})
	api.answer("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, fields{"items": []any{fields{"status": status("one")}, fields{"status": status("two")}}})
	})
	api.answer("DELETE "+path, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		items := []any{fields{"status": status("one")}, fields{"status": status("two")}}
		switch {
		case strings.Contains(string(body), `"uid":"two"`):
			items = items[1:]
		case strings.Contains(string(body), "uid"):
			refuse(http.StatusConflict, metav1.StatusReasonConflict, "the workspace has no token with the tokenID")(w, r)
			return
		}
		respond(w, http.StatusOK, fields{"items": items})
	})
	api.answer("GET "+inCoder+"/coderworkspaces/coder.bo.dev/token", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, fields{"items": []any{}})
	})
	api.answer("POST "+inCoder+"/coderworkspaces/coder.bo.dev/token", refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "no role"))
	runEach(t, api, map[string]answer{
		"token create ada.dev":                         {0, "s3cret-3600\n", "A token of Coder user ada, until 2026-11-23T12:00:00Z. The workspace has the id w-1"},
		"token create ws/coder.ada.dev --duration 15m": {0, "s3cret-900\n", "Coder user ada"},
		"token create ada.dev -o json":                 {0, `"token": "s3cret-3600"`, ""},
		"token create ada.dev --duration 2h":           {1, "", "creating a token of workspace coder.ada.dev: must be 60 to 3600"},
		"token create ada.dev --duration 1.5s":         {2, "", "must be whole seconds"},
		"token create ada.dev --duration 0":            {2, "", "must be whole seconds"},
		"token create bo.dev":                          {1, "", "no role"},
		"token create":                                 {2, "", "give the name of one workspace"},
		"token list ada.dev": {0, "ID    CODER USER   REQUESTED BY   EXPIRES\none   ada          oidc:alice     2026-11-23T12:00:00Z\n" +
			"two   ada          oidc:alice     2026-11-23T12:00:00Z\n", ""},
		"token list ada.dev -o yaml":        {0, "tokenID: one", ""},
		"token list bo.dev":                 {0, "Workspace coder.bo.dev has no tokens.\n", ""},
		"token revoke ada.dev two":          {0, "token two revoked\n", ""},
		"token revoke ada.dev two three":    {1, "token two revoked\n", "has no token with the tokenID"},
		"token revoke ada.dev --all -y":     {0, "token one revoked\ntoken two revoked\n", ""},
		"token revoke ada.dev --all":        {2, "", "add --yes"},
		"token revoke ada.dev":              {2, "", "ids of tokens or --all"},
		"token revoke ada.dev two --all -y": {2, "", "ids of tokens or --all"},
		"token renew ada.dev":               {2, "", "renew"},
		"token":                             {0, "revoke", ""},
	})
	// An empty id, for example of an unset variable, would revoke all tokens.
	newHarness().run(t, api, "-n", "coder", "token", "revoke", "ada.dev", "").want(t, 2, "", "ids of tokens or --all")
	evil := fields{"tokenID": "o\u009bne", "coderUser": "a\x1bda", "workspaceID": "w\x1b-1", "token": "s3\x1b]0;cret\u009b"}
	api.answer("POST "+path, func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusCreated, fields{"apiVersion": "aggregation.coder.com/v1alpha1", "kind": "CoderWorkspaceToken", "status": evil})
	})
	api.answer("DELETE "+path, func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, fields{"items": []any{fields{"status": evil}}})
	})
	runEach(t, api, map[string]answer{
		"token create ada.dev":     {0, "s3]0;cret\n", "user ada, until 0001-01-01T00:00:00Z. The workspace has the id w-1 in"},
		"token revoke ada.dev one": {0, "token one revoked\n", ""},
	})
}

func number(seconds *int64) string {
	text, _ := json.Marshal(seconds)
	return string(text)
}

package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/usertokens"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// token asks for a token of a workspace, or lists or revokes its tokens.
func (f *fixture) token(t *testing.T, caller, method, workspace, query, body string) answer {
	t.Helper()
	return request(t, f.configOf(caller), method, f.path("coderworkspaces/"+workspace+"/token"+query), nil, body)
}

const tokenBody = `{"apiVersion":"aggregation.coder.com/v1alpha1","kind":"CoderWorkspaceToken","spec":{%s}}`

// mint makes a token.
func (f *fixture) mint(t *testing.T, caller, workspace string) aggregationv1alpha1.CoderWorkspaceTokenStatus {
	t.Helper()
	got := f.token(t, caller, http.MethodPost, workspace, "", fmt.Sprintf(tokenBody, ""))
	var token aggregationv1alpha1.CoderWorkspaceToken
	if err := json.Unmarshal([]byte(got.body), &token); got.status != http.StatusCreated || err != nil || token.Status.Token == "" {
		t.Fatalf("%d %s: %v", got.status, got.body, err)
	}
	return token.Status
}

// listed are the tokens of an answer, as ID and who asked for it.
func listed(t *testing.T, got answer) (all []string) {
	t.Helper()
	var list aggregationv1alpha1.CoderWorkspaceTokenList
	if err := json.Unmarshal([]byte(got.body), &list); got.status != http.StatusOK || err != nil || list.Items == nil {
		t.Fatalf("%d %s: %v", got.status, got.body, err)
	}
	for _, item := range list.Items {
		if item.Status.Token != "" {
			t.Error("a list has the value of a token")
		}
		all = append(all, item.Status.CoderUser+" for "+item.Status.RequestedBy)
	}
	return all
}

// workspaceTokens are the names of a user's tokens that are restricted to a workspace.
func (f *fixture) workspaceTokens(username string) []string {
	return slices.DeleteFunc(f.coder.TokenNames(username), func(name string) bool { return !strings.HasPrefix(name, usertokens.WorkspacePrefix) })
}

func TestTokensOfAWorkspace(t *testing.T) {
	f := newFixture(t)
	newPeople(t, f)
	f.rules(t, `[{match: {userName: "person:alice"}, coderUser: {username: ada}}, {match: {userName: "person:root"}, operator: true}]`)
	own, other := f.addWorkspace(t, "dev"), f.addWorkspace(t, "other")
	made := f.mint(t, "person:alice", "coder.ada.dev")
	if made.CoderUser != "ada" || made.WorkspaceID != own.String() || made.RequestedBy != "person:alice" || made.TokenID == "" {
		t.Errorf("%+v", made)
	}
	agent, err := coderd.New(coderd.Config{URL: f.coder.URL, Token: made.Token})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := agent.Workspace(t.Context(), own); err != nil {
		t.Errorf("its own workspace: %v", err)
	}
	if _, err := agent.Workspace(t.Context(), other); !coderd.IsNotFound(err) {
		t.Errorf("another workspace: %v, want 404", err)
	}
	// For callers that are not mapped, the owner's, with the permission to act for the owner.
	f.mint(t, "person:chief", "coder.ada.dev")
	f.mint(t, "person:root", "coder.ada.dev")
	want := []string{"ada for person:alice", "ada for person:chief", "ada for person:root"}
	if got := f.token(t, "somebody", http.MethodGet, "coder.ada.dev", "", ""); got.status != http.StatusForbidden {
		t.Errorf("without a role: %d %s", got.status, got.body)
	}
	if got := listed(t, f.token(t, "person:carol", http.MethodGet, "coder.ada.dev", "", "")); !slices.Equal(got, want) {
		t.Errorf("%v are listed, want %v", got, want)
	}
	if got := listed(t, f.token(t, "person:carol", http.MethodGet, "coder.ada.other", "", "")); len(got) > 0 {
		t.Errorf("%v are listed of another workspace", got)
	}
	if lines := logged.having(made.Token); len(lines) > 0 {
		t.Errorf("the token is logged: %v", lines)
	}
	// One, and then the others.
	dry := f.token(t, "person:alice", http.MethodDelete, "coder.ada.dev", "?dryRun=All", "")
	if got := listed(t, dry); len(got) != 3 || len(f.workspaceTokens("ada")) != 3 {
		t.Errorf("a dry run revokes: %v, left %v", got, f.workspaceTokens("ada"))
	}
	one := fmt.Sprintf(`{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":%q}}`, made.TokenID)
	// A script whose variable is not set does not revoke all.
	unset := strings.Replace(one, made.TokenID, "", 1)
	if got := f.token(t, "person:alice", http.MethodDelete, "coder.ada.dev", "", unset); got.status != http.StatusBadRequest || !strings.Contains(got.body, "preconditions.uid") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := listed(t, f.token(t, "person:alice", http.MethodDelete, "coder.ada.dev", "", one)); !slices.Equal(got, want[:1]) {
		t.Errorf("%v are revoked, want %v", got, want[:1])
	}
	if _, err := agent.Workspace(t.Context(), own); !coderd.IsUnauthorized(err) {
		t.Errorf("a token that was revoked: %v, want 401", err)
	}
	if got := f.token(t, "person:alice", http.MethodDelete, "coder.ada.dev", "", one); got.status != http.StatusConflict {
		t.Errorf("revoking it again: %d %s, want 409", got.status, got.body)
	}
	if got := listed(t, f.token(t, "person:chief", http.MethodDelete, "coder.ada.dev", "", "")); !slices.Equal(got, want[1:]) || len(f.workspaceTokens("ada")) > 0 {
		t.Errorf("%v are revoked, want %v", got, want[1:])
	}
}

// TestWhoGetsWhoseToken: nobody gets a token of the operator's account, or one that their
// own user in Coder could not use.
func TestWhoGetsWhoseToken(t *testing.T) {
	f := newFixture(t)
	newPeople(t, f)
	f.coder.AddUser("gone")
	f.rules(t, `[{match: {userName: "person:alice"}, coderUser: {username: ada}}, {match: {userName: "person:nobody"}, nobody: true},
	  {match: {userName: "person:king"}, coderUser: {username: boss}}, {match: {userName: "person:dave"}, coderUser: {username: boss}},
	  {match: {userName: "person:root"}, operator: true}]`)
	f.addWorkspace(t, "dev")
	for _, owner := range []string{"bob", "boss", "operator", "gone"} {
		f.coder.AddWorkspace(owner, f.template, "his")
		f.workspace(t, "coder."+owner+".his", func(*unstructured.Unstructured) bool { return true })
	}
	f.coder.SuspendUser("gone")
	for name, c := range map[string]struct{ caller, workspace, says string }{
		"mapped, of somebody else":     {"person:alice", "coder.bob.his", "you act as user"},
		"mapped to nobody":             {"person:nobody", "coder.ada.dev", "denies all changes and all sessions"},
		"unmapped":                     {"person:carol", "coder.ada.dev", `coderusers "ada"`},
		"unmapped, of an Owner":        {"person:chief", "coder.boss.his", `coderusers/owner "boss"`},
		"mapped to an Owner":           {"person:dave", "coder.ada.dev", `coderusers/owner "boss"`},
		"the operator's own workspace": {"person:root", "coder.operator.his", "the operator's own account"},
		"of a suspended user":          {"person:chief", "coder.gone.his", "suspended"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, query := range []string{"", "?dryRun=All"} {
				got := f.token(t, c.caller, http.MethodPost, c.workspace, query, fmt.Sprintf(tokenBody, ""))
				if got.status != http.StatusForbidden || !strings.Contains(strings.ReplaceAll(got.body, `\"`, `"`), c.says) {
					t.Errorf("%d %s, want 403 that says %q", got.status, got.body, c.says)
				}
			}
		})
	}
	for _, user := range []string{"ada", "bob", "boss", "operator", "gone"} {
		if got := f.workspaceTokens(user); len(got) > 0 {
			t.Errorf("%s has %v", user, got)
		}
	}
	// An Owner who may be one in Kubernetes gets their own, for one workspace.
	if made := f.mint(t, "person:king", "coder.ada.dev"); made.CoderUser != "boss" {
		t.Errorf("%+v", made)
	}
	// Who may not revoke another user's token in Coder cannot do it here either.
	f.mint(t, "person:alice", "coder.ada.dev")
	got := f.token(t, "person:alice", http.MethodDelete, "coder.ada.dev", "", "")
	if got.status != http.StatusForbidden || !strings.Contains(got.body, "1 of 2 tokens were revoked") || len(f.workspaceTokens("boss")) != 1 || len(f.workspaceTokens("ada")) > 0 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestTokensThatAreRefused(t *testing.T) {
	f := newFixture(t)
	newPeople(t, f)
	id := f.addWorkspace(t, "dev")
	ask := func(spec string) answer {
		return f.token(t, "person:alice", http.MethodPost, "coder.ada.dev", "", fmt.Sprintf(tokenBody, spec))
	}
	want := func(name string, got answer, status int, says string) {
		t.Helper()
		if got.status != status || !strings.Contains(got.body, says) {
			t.Errorf("%s: %d %s, want %d that says %q", name, got.status, got.body, status, says)
		}
	}
	for _, seconds := range []string{"-1", "0", "59", "3601", "9223372036854775807"} {
		want(seconds, ask(`"expirationSeconds":`+seconds), http.StatusUnprocessableEntity, "must be 60 to 3600")
	}
	want("no number", ask(`"expirationSeconds":"long"`), http.StatusBadRequest, "expirationSeconds")
	want("another name", f.token(t, "person:alice", http.MethodPost, "coder.ada.dev", "", `{"apiVersion":"aggregation.coder.com/v1alpha1","kind":"CoderWorkspaceToken","metadata":{"name":"coder.bob.dev"}}`),
		http.StatusBadRequest, "in the address")
	want("no such workspace", f.token(t, "person:alice", http.MethodPost, "coder.ada.none", "", fmt.Sprintf(tokenBody, "")), http.StatusNotFound, "not found")
	for name, fault := range map[string]struct {
		coderdtest.Fault
		want int
		says string
	}{
		"Coder refuses":     {coderdtest.Fault{Method: http.MethodPost, PathPrefix: "/api/v2/users/", Status: http.StatusForbidden, Message: "No tokens here."}, http.StatusForbidden, "No tokens here"},
		"a lifetime":        {coderdtest.Fault{Method: http.MethodPost, PathPrefix: "/api/v2/users/", Status: http.StatusBadRequest, Message: "lifetime must be less than 30m"}, http.StatusUnprocessableEntity, "less than 30m"},
		"Coder is away":     {coderdtest.Fault{DropConnection: true}, http.StatusServiceUnavailable, "retryAfterSeconds"},
		"Coder is starting": {coderdtest.Fault{Method: http.MethodPost, PathPrefix: "/api/v2/users/", Status: http.StatusBadGateway, HTML: true}, http.StatusServiceUnavailable, "retryAfterSeconds"},
	} {
		ask("") // The session of the caller is there.
		before := len(f.workspaceTokens("ada"))
		remove := f.coder.Fail(fault.Fault)
		want(name, ask(""), fault.want, fault.says)
		remove()
		if n := len(f.workspaceTokens("ada")); n != before {
			t.Errorf("%s: %d tokens were made", name, n-before)
		}
	}
	dry := f.token(t, "person:alice", http.MethodPost, "coder.ada.dev", "?dryRun=All", fmt.Sprintf(tokenBody, `"expirationSeconds":60`))
	if before := len(f.workspaceTokens("ada")); dry.status != http.StatusCreated || strings.Contains(dry.body, `"token"`) || !strings.Contains(dry.body, `"coderUser":"ada"`) || len(f.workspaceTokens("ada")) != before {
		t.Errorf("a dry run: %d %s", dry.status, dry.body)
	}
	if err := f.patch(t, "person:alice", "coder.ada.dev", `{"spec":{"dormant":true}}`); err != nil {
		t.Fatal(err)
	}
	want("dormant", ask(""), http.StatusConflict, "call kubectl coder start")
	if err := f.act(t, "coder.ada.dev", "start", http.StatusCreated); err != nil {
		t.Fatal(err)
	}
	f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool {
		return condition(ws, "Ready") == "True Running" && at(ws, "spec", "dormant") == "false"
	})
	want("started", ask(""), http.StatusCreated, "")
	for i := range usertokens.MaxWorkspaceTokens {
		f.coder.AddNamedToken("ada", fmt.Sprintf("%s%s-%d.alice", usertokens.WorkspacePrefix, id, i), time.Hour)
	}
	many := ask("")
	want("too many", many, http.StatusTooManyRequests, "revoke some")
	if seconds := many.header.Get("Retry-After"); seconds != "" || strings.Contains(many.body, "retryAfterSeconds") {
		t.Errorf("the client would repeat the request: %q, %s", seconds, many.body)
	}
}

func TestTokensOfAnOldCoder(t *testing.T) {
	f := newFixture(t, coderdtest.WithRelease(coderdtest.ReleaseBefore))
	newPeople(t, f)
	f.addWorkspace(t, "dev")
	got := f.token(t, "person:alice", http.MethodPost, "coder.ada.dev", "", fmt.Sprintf(tokenBody, ""))
	if got.status != http.StatusNotImplemented || !strings.Contains(got.body, "too old") || len(f.workspaceTokens("ada")) > 0 {
		t.Errorf("%d %s, and %v", got.status, got.body, f.workspaceTokens("ada"))
	}
}

func TestTokensEndWithTheirWorkspace(t *testing.T) {
	for name, remove := range map[string]func(t *testing.T, f *fixture){
		"deleted in Kubernetes": func(t *testing.T, f *fixture) {
			t.Helper()
			if err := f.as(t, "person:alice", workspacesGVR).Delete(t.Context(), "coder.ada.dev", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		},
		"deleted in Coder": func(t *testing.T, f *fixture) {
			t.Helper()
			ws := f.workspace(t, "coder.ada.dev", func(*unstructured.Unstructured) bool { return true })
			f.coder.RemoveWorkspace(uuid.MustParse(idIn(ws)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			newPeople(t, f)
			f.addWorkspace(t, "dev")
			f.addWorkspace(t, "other")
			f.mint(t, "person:alice", "coder.ada.dev")
			f.mint(t, "person:alice", "coder.ada.other")
			remove(t, f)
			gone(t, f.ws(), "coder.ada.dev")
			polltest.Eventually(t, "the end of its token", func() error {
				f.server.storage.tokens.Sweep(t.Context())
				if left := f.workspaceTokens("ada"); len(left) != 1 {
					return errors.New(strings.Join(left, ", "))
				}
				return nil
			})
		})
	}
}

// level is an audit policy of one rule.
type level auditinternal.Level

func (l level) EvaluatePolicyRule(authorizer.Attributes) audit.RequestAuditConfig {
	return audit.RequestAuditConfig{Level: auditinternal.Level(l)}
}

func TestAuditLogHasNoTokens(t *testing.T) {
	for policy, want := range map[auditinternal.Level]auditinternal.Level{
		auditinternal.LevelNone:            auditinternal.LevelNone,
		auditinternal.LevelMetadata:        auditinternal.LevelMetadata,
		auditinternal.LevelRequest:         auditinternal.LevelMetadata,
		auditinternal.LevelRequestResponse: auditinternal.LevelMetadata,
	} {
		e := withoutTokens{level(policy)}
		token := authorizer.AttributesRecord{Resource: "coderworkspaces", Subresource: "token"}
		if got := e.EvaluatePolicyRule(token).Level; got != want {
			t.Errorf("%s becomes %s, want %s", policy, got, want)
		}
		token.Subresource = "start"
		if got := e.EvaluatePolicyRule(token).Level; got != policy {
			t.Errorf("%s becomes %s for another subresource", policy, got)
		}
	}
}

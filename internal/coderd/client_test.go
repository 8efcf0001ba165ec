package coderd_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func TestNewChecksTheURL(t *testing.T) {
	for url, problem := range map[string]string{
		"http://coder.example.com":           "",
		"https://coder.example.com:8443/":    "",
		"http://[::1]:3000":                  "",
		"coder.example.com":                  "must begin with http:// or https://",
		"":                                   "must begin with http:// or https://",
		"ftp://coder.example.com":            "must begin with http:// or https://",
		"http://":                            "has no host",
		"http://:80":                         "has no host",
		"http://ada:s3cret@coder.example":    "must not contain a user or a password",
		"http://coder.example.com/api/v2":    "must not have a path",
		"http://ada:s3cret@coder.example:x/": "cannot be parsed",
		"http://ada:s3cret@co der.example":   "cannot be parsed",
		"ada:s3cret@coder.example":           "cannot be parsed",
		"https:ada:s3cret@coder.example":     "cannot be parsed",
		"ftp://ada:s3cret@coder.example?s3cret=s3cret#s3cret": "must begin with",
	} {
		_, err := coderd.New(coderd.Config{URL: url, Token: "s3cret"})
		switch {
		case problem == "" && err != nil:
			t.Errorf("%q: %v", url, err)
		case problem != "" && (err == nil || !strings.Contains(err.Error(), problem)):
			t.Errorf("%q: %v, want %q", url, err, problem)
		case err != nil && strings.Contains(err.Error(), "s3cret"):
			t.Errorf("the error tells the secret: %v", err)
		}
	}
}

// seeing is called with each request before it is sent.
type seeing func(*http.Request)

func (see seeing) RoundTrip(r *http.Request) (*http.Response, error) {
	see(r)
	return http.DefaultTransport.RoundTrip(r)
}

func TestRequestsNameTheProgramAndCarryTheToken(t *testing.T) {
	server := coderdtest.New(t)
	token := server.AddUser("ada", "owner")
	for agent, want := range map[string]string{"": "coder-k8s", "coder-k8s/v1.2.3": "coder-k8s/v1.2.3"} {
		var sent http.Header
		client, err := coderd.New(coderd.Config{
			URL: server.URL + "/", Token: token, UserAgent: agent,
			Transport: seeing(func(r *http.Request) { sent = r.Header.Clone() }),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Me(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := sent.Get("User-Agent"); got != want {
			t.Errorf("user agent %q, want %q", got, want)
		}
		if got := sent.Get("Coder-Session-Token"); got != token {
			t.Error("the token is not in its header")
		}
		if got := sent.Get("Cookie"); got != "" {
			t.Errorf("cookie %q", got)
		}
	}
}

func TestNamesThatCoderCannotHaveAreNotAsked(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	id := server.AddTemplate("coder", "small", nil)
	server.AddWorkspace("ada", id, "dev")
	server.ResetRequests()
	ctx := t.Context()
	for _, name := range []string{"", ".", "..", "../ada", "ada/..", "ada?x=y", "ada%2f", "ada#", "a--b", "-a", "ada\n", "ä", "a.b"} {
		_, errUser := client.UserByName(ctx, name)
		_, errOwner := client.WorkspaceByName(ctx, name, "dev")
		_, errWorkspace := client.WorkspaceByName(ctx, "ada", name)
		_, errBuildOwner := client.WorkspaceBuildByNumber(ctx, coderd.Workspace{OwnerName: name, Name: "dev"}, 1)
		_, errBuild := client.WorkspaceBuildByNumber(ctx, coderd.Workspace{OwnerName: "ada", Name: name}, 1)
		_, errNewWorkspace := client.CreateWorkspace(ctx, name, coderd.NewWorkspace{Name: "new", TemplateID: id})
		_, errTemplate := client.TemplateByName(ctx, server.OrganizationID("coder"), name)
		_, errOrganization := client.OrganizationByName(ctx, name)
		_, errGroup := client.GroupID(ctx, server.OrganizationID("coder"), name)
		errRoles := client.SetRoles(ctx, name, nil)
		_, errLifetime := client.MaxTokenLifetime(ctx, name)
		_, errNewToken := client.CreateToken(ctx, name, coderd.TokenRequest{Name: "new"})
		_, errTokens := client.TokensOf(ctx, name)
		_, errTokenUser := client.TokenByName(ctx, name, "old")
		_, errToken := client.TokenByName(ctx, "ada", name)
		_, errKey := client.OwnKey(ctx, name)
		errRevokedUser := client.DeleteToken(ctx, name, "old")
		errRevoked := client.DeleteToken(ctx, "ada", name)
		for i, err := range []error{
			errUser, errOwner, errWorkspace, errBuildOwner, errBuild, errNewWorkspace, errTemplate, errOrganization, errGroup,
			errRoles, errLifetime, errNewToken, errTokens, errTokenUser, errToken, errKey, errRevokedUser, errRevoked,
		} {
			if !coderd.IsNotFound(err) {
				t.Errorf("%q (%d): %v, want not found", name, i, err)
			}
		}
	}
	if requests := server.Requests(); len(requests) != 0 {
		t.Errorf("requests: %v", requests)
	}
}

func TestAnOwnerIsKnownByNameAlone(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	server.AddWorkspace("ada", server.AddTemplate("coder", "small", nil), "dev")
	me, err := client.Me(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.WorkspaceByName(t.Context(), "Ada", "dev"); err != nil {
		t.Error(err)
	}
	for _, alias := range []string{"me", me.ID.String()} {
		if w, err := client.WorkspaceByName(t.Context(), alias, "dev"); !coderd.IsNotFound(err) {
			t.Errorf("%q: %v, %v; want not found", alias, w.OwnerName, err)
		}
	}
}

func newClient(t *testing.T, server *coderdtest.Server, token string) *coderd.Client {
	t.Helper()
	client, err := coderd.New(coderd.Config{URL: server.URL, Token: token, Timeout: polltest.Timeout()})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

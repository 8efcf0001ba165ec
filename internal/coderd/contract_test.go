package coderd_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// contractURL is the environment variable with the URL of a real Coder for tests, which may be a
// fresh deployment. The test creates its first user, or needs an Owner with these credentials.
// Because it sends many requests, Coder should have no rate limit (CODER_API_RATE_LIMIT=-1). Its
// provisioners need the provider coder/coder. test/e2e runs the test with Coder in a cluster.
const contractURL = "CODER_CONTRACT_URL"

const (
	contractEmail    = "contract@example.com"
	contractUser     = "contract"
	contractPassword = "Contract-Passw0rd-of-Tests!"
)

// TestContract runs the same cases against the fake server and, if configured, against a real
// Coder, so that the fake does not drift from the real one.
func TestContract(t *testing.T) {
	fakes := map[string]coderdtest.Option{
		// Unknown fields of a later release are ignored.
		"with unknown fields": coderdtest.WithLater(coderdtest.Later{Fields: true}),
	}
	for _, release := range coderdtest.Releases() {
		fakes[string(release)] = coderdtest.WithRelease(release)
	}
	for name, option := range fakes {
		t.Run("fake "+name, func(t *testing.T) {
			server := coderdtest.New(t, option)
			c := &contract{
				url:     server.URL,
				hold:    func() { server.SetBuildResult("", coderdtest.BuildResult{Hold: true}) },
				release: func() { server.SetBuildResult("", coderdtest.BuildResult{}); server.FinishBuilds() },
				fail:    func() { server.SetBuildResult("", coderdtest.BuildResult{Error: "terraform plan: exit status 1"}) },
			}
			c.run(t)
		})
	}
	t.Run("real", func(t *testing.T) {
		url := os.Getenv(contractURL)
		if url == "" {
			t.Skipf("%s is not set", contractURL)
		}
		nothing := func() {}
		c := &contract{url: url, hold: nothing, release: nothing, fail: nothing}
		c.run(t)
	})
}

// contract is the state that the cases share.
type contract struct {
	url string
	// hold keeps builds from ending, release ends them successfully, and fail makes them fail. They
	// do nothing for a real Coder: its builds take their time, and fail because of their content.
	hold, release, fail func()

	// suffix makes names unique, so that the test can run twice against one Coder.
	suffix    string
	anonymous *coderd.Client
	admin     *coderd.Client
	token     string
	org       coderd.Organization
	member    string
	files     []byte
	fileID    uuid.UUID
	version   coderd.TemplateVersion
	template  coderd.Template
	workspace coderd.Workspace
	// asking is a template with the version imported, which has parameters.
	importedFile uuid.UUID
	imported     coderd.TemplateVersion
	preset       coderd.VersionPreset
	asking       coderd.Template
}

func (c *contract) run(t *testing.T) {
	c.suffix = strings.ToLower(uuid.NewString()[:6])
	c.anonymous = c.client(t, "")
	for _, chapter := range []struct {
		name string
		tell func(*testing.T)
	}{
		{"nobody", c.nobody},
		{"first user", c.firstUser},
		{"login", c.login},
		{"tokens", c.tokens},
		{"organizations", c.organizations},
		{"users", c.users},
		{"files", c.uploads},
		{"versions", c.versions},
		{"templates", c.templates},
		{"template policy", c.policy},
		{"active version", c.activeVersion},
		{"new workspace", c.newWorkspace},
		{"workspace", c.readWorkspace},
		{"token of the workspace", c.workspaceToken},
		{"sharing", c.sharing},
		{"schedule", c.schedule},
		{"builds", c.builds},
		{"end of the workspace", c.deleteWorkspace},
		{"imports", c.imports},
		{"evaluation", c.evaluation},
		{"parameters", c.parameters},
		{"archives", c.archives},
		{"end of the template", c.deleteTemplate},
		{"no licenses", c.noLicenses},
		{"logout", c.logout},
	} {
		if !t.Run(chapter.name, chapter.tell) {
			t.Fatalf("the rest of the story needs %q", chapter.name)
		}
	}
}

func (c *contract) client(t *testing.T, token string) *coderd.Client {
	t.Helper()
	client, err := coderd.New(coderd.Config{URL: c.url, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// refusal is the part of an error that must be equal on both servers.
type refusal struct {
	Status  int
	Message string
	Fields  []string
}

func expect(t *testing.T, err error, want refusal) {
	t.Helper()
	var e *coderd.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a refusal with status %d", err, want.Status)
	}
	got := refusal{Status: e.StatusCode, Message: e.Message}
	for _, f := range e.Fields {
		got.Fields = append(got.Fields, f.Field)
	}
	if want.Message == "" {
		got.Message = ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refusal (-want +got), detail %q:\n%s", e.Detail, diff)
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	notFound  = "Resource not found or you do not have access to this resource"
	signedOut = "You are signed out or your session has expired. Please sign in again to continue."
	invalid   = "Validation failed."
)

// noSuchUser has no message: since Coder 2.31 the message is the general one for "not found".
var noSuchUser = refusal{Status: http.StatusNotFound}

func (c *contract) nobody(t *testing.T) {
	info := must[coderd.BuildInfo](t)(c.anonymous.BuildInfo(t.Context()))
	if !strings.HasPrefix(info.Version, "v2.") || uuid.Validate(info.DeploymentID) != nil {
		t.Errorf("build info: %+v", info)
	}
	_, err := c.anonymous.Me(t.Context())
	expect(t, err, refusal{http.StatusUnauthorized, signedOut, nil})
	_, err = c.client(t, "aaaaaaaaaa-bbbbbbbbbbbbbbbbbbbbbb").Me(t.Context())
	expect(t, err, refusal{http.StatusUnauthorized, signedOut, nil})
	_, err = c.client(t, "nonsense").WorkspacePage(t.Context(), 0, 1)
	expect(t, err, refusal{http.StatusUnauthorized, signedOut, nil})
}

func (c *contract) firstUser(t *testing.T) {
	first := coderd.NewUser{Username: contractUser, Email: contractEmail, Name: "Contract", Password: contractPassword}
	if !must[bool](t)(c.anonymous.HasFirstUser(t.Context())) {
		wrong := first
		wrong.Username = "not a name"
		expect(t, c.anonymous.CreateFirstUser(t.Context(), wrong), refusal{http.StatusBadRequest, invalid, []string{"username"}})
		wrong = first
		wrong.Email = "nowhere"
		expect(t, c.anonymous.CreateFirstUser(t.Context(), wrong), refusal{http.StatusBadRequest, invalid, []string{"email"}})
		wrong = first
		wrong.Password = "short"
		expect(t, c.anonymous.CreateFirstUser(t.Context(), wrong), refusal{http.StatusBadRequest, "Password is invalid", []string{"password"}})
		ok(t, c.anonymous.CreateFirstUser(t.Context(), first))
	}
	expect(t, c.anonymous.CreateFirstUser(t.Context(), first), refusal{http.StatusConflict, "The initial user has already been created.", nil})
	if !must[bool](t)(c.anonymous.HasFirstUser(t.Context())) {
		t.Error("there is no first user after all")
	}
}

func (c *contract) login(t *testing.T) {
	_, err := c.anonymous.Login(t.Context(), contractEmail, "wrong")
	expect(t, err, refusal{http.StatusUnauthorized, "Incorrect email or password.", nil})
	_, err = c.anonymous.Login(t.Context(), "nobody@example.com", contractPassword)
	expect(t, err, refusal{http.StatusUnauthorized, "Incorrect email or password.", nil})
	c.token = must[string](t)(c.anonymous.Login(t.Context(), contractEmail, contractPassword))
	c.admin = c.client(t, c.token)
	me := must[coderd.User](t)(c.admin.Me(t.Context()))
	if me.ID == uuid.Nil || me.Username != contractUser || me.Email != contractEmail || !slices.Contains(me.Roles, "owner") {
		t.Errorf("me: %+v", me)
	}
}

func (c *contract) tokens(t *testing.T) {
	ctx := t.Context()
	longest := must[time.Duration](t)(c.admin.MaxTokenLifetime(ctx, coderd.Me))
	if longest != 7*24*time.Hour {
		t.Errorf("longest lifetime of an owner's token: %s", longest)
	}
	name := "operator-" + c.suffix
	_, err := c.admin.CreateToken(ctx, coderd.Me, coderd.TokenRequest{Name: name, Lifetime: longest + time.Hour})
	expect(t, err, refusal{http.StatusBadRequest, "Failed to validate create API key request.", nil})
	token := must[coderd.Token](t)(c.admin.CreateToken(ctx, contractUser, coderd.TokenRequest{Name: name, Lifetime: time.Hour}))
	_, err = c.admin.CreateToken(ctx, coderd.Me, coderd.TokenRequest{Name: name, Lifetime: time.Hour})
	expect(t, err, refusal{http.StatusConflict, fmt.Sprintf("A token with name %q already exists.", name), []string{"name"}})
	_, err = c.admin.CreateToken(ctx, "nobody-"+c.suffix, coderd.TokenRequest{Name: name, Lifetime: time.Hour})
	expect(t, err, noSuchUser)

	var listed *coderd.TokenInfo
	tokens := must[[]coderd.TokenInfo](t)(c.admin.TokensOf(ctx, coderd.Me))
	for i := range tokens {
		if tokens[i].ID == token.ID {
			listed = &tokens[i]
		}
	}
	if listed == nil || listed.Name != name || time.Until(listed.ExpiresAt) > time.Hour || time.Until(listed.ExpiresAt) < 50*time.Minute {
		t.Errorf("token %q in the list: %+v", token.ID, listed)
	}
	if named := must[coderd.TokenInfo](t)(c.admin.TokenByName(ctx, coderd.Me, name)); named != *listed {
		t.Errorf("token by name: %+v, in the list: %+v", named, listed)
	}
	_, err = c.admin.TokenByName(ctx, coderd.Me, "other-"+c.suffix)
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})
	holder := c.client(t, token.Value)
	if own := must[coderd.TokenInfo](t)(holder.OwnKey(ctx, token.ID)); own.Name != name || own.ExpiresAt.Sub(own.CreatedAt).Round(time.Minute) != time.Hour {
		t.Errorf("what a token knows of itself: %+v", own)
	}
	if me := must[coderd.User](t)(holder.Me(ctx)); me.Username != contractUser {
		t.Errorf("the token is of %q", me.Username)
	}
	ok(t, c.admin.DeleteToken(ctx, coderd.Me, token.ID))
	_, err = holder.Me(ctx)
	expect(t, err, refusal{http.StatusUnauthorized, signedOut, nil})
	expect(t, c.admin.DeleteToken(ctx, coderd.Me, token.ID), refusal{http.StatusNotFound, notFound, nil})
}

func (c *contract) organizations(t *testing.T) {
	ctx := t.Context()
	c.org = must[coderd.Organization](t)(c.admin.OrganizationByName(ctx, coderd.DefaultOrganization))
	if c.org.Name != "coder" || !c.org.IsDefault {
		t.Errorf("default organization: %+v", c.org)
	}
	if same := must[coderd.Organization](t)(c.admin.OrganizationByName(ctx, "coder")); same != c.org {
		t.Errorf("by name: %+v, by alias: %+v", same, c.org)
	}
	if all := must[[]coderd.Organization](t)(c.admin.Organizations(ctx)); !slices.Contains(all, c.org) {
		t.Errorf("organizations: %+v", all)
	}
	_, err := c.admin.OrganizationByName(ctx, "nowhere")
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})
}

func (c *contract) users(t *testing.T) {
	ctx := t.Context()
	c.member = "ada-" + c.suffix
	wanted := coderd.NewUser{Username: c.member, Email: c.member + "@example.com", Password: contractPassword}
	_, err := c.admin.CreateUser(ctx, wanted)
	expect(t, err, refusal{Status: http.StatusBadRequest, Fields: []string{"organization_ids"}})
	wanted.OrganizationIDs = []uuid.UUID{uuid.New()}
	_, err = c.admin.CreateUser(ctx, wanted)
	expect(t, err, refusal{http.StatusNotFound, fmt.Sprintf("Organization does not exist with the provided id %q.", wanted.OrganizationIDs[0]), nil})
	wanted.OrganizationIDs = []uuid.UUID{c.org.ID}
	for _, email := range []string{"ada@localhost", "Ada <ada@example.com>", "ada@example.com ", "ada"} {
		bad := wanted
		bad.Email = email
		_, err = c.admin.CreateUser(ctx, bad)
		expect(t, err, refusal{Status: http.StatusBadRequest, Fields: []string{"email"}})
		if coderd.CheckEmail(email) == nil {
			t.Errorf("the rule for addresses accepts %q", email)
		}
	}
	for password, accepted := range map[string]bool{contractPassword: true, "secret7": false, strings.Repeat("Aa-1", 17): false} {
		if problem := must[string](t)(c.admin.PasswordProblem(ctx, password)); (problem == "") != accepted {
			t.Errorf("the problem of password %q: %q", password, problem)
		}
	}
	created := must[coderd.User](t)(c.admin.CreateUser(ctx, wanted))
	if len(created.Roles) != 0 {
		t.Errorf("new user: %+v", created)
	}
	_, err = c.admin.CreateUser(ctx, wanted)
	expect(t, err, refusal{http.StatusConflict, "User already exists.", nil})
	if longest := must[time.Duration](t)(c.admin.MaxTokenLifetime(ctx, c.member)); longest < 365*24*time.Hour {
		t.Errorf("longest lifetime of a member's token: %s", longest)
	}

	ok(t, c.admin.SetRoles(ctx, c.member, []string{"template-admin"}))
	if read := must[coderd.User](t)(c.admin.UserByName(ctx, c.member)); !slices.Equal(read.Roles, []string{"template-admin"}) || read.ID != created.ID {
		t.Errorf("user with a role: %+v", read)
	}
	expect(t, c.admin.SetRoles(ctx, coderd.Me, nil), refusal{http.StatusBadRequest, "You cannot change your own roles.", nil})
	_, err = c.admin.UserByName(ctx, "nobody-"+c.suffix)
	expect(t, err, noSuchUser)
	ok(t, c.admin.SetRoles(ctx, c.member, nil))
	member := c.client(t, must[string](t)(c.anonymous.Login(ctx, wanted.Email, wanted.Password)))
	_, err = member.UserByName(ctx, contractUser)
	expect(t, err, noSuchUser)
	_, err = member.CreateUser(ctx, coderd.NewUser{Username: "x-" + c.suffix, Email: "x@example.com", Password: contractPassword, OrganizationIDs: wanted.OrganizationIDs})
	if !coderd.IsForbidden(err) && !coderd.IsNotFound(err) {
		t.Errorf("a member creates a user: %v", err)
	}
	// Rules that map callers to usernames rely on it: nobody can take the name of another caller.
	renamed := created
	renamed.Username = "y-" + c.suffix
	expect(t, member.SetFullName(ctx, renamed, "Ada"), refusal{http.StatusNotFound, notFound, nil})
	ok(t, member.SetFullName(ctx, created, "Ada"))
}

// rawTemplate returns all fields of a template in Coder's API.
func (c *contract) rawTemplate(t *testing.T, method string, body string) map[string]any {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.url+"/api/v2/templates/"+c.template.ID.String(), strings.NewReader(body))
	ok(t, err)
	req.Header.Set("Coder-Session-Token", c.token)
	res := must[*http.Response](t)(http.DefaultClient.Do(req))
	defer func() { _ = res.Body.Close() }()
	var out map[string]any
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s template: HTTP %d, %v, %v", method, res.StatusCode, err, out)
	}
	return out
}

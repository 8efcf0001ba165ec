package coderd_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// noLicenses checks the responses of the AGPL build for licensed features. It cannot run with a
// Coder that supports licenses.
func (c *contract) noLicenses(t *testing.T) {
	ctx, id := t.Context(), uuid.New()
	calls := map[string]error{
		"delete license":      c.admin.DeleteLicense(ctx, 1),
		"delete key":          c.admin.DeleteProvisionerKey(ctx, c.org.ID, "none"),
		"delete proxy":        c.admin.DeleteWorkspaceProxy(ctx, id),
		"check proxy token":   c.admin.CheckWorkspaceProxyToken(ctx, id.String()+":"+strings.Repeat("s", 64)),
		"delete without user": c.anonymous.DeleteLicense(ctx, 1),
	}
	_, calls["entitlements"] = c.anonymous.Entitlements(ctx)
	_, calls["licenses"] = c.admin.Licenses(ctx)
	_, calls["add license"] = c.admin.AddLicense(ctx, coderdtest.NewLicense(coderdtest.License{}))
	_, calls["keys"] = c.admin.ProvisionerKeys(ctx, c.org.ID)
	_, calls["create key"] = c.admin.CreateProvisionerKey(ctx, c.org.ID, "key", nil)
	_, calls["check key"] = c.admin.CheckProvisionerKey(ctx, strings.Repeat("k", 43))
	_, calls["proxy by name"] = c.admin.WorkspaceProxyByName(ctx, "falkenstein")
	_, calls["proxy by id"] = c.admin.WorkspaceProxyByID(ctx, id)
	_, _, calls["create proxy"] = c.admin.CreateWorkspaceProxy(ctx, "falkenstein", "", "")
	_, _, calls["change proxy"] = c.admin.UpdateWorkspaceProxy(ctx, id, "falkenstein", "", "", true)
	for what, err := range calls {
		if !coderd.IsNotSupported(err) || coderd.IsUnreachable(err) || coderd.IsNotFound(err) {
			t.Errorf("%s: %v, want not supported", what, err)
		}
	}
	_, err := c.admin.ProvisionerKeys(ctx, id)
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})
	_, err = c.anonymous.ProvisionerKeys(ctx, c.org.ID)
	expect(t, err, refusal{http.StatusUnauthorized, signedOut, nil})

	// The list of provisioners is also available without a license.
	_ = must[[]coderd.ProvisionerDaemon](t)(c.admin.ProvisionerDaemons(ctx, c.org.ID))
	_, err = c.admin.ProvisionerDaemons(ctx, id)
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})
}

// TestLicensedContract checks the build of Coder that supports licenses. With make test-licensed it
// runs against a real one.
func TestLicensedContract(t *testing.T) {
	server := coderdtest.New(t, coderdtest.WithLicensing(), coderdtest.WithRelease(coderdtest.Release236))
	c := &licensed{contract: contract{url: server.URL}, server: server}
	c.anonymous = c.client(t, "")
	c.token = server.AddUser("ada", "owner")
	c.admin = c.client(t, c.token)
	c.stranger = c.client(t, server.AddUser("bob"))
	c.org = must[coderd.Organization](t)(c.admin.OrganizationByName(t.Context(), coderd.DefaultOrganization))
	for _, chapter := range []struct {
		name string
		tell func(*testing.T)
	}{
		{"no license", c.unlicensed},
		{"licenses", c.licenses},
		{"entitlements", c.entitlements},
		{"service accounts", c.serviceAccounts},
		{"prebuilt workspaces", c.prebuilt},
		{"groups", c.groups},
		{"two replicas", c.replicas},
		{"provisioner keys", c.provisionerKeys},
		{"provisioner daemons", c.provisionerDaemons},
		{"workspace proxies", c.proxies},
		{"tokens of workspace proxies", c.proxyTokens},
		{"end of the license", c.end},
	} {
		if !t.Run(chapter.name, chapter.tell) {
			t.Fatalf("the rest of the story needs %q", chapter.name)
		}
	}
}

type licensed struct {
	contract
	server   *coderdtest.Server
	stranger *coderd.Client
	license  coderd.License
	// prebuild is a workspace that Coder has built in advance.
	prebuild coderd.Workspace
}

const (
	noProvisioners = "External Provisioner Daemons is a Premium feature. Contact sales!"
	noProxies      = "Workspace Proxy is a Premium feature. Contact sales!"
	noServices     = "Service Accounts is a Premium feature. Contact sales!"
	noGroups       = "Template RBAC is a Premium feature. Contact sales!"
)

func (c *licensed) unlicensed(t *testing.T) {
	ctx := t.Context()
	got := must[coderd.Entitlements](t)(c.anonymous.Entitlements(ctx))
	if got.HasLicense || got.Tier() != coderd.TierNone || got.Of(coderd.FeatureWorkspaceProxy) != coderd.NotEntitled {
		t.Errorf("entitlements: %+v", got)
	}
	if all := must[[]coderd.License](t)(c.admin.Licenses(ctx)); len(all) != 0 {
		t.Errorf("licenses: %+v", all)
	}
	_, err := c.admin.ProvisionerKeys(ctx, c.org.ID)
	expect(t, err, refusal{http.StatusForbidden, noProvisioners, nil})
	_, err = c.admin.CreateProvisionerKey(ctx, c.org.ID, "key", nil)
	expect(t, err, refusal{http.StatusForbidden, noProvisioners, nil})
	// Without a license not even existing objects can be deleted.
	text := c.server.AddProvisionerKey("coder", "old", nil)
	expect(t, c.admin.DeleteProvisionerKey(ctx, c.org.ID, "old"), refusal{http.StatusForbidden, noProvisioners, nil})
	if key := must[coderd.ProvisionerKey](t)(c.anonymous.CheckProvisionerKey(ctx, text)); key.Name != "old" {
		t.Errorf("key: %+v", key)
	}
	c.server.RemoveProvisionerKey("coder", "old")
	_, _, err = c.admin.CreateWorkspaceProxy(ctx, "falkenstein", "", "")
	expect(t, err, refusal{http.StatusForbidden, noProxies, nil})
	if !coderd.IsNotEntitled(err) {
		t.Errorf("%v, want not entitled", err)
	}
	_, err = c.admin.GroupID(ctx, c.org.ID, "devs")
	expect(t, err, refusal{http.StatusForbidden, noGroups, nil})
	_, err = c.admin.CreateUser(ctx, c.service("robot"))
	expect(t, err, refusal{http.StatusForbidden, noServices, nil})
	if !coderd.IsNotEntitled(err) {
		t.Errorf("%v, want not entitled", err)
	}
	// Coder checks the license before the user.
	_, err = c.anonymous.WorkspaceProxyByName(ctx, "falkenstein")
	expect(t, err, refusal{http.StatusForbidden, noProxies, nil})
	_, err = c.anonymous.ProvisionerKeys(ctx, c.org.ID)
	expect(t, err, refusal{http.StatusUnauthorized, signedOut, nil})
}

func (c *licensed) licenses(t *testing.T) {
	ctx := t.Context()
	id, expires := uuid.New(), time.Now().AddDate(0, 6, 0).UTC().Truncate(time.Second)
	text := coderdtest.NewLicense(coderdtest.License{UUID: id, FeatureSet: "premium", Features: map[string]int64{"user_limit": 9007199254740993}, Expires: expires})
	claims := must[coderd.LicenseClaims](t)(coderd.ParseLicense(text + "\n"))

	for _, wrong := range []string{
		"nonsense", "a.b.c", text + "x", coderdtest.NewLicense(coderdtest.License{Expires: time.Now().Add(-time.Hour)}),
		coderdtest.NewLicense(coderdtest.License{IssuedAt: time.Now().Add(time.Hour)}),
	} {
		_, err := c.admin.AddLicense(ctx, wrong)
		expect(t, err, refusal{http.StatusBadRequest, "Invalid license", nil})
	}
	_, err := c.admin.AddLicense(ctx, " ")
	expect(t, err, refusal{http.StatusBadRequest, invalid, []string{"license"}})
	_, err = c.admin.AddLicense(ctx, coderdtest.NewLicense(coderdtest.License{DeploymentIDs: []string{"another"}}))
	expect(t, err, refusal{http.StatusBadRequest, "License cannot be used on this deployment!", nil})
	_, err = c.stranger.AddLicense(ctx, text)
	expect(t, err, refusal{http.StatusForbidden, "Forbidden.", nil})
	_, err = c.anonymous.AddLicense(ctx, text)
	expect(t, err, refusal{http.StatusUnauthorized, signedOut, nil})

	c.license = must[coderd.License](t)(c.admin.AddLicense(ctx, text+"\n"))
	if c.license.UUID != id || !c.license.Is(claims) || !c.license.Claims.ExpiresAt.Equal(expires) || c.license.UploadedAt.IsZero() {
		t.Errorf("new license: %+v", c.license)
	}
	_, err = c.admin.AddLicense(ctx, text)
	expect(t, err, refusal{http.StatusConflict, "Coder already has such an object", nil})
	other := must[coderd.License](t)(c.admin.AddLicense(ctx, coderdtest.NewLicense(coderdtest.License{Trial: true})))
	all := must[[]coderd.License](t)(c.admin.Licenses(ctx))
	if len(all) != 2 || all[0].ID != c.license.ID || !all[0].Is(claims) || all[1].Is(claims) || !all[1].Claims.Trial || all[0].Claims.Trial {
		t.Errorf("licenses: %+v", all)
	}
	if seen := must[[]coderd.License](t)(c.stranger.Licenses(ctx)); len(seen) != 0 {
		t.Errorf("a member sees %+v", seen)
	}
	if got := must[coderd.Entitlements](t)(c.admin.Entitlements(ctx)); got.Tier() != coderd.TierTrial {
		t.Errorf("tier with a trial license: %s", got.Tier())
	}
	expect(t, c.stranger.DeleteLicense(ctx, other.ID), refusal{http.StatusForbidden, "Forbidden.", nil})
	ok(t, c.admin.DeleteLicense(ctx, other.ID))
	expect(t, c.admin.DeleteLicense(ctx, other.ID), refusal{http.StatusNotFound, "Unknown license ID", nil})
	if held := c.server.Licenses(); len(held) != 1 || held[0].Text != text || held[0].UUID != id {
		t.Errorf("held: %+v", held)
	}
}

func (c *licensed) entitlements(t *testing.T) {
	got := must[coderd.Entitlements](t)(c.anonymous.Entitlements(t.Context()))
	if !got.HasLicense || got.Trial || got.Tier() != coderd.TierPremium {
		t.Errorf("entitlements: %+v", got)
	}
	for _, name := range []string{
		coderd.FeatureExternalProvisioners, coderd.FeatureHighAvailability, coderd.FeatureWorkspaceProxy, coderd.FeatureServiceAccounts,
	} {
		if f := got.Of(name); f != coderd.Entitled {
			t.Errorf("%s: %s", name, f)
		}
	}
	if got.Of("from the future") != coderd.EntitlementUnknown {
		t.Error("Coder says something of a feature that it does not know")
	}
}

// service describes a service account.
func (c *licensed) service(name string) coderd.NewUser {
	return coderd.NewUser{Username: name, Name: "Robot", LoginType: "none", ServiceAccount: true, OrganizationIDs: []uuid.UUID{c.org.ID}}
}

func (c *licensed) serviceAccounts(t *testing.T) {
	ctx := t.Context()
	for message, change := range map[string]func(*coderd.NewUser){
		"Service accounts must use login type 'none'.":  func(u *coderd.NewUser) { u.LoginType = "oidc" },
		"Password cannot be set for service accounts.":  func(u *coderd.NewUser) { u.Password = "robot-Passw0rd!" },
		"Email cannot be set for service accounts.":     func(u *coderd.NewUser) { u.Email = "robot@example.com" },
		"Login type 'none' requires a service account.": func(u *coderd.NewUser) { u.ServiceAccount, u.Email = false, "robot@example.com" },
	} {
		user := c.service("robot")
		change(&user)
		_, err := c.admin.CreateUser(ctx, user)
		expect(t, err, refusal{http.StatusBadRequest, message, nil})
	}
	taken := c.service("ada")
	_, err := c.admin.CreateUser(ctx, taken)
	expect(t, err, refusal{http.StatusConflict, "User already exists.", nil})
	robot := must[coderd.User](t)(c.admin.CreateUser(ctx, c.service("robot")))
	other := must[coderd.User](t)(c.admin.CreateUser(ctx, c.service("android")))
	if !robot.ServiceAccount || robot.Email != "" || robot.LoginType != "none" || robot.Name != "Robot" || robot.ID == other.ID {
		t.Errorf("made: %+v", robot)
	}
	ok(t, c.admin.SetRoles(ctx, "robot", []string{"auditor"}))
	ok(t, c.admin.SetMemberRoles(ctx, c.org.ID, robot, []string{"organization-auditor"}))
	read := must[coderd.User](t)(c.admin.UserByID(ctx, robot.ID))
	want := robot
	want.Roles, want.OrganizationRoles = []string{"auditor"}, map[uuid.UUID][]string{c.org.ID: {"organization-auditor"}}
	want.Status, want.LastSeenAt = read.Status, read.LastSeenAt
	if diff := cmp.Diff(want, read); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	page := must[coderd.UserPage](t)(c.admin.UserPage(ctx, 0, 100))
	services := map[string]bool{}
	for _, u := range page.Users {
		services[u.Username] = u.ServiceAccount
	}
	if !services["robot"] || !services["android"] || services["ada"] {
		t.Errorf("listed: %v", services)
	}
	if roles := must[map[uuid.UUID][]string](t)(c.admin.Members(ctx, c.org.ID)); !cmp.Equal(roles[robot.ID], []string{"organization-auditor"}) || len(roles[other.ID]) != 0 {
		t.Errorf("roles of the members: %v", roles)
	}
	// It uses Coder with tokens that others make.
	token := must[coderd.Token](t)(c.admin.CreateToken(ctx, "robot", coderd.TokenRequest{Name: "ci", Lifetime: time.Hour}))
	if me := must[coderd.User](t)(c.client(t, token.Value).Me(ctx)); me.ID != robot.ID || !me.ServiceAccount {
		t.Errorf("as itself: %+v", me)
	}
	expect(t, c.admin.SetPassword(ctx, robot, "robot-Passw0rd!"), refusal{http.StatusBadRequest, "Users without password login type cannot change their password.", nil})
	ok(t, c.admin.SetSuspended(ctx, robot, true))
	if _, err := c.client(t, token.Value).Me(ctx); !coderd.IsUnauthorized(err) {
		t.Errorf("suspended: %v, want unauthorized", err)
	}
	ok(t, c.admin.SetSuspended(ctx, robot, false))
	for _, u := range []coderd.User{robot, other} {
		ok(t, c.admin.DeleteUser(ctx, u))
	}
}

// prebuilt checks how Coder shows a workspace that it has built in advance, and that it refuses to change its schedule.
func (c *licensed) prebuilt(t *testing.T) {
	ctx, id := t.Context(), c.server.AddPrebuilt()
	for _, w := range must[[]coderd.Workspace](t)(allWorkspaces(ctx, c.admin)) {
		if w.ID == id {
			c.prebuild = w
		}
	}
	if w := c.prebuild; !w.Prebuilt() || w.OwnerName != "prebuilds" || w.TemplateRequireActiveVersion {
		t.Fatalf("listed: %+v", w)
	}
	daily, ttl := "CRON_TZ=UTC 0 9 * * 1-5", time.Hour
	for message, err := range map[string]error{
		"TTL updates are not supported for prebuilt workspaces":      c.admin.SetTTL(ctx, id, &ttl),
		"Autostart is not supported for prebuilt workspaces":         c.admin.SetAutostart(ctx, id, &daily),
		"Dormancy updates are not supported for prebuilt workspaces": c.admin.SetDormant(ctx, id, true),
	} {
		expect(t, err, refusal{http.StatusConflict, message, nil})
	}
	c.server.PatchTemplate(t, c.prebuild.TemplateID, map[string]any{"require_active_version": true})
	if w := must[coderd.Workspace](t)(c.admin.Workspace(ctx, id)); !w.TemplateRequireActiveVersion {
		t.Error("the workspace does not show that its template requires the active version")
	}
}

// groups shares a workspace with a group.
func (c *licensed) groups(t *testing.T) {
	ctx, id := t.Context(), c.prebuild.ID
	want := coderd.Share{ID: c.server.AddGroup("devs"), IsGroup: true, GroupName: "devs", Role: coderd.RoleUse}
	if found := must[uuid.UUID](t)(c.admin.GroupID(ctx, c.org.ID, "devs")); found != want.ID {
		t.Errorf("the id is %s, want %s", found, want.ID)
	}
	_, err := c.admin.GroupID(ctx, c.org.ID, "ops")
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})
	for _, role := range []string{coderd.RoleUse, coderd.RoleAdmin, ""} {
		want.Role = role
		ok(t, c.admin.ShareWorkspace(ctx, id, []coderd.Share{want}))
		wanted := []coderd.Share{want}
		if role == "" {
			wanted = nil
		}
		if diff := cmp.Diff(wanted, must[coderd.Workspace](t)(c.admin.Workspace(ctx, id)).SharedWith); diff != "" {
			t.Errorf("shared as %q (-want +got):\n%s", role, diff)
		}
	}
}

// replicas checks that what is changed through one replica is visible through the other.
func (c *licensed) replicas(t *testing.T) {
	ctx, url := t.Context(), c.server.AddReplica()
	second := must[*coderd.Client](t)(coderd.New(coderd.Config{URL: url, Token: c.token}))
	if got := must[coderd.Entitlements](t)(second.Entitlements(ctx)); got.Of(coderd.FeatureHighAvailability) != coderd.Entitled {
		t.Errorf("entitlements: %+v", got)
	}
	text := must[string](t)(c.admin.CreateProvisionerKey(ctx, c.org.ID, "shared", nil))
	if key := must[coderd.ProvisionerKey](t)(second.CheckProvisionerKey(ctx, text)); key.Name != "shared" {
		t.Errorf("key: %+v", key)
	}
	ok(t, second.DeleteProvisionerKey(ctx, c.org.ID, "shared"))
	if _, err := c.admin.CheckProvisionerKey(ctx, text); !coderd.IsUnauthorized(err) {
		t.Errorf("deleted through the other replica: %v, want unauthorized", err)
	}
	trial := must[coderd.License](t)(c.admin.AddLicense(ctx, coderdtest.NewLicense(coderdtest.License{Trial: true})))
	c.untilTier(t, second, coderd.TierTrial)
	ok(t, c.admin.DeleteLicense(ctx, trial.ID))
	c.untilTier(t, second, coderd.TierPremium)
}

// untilTier waits until a replica knows a change of the licenses that was made through another one.
func (c *licensed) untilTier(t *testing.T, replica *coderd.Client, tier coderd.LicenseTier) {
	t.Helper()
	began, asked := time.Now(), 0
	polltest.Eventually(t, "the other replica knows the licenses", func() error {
		got, err := replica.Entitlements(t.Context())
		if asked++; err == nil && got.Tier() != tier {
			err = fmt.Errorf("the tier is %s, want %s", got.Tier(), tier)
		}
		return err
	})
	t.Logf("the other replica knew the licenses after %s and %d requests", time.Since(began), asked)
}

func (c *licensed) provisionerKeys(t *testing.T) {
	ctx, tags := t.Context(), map[string]string{"cluster": "falkenstein"}
	text := must[string](t)(c.admin.CreateProvisionerKey(ctx, c.org.ID, "Builders.eu_1", tags))
	if len(text) != 43 {
		t.Errorf("a text of %d characters", len(text))
	}
	_, err := c.admin.CreateProvisionerKey(ctx, c.org.ID, "builders.EU_1", nil)
	expect(t, err, refusal{http.StatusConflict, "Provisioner key with name 'builders.EU_1' already exists in organization", nil})
	for _, name := range []string{"", strings.Repeat("x", 65), "PSK", "built-in", "user-auth", "a b", "a/b", "..", "-x"} {
		_, err = c.admin.CreateProvisionerKey(ctx, c.org.ID, name, nil)
		expect(t, err, refusal{http.StatusBadRequest, "", []string{"name"}})
	}
	_, err = c.stranger.CreateProvisionerKey(ctx, c.org.ID, "mine", nil)
	expect(t, err, refusal{http.StatusForbidden, "the token has no permission for this", nil})
	_, err = c.admin.CreateProvisionerKey(ctx, uuid.New(), "mine", nil)
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})

	keys := must[[]coderd.ProvisionerKey](t)(c.admin.ProvisionerKeys(ctx, c.org.ID))
	if len(keys) != 1 || keys[0].Name != "builders.eu_1" || keys[0].OrganizationID != c.org.ID || keys[0].CreatedAt.IsZero() || !cmp.Equal(keys[0].Tags, tags) {
		t.Fatalf("keys: %+v", keys)
	}
	if seen := must[[]coderd.ProvisionerKey](t)(c.stranger.ProvisionerKeys(ctx, c.org.ID)); len(seen) != 1 {
		t.Errorf("a member sees %+v", seen)
	}
	if key := must[coderd.ProvisionerKey](t)(c.anonymous.CheckProvisionerKey(ctx, text)); !cmp.Equal(key, keys[0]) {
		t.Errorf("checked: %+v, listed: %+v", key, keys[0])
	}
	for _, wrong := range []string{"", "short", strings.Repeat("k", 43), text + "x"} {
		if _, err := c.anonymous.CheckProvisionerKey(ctx, wrong); !coderd.IsUnauthorized(err) {
			t.Errorf("%q: %v, want unauthorized", wrong, err)
		}
	}
	expect(t, c.stranger.DeleteProvisionerKey(ctx, c.org.ID, "builders.eu_1"), refusal{http.StatusForbidden, "the token has no permission for this", nil})
	expect(t, c.admin.DeleteProvisionerKey(ctx, c.org.ID, "psk"), refusal{http.StatusBadRequest, "Cannot delete reserved 'psk' provisioner key", nil})
	ok(t, c.admin.DeleteProvisionerKey(ctx, c.org.ID, "BUILDERS.eu_1"))
	expect(t, c.admin.DeleteProvisionerKey(ctx, c.org.ID, "builders.eu_1"), refusal{http.StatusNotFound, notFound, nil})
	if _, err := c.anonymous.CheckProvisionerKey(ctx, text); !coderd.IsUnauthorized(err) {
		t.Errorf("a deleted key: %v, want unauthorized", err)
	}
	if held := c.server.ProvisionerKeys("coder"); len(held) != 0 {
		t.Errorf("held: %+v", held)
	}
}

func (c *licensed) provisionerDaemons(t *testing.T) {
	ctx := t.Context()
	for _, name := range []string{"old", "new"} {
		_ = must[string](t)(c.admin.CreateProvisionerKey(ctx, c.org.ID, name, map[string]string{"name": name}))
	}
	names := map[uuid.UUID]string{}
	for _, key := range must[[]coderd.ProvisionerKey](t)(c.admin.ProvisionerKeys(ctx, c.org.ID)) {
		names[key.ID] = key.Name
	}
	for i := range 60 {
		c.server.AddProvisionerDaemon("coder", "old", fmt.Sprintf("old-%d", i))
	}
	c.server.AddProvisionerDaemon("coder", "new", "new-0")
	c.server.AddProvisionerDaemon("coder", "", "coder-0")
	all := must[[]coderd.ProvisionerDaemon](t)(c.admin.ProvisionerDaemons(ctx, c.org.ID))
	count := map[string]int{}
	for _, d := range all {
		count[names[d.KeyID]]++
	}
	// The built-in provisioner has a key that is not in the list.
	if diff := cmp.Diff(map[string]int{"old": 60, "new": 1, "": 1}, count); diff != "" {
		t.Errorf("daemons by key (-want +got):\n%s", diff)
	}
	ok(t, c.admin.DeleteProvisionerKey(ctx, c.org.ID, "old"))
	if left := must[[]coderd.ProvisionerDaemon](t)(c.admin.ProvisionerDaemons(ctx, c.org.ID)); len(left) != 2 {
		t.Errorf("daemons after the end of their key: %+v", left)
	}
	_, err := c.stranger.ProvisionerDaemons(ctx, c.org.ID)
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})
}

func (c *licensed) proxies(t *testing.T) {
	ctx := t.Context()
	created, token, err := c.admin.CreateWorkspaceProxy(ctx, "Falkenstein.1", "", "")
	ok(t, err)
	if id, ok := coderd.ProxyOfToken(token); !ok || id != created.ID {
		t.Errorf("the token is not that of %s", created.ID)
	}
	if !created.Matches("Falkenstein.1", "", "") || created.Icon == "" || created.DisplayName == "" {
		t.Errorf("new proxy: %+v", created)
	}
	_, _, err = c.admin.CreateWorkspaceProxy(ctx, "falkenstein.1", "", "")
	expect(t, err, refusal{http.StatusConflict, `Workspace proxy with name "falkenstein.1" already exists.`, nil})
	for _, name := range []string{"", "Primary", "a b", "a/b", ".", uuid.NewString()} {
		_, _, err = c.admin.CreateWorkspaceProxy(ctx, name, "", "")
		expect(t, err, refusal{http.StatusBadRequest, "", []string{"name"}})
	}
	_, _, err = c.stranger.CreateWorkspaceProxy(ctx, "mine", "", "")
	expect(t, err, refusal{http.StatusForbidden, "the token has no permission for this", nil})

	read := must[coderd.WorkspaceProxy](t)(c.admin.WorkspaceProxyByName(ctx, "Falkenstein.1"))
	if !cmp.Equal(read, must[coderd.WorkspaceProxy](t)(c.admin.WorkspaceProxyByID(ctx, created.ID))) || read.ID != created.ID {
		t.Errorf("by name: %+v", read)
	}
	for _, name := range []string{"falkenstein.1", "nowhere", "", "..", created.ID.String()} {
		if _, err := c.admin.WorkspaceProxyByName(ctx, name); !coderd.IsNotFound(err) {
			t.Errorf("%q: %v, want not found", name, err)
		}
	}
	if primary := must[coderd.WorkspaceProxy](t)(c.admin.WorkspaceProxyByName(ctx, coderd.PrimaryProxy)); !primary.Primary() {
		t.Errorf("primary: %+v", primary)
	}

	changed, none, err := c.admin.UpdateWorkspaceProxy(ctx, created.ID, "helsinki", "Helsinki", "", false)
	ok(t, err)
	if none != "" || !changed.Matches("helsinki", "Helsinki", "") || changed.Matches("helsinki", "", "") {
		t.Errorf("changed proxy: %+v", changed)
	}
	other, _, err := c.admin.CreateWorkspaceProxy(ctx, "other", "", "/icon/x.svg")
	ok(t, err)
	_, _, err = c.admin.UpdateWorkspaceProxy(ctx, other.ID, "HELSINKI", "", "", false)
	expect(t, err, refusal{http.StatusConflict, "Coder already has such an object", nil})
	_, _, err = c.admin.UpdateWorkspaceProxy(ctx, uuid.New(), "nobody", "", "", false)
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})
	_, _, err = c.stranger.UpdateWorkspaceProxy(ctx, other.ID, "mine", "", "", true)
	expect(t, err, refusal{http.StatusNotFound, notFound, nil})

	ok(t, c.admin.DeleteWorkspaceProxy(ctx, other.ID))
	ok(t, c.admin.DeleteWorkspaceProxy(ctx, other.ID))
	if gone := must[coderd.WorkspaceProxy](t)(c.admin.WorkspaceProxyByID(ctx, other.ID)); !gone.Deleted {
		t.Errorf("deleted proxy: %+v", gone)
	}
	again, _, err := c.admin.CreateWorkspaceProxy(ctx, "other", "", "")
	ok(t, err)
	ok(t, c.admin.DeleteWorkspaceProxy(ctx, again.ID))
}

func (c *licensed) proxyTokens(t *testing.T) {
	ctx := t.Context()
	proxy, token, err := c.admin.CreateWorkspaceProxy(ctx, "ashburn", "", "")
	ok(t, err)
	ok(t, c.anonymous.CheckWorkspaceProxyToken(ctx, token))
	refused := func(what, token string) {
		t.Helper()
		if err := c.anonymous.CheckWorkspaceProxyToken(ctx, token); !coderd.IsUnauthorized(err) {
			t.Errorf("%s: %v, want unauthorized", what, err)
		}
	}
	refused("empty", "")
	refused("a session token", c.token)
	refused("another secret", proxy.ID.String()+":"+strings.Repeat("s", 64))
	refused("a short secret", proxy.ID.String()+":short")
	refused("nobody", uuid.NewString()+":"+strings.Repeat("s", 64))

	// A proxy runs with the token.
	c.server.StartProxy(token)
	ok(t, c.anonymous.CheckWorkspaceProxyToken(ctx, token))
	if !c.server.RegisterProxy(token, "https://ashburn.example.com", "*.ashburn.example.com") {
		t.Error("the proxy is not let in")
	}
	_, fresh, err := c.admin.UpdateWorkspaceProxy(ctx, proxy.ID, "ashburn", "", "", true)
	ok(t, err)
	ok(t, c.anonymous.CheckWorkspaceProxyToken(ctx, fresh))
	refused("the token before", token)
	ok(t, c.admin.DeleteWorkspaceProxy(ctx, proxy.ID))
	refused("a deleted proxy", fresh)
	if c.server.RegisterProxy(fresh, "https://ashburn.example.com", "") {
		t.Error("a deleted proxy is let in")
	}
}

// end removes the license while there are a key and a proxy.
func (c *licensed) end(t *testing.T) {
	ctx := t.Context()
	text := must[string](t)(c.admin.CreateProvisionerKey(ctx, c.org.ID, "last", nil))
	proxy, token, err := c.admin.CreateWorkspaceProxy(ctx, "last", "", "")
	ok(t, err)
	ok(t, c.admin.DeleteLicense(ctx, c.license.ID))
	if got := must[coderd.Entitlements](t)(c.admin.Entitlements(ctx)); got.Tier() != coderd.TierNone {
		t.Errorf("tier: %s", got.Tier())
	}
	if _, err := c.anonymous.CheckProvisionerKey(ctx, text); err != nil {
		t.Errorf("a key does not end with the license: %v", err)
	}
	// Without a license the requirement has no effect, and workspaces show it nevertheless.
	if w := must[coderd.Workspace](t)(c.admin.Workspace(ctx, c.prebuild.ID)); !w.TemplateRequireActiveVersion || !w.Prebuilt() {
		t.Errorf("the workspace after the end of the license: %+v", w)
	}
	for what, err := range map[string]error{
		"delete key":   c.admin.DeleteProvisionerKey(ctx, c.org.ID, "last"),
		"delete proxy": c.admin.DeleteWorkspaceProxy(ctx, proxy.ID),
		"check token":  c.anonymous.CheckWorkspaceProxyToken(ctx, token),
	} {
		if !coderd.IsNotEntitled(err) || !coderd.IsForbidden(err) {
			t.Errorf("%s: %v, want not entitled", what, err)
		}
	}
}

package coderdtest_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

func entitlements(t *testing.T, client *coderd.Client) coderd.Entitlements {
	t.Helper()
	out, err := client.Entitlements(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLicensesRunOutByTheClock(t *testing.T) {
	begin := time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(begin)
	server := coderdtest.New(t, coderdtest.WithLicensing(), coderdtest.WithClock(clock))
	client := newClient(t, server, server.AddUser("ada", "owner"))
	if !server.AddLicense(coderdtest.NewLicense(coderdtest.License{
		FeatureSet: "enterprise", IssuedAt: begin, NotBefore: begin.AddDate(0, 0, 1), Expires: begin.AddDate(0, 0, 100), GraceEnds: begin.AddDate(0, 0, 110),
	})) {
		t.Fatal("the license is not taken")
	}
	for _, test := range []struct {
		day         int
		tier        coderd.LicenseTier
		entitlement coderd.Entitlement
	}{
		{0, coderd.TierNone, coderd.NotEntitled},
		{2, coderd.TierEnterprise, coderd.Entitled},
		{99, coderd.TierEnterprise, coderd.Entitled},
		{105, coderd.TierEnterprise, coderd.GracePeriod},
		{111, coderd.TierNone, coderd.NotEntitled},
	} {
		clock.SetTime(begin.AddDate(0, 0, test.day))
		got := entitlements(t, client)
		if got.Tier() != test.tier || got.Of(coderd.FeatureWorkspaceProxy) != test.entitlement {
			t.Errorf("day %d: %s, %s; want %s, %s", test.day, got.Tier(), got.Of(coderd.FeatureWorkspaceProxy), test.tier, test.entitlement)
		}
		_, _, err := client.CreateWorkspaceProxy(t.Context(), "p"+strings.Repeat("x", test.day), "", "")
		if (err == nil) != test.entitlement.Allows() || err != nil && !coderd.IsNotEntitled(err) {
			t.Errorf("day %d: a proxy: %v", test.day, err)
		}
	}
}

func TestTheTestDecidesWhatIsAllowed(t *testing.T) {
	server := coderdtest.New(t, coderdtest.WithLicensing())
	client := newClient(t, server, server.AddUser("ada", "owner"))
	create := func(name string) error {
		_, err := client.CreateProvisionerKey(t.Context(), server.OrganizationID("coder"), name, nil)
		return err
	}
	server.SetFeature(coderd.FeatureExternalProvisioners, "grace_period")
	if err := create("first"); err != nil {
		t.Error(err)
	}
	if got := entitlements(t, client); !got.HasLicense || got.Of(coderd.FeatureExternalProvisioners) != coderd.GracePeriod || got.Of(coderd.FeatureWorkspaceProxy) != coderd.NotEntitled {
		t.Errorf("entitlements: %+v", got)
	}
	if !server.AddLicense(coderdtest.NewLicense(coderdtest.License{FeatureSet: "premium"})) {
		t.Error("the license is not taken")
	}
	server.SetFeature(coderd.FeatureExternalProvisioners, "not_entitled")
	if err := create("second"); !coderd.IsNotEntitled(err) {
		t.Errorf("%v, want not entitled", err)
	}
	server.SetEntitlements(nil)
	if err := create("second"); err != nil {
		t.Error(err)
	}
	if held := server.ProvisionerKeys("coder"); len(held) != 2 || held[0].Name != "first" {
		t.Errorf("keys: %+v", held)
	}
	if !server.RemoveLicense(server.Licenses()[0].ID) || server.RemoveLicense(1000) {
		t.Error("the license is not removed")
	}
	if got := entitlements(t, client); got.Tier() != coderd.TierNone {
		t.Errorf("tier: %s", got.Tier())
	}
	if server.AddLicense("nonsense") {
		t.Error("nonsense is taken")
	}
}

func TestOthersMakeAndRemoveKeysAndProxies(t *testing.T) {
	server := coderdtest.New(t, coderdtest.WithLicensing())
	client := newClient(t, server, server.AddUser("ada", "owner"))
	server.SetEntitlements(map[string]string{coderd.FeatureExternalProvisioners: "entitled", coderd.FeatureWorkspaceProxy: "entitled"})
	text := server.AddProvisionerKey("default", "Theirs", map[string]string{"a": "b"})
	if key, err := client.CheckProvisionerKey(t.Context(), text); err != nil || key.Name != "theirs" || key.Tags["a"] != "b" {
		t.Errorf("%+v, %v", key, err)
	}
	if server.AddProvisionerKey("coder", "THEIRS", nil) != "" || server.AddProvisionerKey("nowhere", "x", nil) != "" {
		t.Error("a key that cannot be is made")
	}
	if !server.RemoveProvisionerKey("coder", "theirs") || server.RemoveProvisionerKey("coder", "theirs") {
		t.Error("the key is not removed once")
	}
	proxy := server.AddProxy("theirs", "Theirs", "/icon/x.svg")
	if read, err := client.WorkspaceProxyByName(t.Context(), "theirs"); err != nil || read.ID != proxy.ID || !read.Matches("theirs", "Theirs", "/icon/x.svg") {
		t.Errorf("%+v, %v", read, err)
	}
	if !server.RemoveProxy("theirs") || server.RemoveProxy("theirs") || len(server.Proxies()) != 0 {
		t.Error("the proxy is not removed once")
	}
}

func TestTheAGPLBuildIsOnlyAsked(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	if _, err := client.Entitlements(t.Context()); !coderd.IsNotSupported(err) {
		t.Errorf("%v, want not supported", err)
	}
	if got := server.Requests()["GET /api/v2/entitlements"]; got != 1 || server.Writes() != 0 {
		t.Errorf("%d requests, %d writes", got, server.Writes())
	}
	// A request for an unknown route is not a write either.
	answer, err := http.Get(server.URL + "/api/v2/nothing")
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusNotFound || server.Writes() != 0 {
		t.Errorf("HTTP %d, %d writes", answer.StatusCode, server.Writes())
	}
}

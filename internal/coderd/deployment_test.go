package coderd_test

import (
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

func TestLicenseTier(t *testing.T) {
	features := func(entitlement coderd.Entitlement, names ...string) map[string]coderd.Entitlement {
		out := map[string]coderd.Entitlement{"scim": coderd.NotEntitled}
		for _, name := range names {
			out[name] = entitlement
		}
		return out
	}
	for name, test := range map[string]struct {
		has, trial bool
		features   map[string]coderd.Entitlement
		want       coderd.LicenseTier
	}{
		"no license":                          {false, false, features(coderd.Entitled, "custom_roles"), coderd.TierNone},
		"a trial of everything":               {true, true, features(coderd.Entitled, "custom_roles"), coderd.TierTrial},
		"organizations":                       {true, false, features(coderd.Entitled, "multiple_organizations"), coderd.TierPremium},
		"roles, for a last time":              {true, false, features(coderd.GracePeriod, "custom_roles"), coderd.TierPremium},
		"proxies":                             {true, false, features(coderd.Entitled, "workspace_proxy"), coderd.TierEnterprise},
		"a license for nothing":               {true, false, features(coderd.NotEntitled, "custom_roles"), coderd.TierUnknown},
		"a license of which nothing is known": {true, false, nil, coderd.TierUnknown},
	} {
		got := coderd.Entitlements{HasLicense: test.has, Trial: test.trial, Features: test.features}
		if got.Tier() != test.want {
			t.Errorf("%s: %s, want %s", name, got.Tier(), test.want)
		}
	}
}

func TestNamesForKeysAndProxies(t *testing.T) {
	for name, want := range map[string]struct{ key, proxy bool }{
		"a": {true, true}, "a.b-c_D9": {true, true}, "a--b": {true, true}, "_": {true, true}, "primary": {true, false}, "PSK": {false, true},
		"built-in": {false, true}, "": {}, ".": {}, "..": {}, "-a": {}, "a b": {}, "a/b": {}, "a?b": {}, "a%20": {}, "ä": {}, "a\n": {},
		"2d4c6f0e-3f5b-4a53-9d0e-0d6f0a6a2b11":                              {true, false},
		"abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz-1234567890":  {true, true},
		"abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz-12345678901": {false, true},
	} {
		if err := coderd.CheckProvisionerKeyName(name); (err == nil) != want.key {
			t.Errorf("key %q: %v", name, err)
		}
		if err := coderd.CheckProxyName(name); (err == nil) != want.proxy {
			t.Errorf("proxy %q: %v", name, err)
		}
	}
}

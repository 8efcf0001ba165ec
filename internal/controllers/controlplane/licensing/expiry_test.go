package licensing

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure/ensuretest"
)

func TestWhatIsAllowedIsKnownWithoutALicenseOfOurs(t *testing.T) {
	f := newLicensedFixture(t)
	result := f.want("", None, "")
	if diff := cmp.Diff(&Allowance{Tier: "none", ExternalProvisioners: "not_entitled", WorkspaceProxy: "not_entitled", HighAvailability: "not_entitled"}, result.Allowance); diff != "" {
		t.Errorf("without a license (-want +got):\n%s", diff)
	}
	f.wantAsked("1 GET entitlements")
	f.Coder.AddLicense(license(100))
	if f.Coder.Real() {
		return // It says of no feature what the rest needs.
	}
	f.Coder.SetFeature(coderd.FeatureWorkspaceProxy, "grace_period")
	f.Coder.SetFeature(coderd.FeatureExternalProvisioners, "from the future")
	f.Forward(DefaultRest)
	result = f.want("", None, "")
	if diff := cmp.Diff(&Allowance{Tier: "premium", ExternalProvisioners: "unknown", WorkspaceProxy: "grace_period", HighAvailability: "entitled"}, result.Allowance); diff != "" {
		t.Errorf("with a person's license (-want +got):\n%s", diff)
	}
}

func TestTwoCallsAnHourAtRest(t *testing.T) {
	f := newLicensedFixture(t)
	text := license(400)
	f.want(text, ensure.Ready, coderv1alpha1.ReasonApplied)
	f.Forward(DefaultRest)
	f.pass()
	f.asked()
	records := f.records
	for range 3 {
		// Passes with other causes make no request.
		for range 4 {
			result := f.want(text, ensure.Ready, coderv1alpha1.ReasonApplied)
			if result.Allowance == nil || result.Hash == "" {
				t.Errorf("%+v", result)
			}
			f.wantAsked("")
			f.Forward(time.Minute)
		}
		result := f.pass()
		if result.RequeueAfter != DefaultRest-4*time.Minute {
			t.Errorf("looks again after %s", result.RequeueAfter)
		}
		f.Forward(result.RequeueAfter)
		f.pass()
		f.wantAsked("1 GET entitlements, 1 GET licenses")
	}
	if f.records != records {
		t.Errorf("%d records", f.records-records)
	}
}

// TestAChangeSpreads checks that what the licenses allow is read again a minute after a change: a replica of Coder that
// did not know of the change may have answered.
func TestAChangeSpreads(t *testing.T) {
	f := newLicensedFixture(t)
	for _, text := range []string{license(100), ""} {
		if result := f.pass(); result.RequeueAfter != DefaultRest {
			t.Errorf("without a change it looks again after %s", result.RequeueAfter)
		}
		f.license = text
		if result := f.pass(); result.RequeueAfter != spread {
			t.Errorf("after a change it looks again after %s", result.RequeueAfter)
		}
		f.asked()
		f.Forward(spread)
		f.pass()
		f.wantAsked("1 GET entitlements")
		f.Forward(DefaultRest)
	}
}

func TestAChangeIsSeenAtOnce(t *testing.T) {
	f := newLicensedFixture(t)
	f.want("", None, "")
	if result := f.want(license(100), ensure.Ready, coderv1alpha1.ReasonApplied); result.Allowance.Tier != "premium" {
		t.Errorf("added: %+v", result.Allowance)
	}
	if result := f.want("", None, ""); result.Allowance.Tier != "none" {
		t.Errorf("removed: %+v", result.Allowance)
	}
	f.Coder.AddLicense(license(200))
	f.instance = "v2"
	if result := f.pass(); result.Allowance.Tier != "premium" {
		t.Errorf("another Coder: %+v", result.Allowance)
	}
	f.manager.Forget("uid")
	f.asked()
	f.pass()
	f.wantAsked("1 GET entitlements")
}

func TestCoderThatDoesNotSayWhatIsAllowed(t *testing.T) {
	f := newLicensedFixture(t)
	f.Coder.Fail(coderdtest.Fault{PathPrefix: "/api/v2/entitlements", Times: 1})
	f.Coder.Fail(coderdtest.Fault{PathPrefix: "/api/v2/entitlements", Status: 429, RetryAfter: time.Minute, Times: 1})
	text := license(100)
	for _, after := range []time.Duration{retryUnreachable, time.Minute} {
		result := f.want(text, ensure.Ready, coderv1alpha1.ReasonApplied)
		if result.Allowance != nil || result.AllowanceErr == nil || result.RequeueAfter != after {
			t.Errorf("%+v, want another look after %s", result, after)
		}
		f.Forward(after)
	}
	result := f.want(text, ensure.Ready, coderv1alpha1.ReasonApplied)
	if result.Allowance == nil || result.AllowanceErr != nil || result.RequeueAfter != DefaultRest-retryUnreachable-time.Minute {
		t.Errorf("%+v", result)
	}
}

const day = 24 * time.Hour

// TestExpiryIsTold follows a license through its term. The predecessor did not check it (K9).
func TestExpiryIsTold(t *testing.T) {
	type moment struct {
		at     time.Duration
		state  ensure.State
		reason string
		tier   string
	}
	end := 100 * day
	for name, test := range map[string]struct {
		trial   bool
		moments []moment
	}{
		"bought": {false, []moment{
			{0, ensure.Ready, coderv1alpha1.ReasonApplied, "premium"},
			{end - 30*day - time.Second, ensure.Ready, coderv1alpha1.ReasonApplied, "premium"},
			{end - 30*day, ensure.Ready, coderv1alpha1.ReasonLicenseExpiring, "premium"},
			{end - time.Second, ensure.Ready, coderv1alpha1.ReasonLicenseExpiring, "premium"},
			{end + time.Second, ensure.Ready, coderv1alpha1.ReasonLicenseInGracePeriod, "premium"},
			{end + 10*day, ensure.Failed, coderv1alpha1.ReasonLicenseExpired, "none"},
		}},
		"trial": {true, []moment{
			{end - 8*day, ensure.Ready, coderv1alpha1.ReasonApplied, "trial"},
			{end - 7*day, ensure.Ready, coderv1alpha1.ReasonLicenseExpiring, "trial"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newLicensedFixture(t)
			text := coderdtest.NewLicense(coderdtest.License{
				FeatureSet: "premium", Trial: test.trial, NotBefore: begin.AddDate(-1, 0, 0), Expires: begin.Add(end), GraceEnds: begin.Add(end + 10*day),
			})
			for _, m := range test.moments {
				if f.Coder.Real() && m.at > end {
					break // Its clock does not advance.
				}
				f.Clock.SetTime(begin.Add(m.at))
				result := f.want(text, m.state, m.reason)
				if result.Allowance == nil || result.Allowance.Tier != m.tier || !result.ExpiresAt.Equal(begin.Add(end)) {
					t.Errorf("%s: %+v until %s", m.at, result.Allowance, result.ExpiresAt)
				}
				if m.reason != coderv1alpha1.ReasonApplied && !strings.Contains(result.Message, "put a new license into the Secret") {
					t.Errorf("%s: %s", m.at, result.Message)
				}
				if result.Reason == coderv1alpha1.ReasonLicenseExpiring && strings.Contains(result.Message, "30 days") == test.trial {
					t.Errorf("%s: %s", m.at, result.Message)
				}
			}
		})
	}
}

// TestALicenseThatEndsDuringAPass ends the grace period of a license before each of the requests of a pass.
func TestALicenseThatEndsDuringAPass(t *testing.T) {
	for at, want := range []struct{ first, then string }{
		{coderv1alpha1.ReasonInvalidLicense, coderv1alpha1.ReasonInvalidLicense},       // the list
		{coderv1alpha1.ReasonInvalidLicense, coderv1alpha1.ReasonInvalidLicense},       // the upload
		{coderv1alpha1.ReasonLicenseInGracePeriod, coderv1alpha1.ReasonLicenseExpired}, // the entitlements
	} {
		f := newLicensedFixture(t)
		if f.Coder.Real() {
			t.Skip("its clock does not advance")
		}
		f.license = license(1)
		f.Clock.SetTime(begin.AddDate(0, 0, 11).Add(-time.Second))
		client, err := coderd.New(coderd.Config{URL: f.Coder.URL, Token: f.token, Transport: ensuretest.Before(at, func() { f.Forward(2 * time.Second) })})
		f.Must(err)
		req := f.request()
		req.Connect = func(context.Context) (*coderd.Client, error) { return client, nil }
		result, err := f.manager.Ensure(f.Ctx, req)
		f.Must(err)
		f.own = result.Own
		if result.Reason != want.first || result.Allowance == nil || result.Allowance.Tier != "none" {
			t.Errorf("request %d: %+v", at, result)
		}
		if want.first == coderv1alpha1.ReasonLicenseInGracePeriod && result.RequeueAfter > time.Second {
			t.Errorf("request %d: looks again after %s", at, result.RequeueAfter)
		}
		if after := f.want(f.license, ensure.Failed, want.then); !strings.Contains(after.Message, "has expired") {
			t.Errorf("request %d, the next pass: %s", at, after.Message)
		}
	}
}

// TestItLooksAgainWhenSomethingIsDue: nothing else triggers a pass when a license expires.
func TestItLooksAgainWhenSomethingIsDue(t *testing.T) {
	f := newLicensedFixture(t)
	for _, due := range []time.Duration{70 * day, 100 * day, 110 * day} {
		f.Clock.SetTime(begin.Add(due - time.Minute))
		f.restart()
		before := f.want(orElse(f.license, license(100)), ensure.Ready, f.reasonNow())
		if before.RequeueAfter != time.Minute {
			t.Errorf("%s: looks again after %s, want a minute", due, before.RequeueAfter)
		}
		f.Forward(before.RequeueAfter)
		f.asked()
		if after := f.pass(); after.Reason == before.Reason {
			t.Errorf("%s: still %s", due, after.Reason)
		}
		// The entitlements may have changed with it.
		f.wantAsked("1 GET entitlements")
	}
}

func TestTheOldLicenseStaysUntilTheNewOneCounts(t *testing.T) {
	f := newLicensedFixture(t)
	old := license(100)
	next := coderdtest.NewLicense(coderdtest.License{
		FeatureSet: "premium", IssuedAt: begin, NotBefore: begin.Add(90 * time.Minute), Expires: begin.AddDate(1, 0, 0),
	})
	f.want(old, ensure.Ready, coderv1alpha1.ReasonApplied)
	result := f.want(next, ensure.Ready, coderv1alpha1.ReasonApplied)
	if !strings.Contains(result.Message, "becomes valid later; the previous license stays until then") || result.Allowance.Tier != "premium" {
		t.Errorf("%+v", result)
	}
	f.wantHeld([]string{old, next}, []string{old, next})
	f.Forward(DefaultRest)
	if result = f.want(next, ensure.Ready, coderv1alpha1.ReasonApplied); result.RequeueAfter != 30*time.Minute {
		t.Errorf("looks again after %s", result.RequeueAfter)
	}
	f.Forward(result.RequeueAfter)
	if result = f.want(next, ensure.Ready, coderv1alpha1.ReasonApplied); strings.Contains(result.Message, "later") || ensuretest.Reasons(result.Events) != "LicenseRemoved" {
		t.Errorf("%+v", result)
	}
	f.wantHeld([]string{next}, []string{next})
	if !slices.Contains(f.own, identityOf(t, next)) {
		t.Error("the new one is not recorded")
	}
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// reasonNow returns the reason for license(100) at the current time.
func (f *fixture) reasonNow() string {
	switch age := f.Clock.Now().Sub(begin); {
	case age < 70*day:
		return coderv1alpha1.ReasonApplied
	case age < 100*day:
		return coderv1alpha1.ReasonLicenseExpiring
	}
	return coderv1alpha1.ReasonLicenseInGracePeriod
}

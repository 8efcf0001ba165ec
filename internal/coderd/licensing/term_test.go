package licensing

import (
	"slices"
	"strings"
	"testing"
	"time"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure/ensuretest"
)

const day = 24 * time.Hour

// TestExpiryIsTold follows a license through its term. The predecessor did not check it (K9).
func TestExpiryIsTold(t *testing.T) {
	type moment struct {
		at     time.Duration
		state  State
		reason string
		tier   string
	}
	end := 100 * day
	for name, test := range map[string]struct {
		trial   bool
		moments []moment
	}{
		"bought": {false, []moment{
			{0, Ready, coderv1alpha1.ReasonApplied, "premium"},
			{end - 30*day - time.Second, Ready, coderv1alpha1.ReasonApplied, "premium"},
			{end - 30*day, Ready, coderv1alpha1.ReasonLicenseExpiring, "premium"},
			{end - time.Second, Ready, coderv1alpha1.ReasonLicenseExpiring, "premium"},
			{end + time.Second, Ready, coderv1alpha1.ReasonLicenseInGracePeriod, "premium"},
			{end + 10*day, Failed, coderv1alpha1.ReasonLicenseExpired, "none"},
		}},
		"trial": {true, []moment{
			{end - 8*day, Ready, coderv1alpha1.ReasonApplied, "trial"},
			{end - 7*day, Ready, coderv1alpha1.ReasonLicenseExpiring, "trial"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLicensedWorld(t)
			text := coderdtest.NewLicense(coderdtest.License{
				FeatureSet: "premium", Trial: test.trial, NotBefore: begin.AddDate(-1, 0, 0), Expires: begin.Add(end), GraceEnds: begin.Add(end + 10*day),
			})
			for _, m := range test.moments {
				w.Clock.SetTime(begin.Add(m.at))
				result := w.want(text, m.state, m.reason)
				if result.Allowance == nil || result.Allowance.Tier != m.tier || !result.ExpiresAt.Equal(begin.Add(end)) {
					t.Errorf("%s: %+v until %s", m.at, result.Allowance, result.ExpiresAt)
				}
				if m.reason != coderv1alpha1.ReasonApplied && !strings.Contains(result.Message, "put a new one into the Secret") {
					t.Errorf("%s: %s", m.at, result.Message)
				}
				if result.Reason == coderv1alpha1.ReasonLicenseExpiring && strings.Contains(result.Message, "30 days") == test.trial {
					t.Errorf("%s: %s", m.at, result.Message)
				}
			}
		})
	}
}

// TestItLooksAgainWhenSomethingIsDue: nothing else triggers a pass when a license expires.
func TestItLooksAgainWhenSomethingIsDue(t *testing.T) {
	w := newLicensedWorld(t)
	for _, due := range []time.Duration{70 * day, 100 * day, 110 * day} {
		w.Clock.SetTime(begin.Add(due - time.Minute))
		w.restart()
		before := w.want(orElse(w.license, license(100)), Ready, w.reasonNow())
		if before.RequeueAfter != time.Minute {
			t.Errorf("%s: looks again after %s, want a minute", due, before.RequeueAfter)
		}
		w.Forward(before.RequeueAfter)
		w.asked()
		if after := w.pass(); after.Reason == before.Reason {
			t.Errorf("%s: still %s", due, after.Reason)
		}
		// The entitlements may have changed with it.
		w.wantAsked("1 GET entitlements")
	}
}

func TestTheOldLicenseStaysUntilTheNewOneCounts(t *testing.T) {
	w := newLicensedWorld(t)
	old := license(100)
	next := coderdtest.NewLicense(coderdtest.License{FeatureSet: "premium", NotBefore: begin.Add(90 * time.Minute), Expires: begin.AddDate(1, 0, 0)})
	w.want(old, Ready, coderv1alpha1.ReasonApplied)
	result := w.want(next, Ready, coderv1alpha1.ReasonApplied)
	if !strings.Contains(result.Message, "begins to count later; the one before stays until then") || result.Allowance.Tier != "premium" {
		t.Errorf("%+v", result)
	}
	w.wantHeld([]string{old, next}, []string{old, next})
	w.Forward(DefaultRest)
	if result = w.want(next, Ready, coderv1alpha1.ReasonApplied); result.RequeueAfter != 30*time.Minute {
		t.Errorf("looks again after %s", result.RequeueAfter)
	}
	w.Forward(result.RequeueAfter)
	if result = w.want(next, Ready, coderv1alpha1.ReasonApplied); strings.Contains(result.Message, "later") || ensuretest.Reasons(result.Events) != "LicenseRemoved" {
		t.Errorf("%+v", result)
	}
	w.wantHeld([]string{next}, []string{next})
	if !slices.Contains(w.own, identityOf(t, next)) {
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
func (w *world) reasonNow() string {
	switch age := w.Clock.Now().Sub(begin); {
	case age < 70*day:
		return coderv1alpha1.ReasonApplied
	case age < 100*day:
		return coderv1alpha1.ReasonLicenseExpiring
	}
	return coderv1alpha1.ReasonLicenseInGracePeriod
}

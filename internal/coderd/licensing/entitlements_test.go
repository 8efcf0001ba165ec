package licensing

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

func TestWhatIsAllowedIsKnownWithoutALicenseOfOurs(t *testing.T) {
	w := newLicensedWorld(t)
	result := w.want("", None, "")
	if diff := cmp.Diff(&Allowance{Tier: "none", ExternalProvisioners: "not_entitled", WorkspaceProxy: "not_entitled", HighAvailability: "not_entitled"}, result.Allowance); diff != "" {
		t.Errorf("without a license (-want +got):\n%s", diff)
	}
	w.wantAsked("1 GET entitlements")
	w.Coder.AddLicense(license(100))
	w.Coder.SetFeature(coderd.FeatureWorkspaceProxy, "grace_period")
	w.Coder.SetFeature(coderd.FeatureExternalProvisioners, "from the future")
	w.Forward(DefaultRest)
	result = w.want("", None, "")
	if diff := cmp.Diff(&Allowance{Tier: "premium", ExternalProvisioners: "unknown", WorkspaceProxy: "grace_period", HighAvailability: "entitled"}, result.Allowance); diff != "" {
		t.Errorf("with a person's license (-want +got):\n%s", diff)
	}
}

func TestTwoCallsAnHourAtRest(t *testing.T) {
	w := newLicensedWorld(t)
	text := license(400)
	w.want(text, Ready, coderv1alpha1.ReasonApplied)
	w.asked()
	records := w.records
	for range 3 {
		// Passes with other causes make no request.
		for range 4 {
			result := w.want(text, Ready, coderv1alpha1.ReasonApplied)
			if result.Allowance == nil || result.Hash == "" {
				t.Errorf("%+v", result)
			}
			w.wantAsked("")
			w.Forward(time.Minute)
		}
		result := w.pass()
		if result.RequeueAfter != DefaultRest-4*time.Minute {
			t.Errorf("looks again after %s", result.RequeueAfter)
		}
		w.Forward(result.RequeueAfter)
		w.pass()
		w.wantAsked("1 GET entitlements, 1 GET licenses")
	}
	if w.records != records {
		t.Errorf("%d records", w.records-records)
	}
}

func TestAChangeIsSeenAtOnce(t *testing.T) {
	w := newLicensedWorld(t)
	w.want("", None, "")
	if result := w.want(license(100), Ready, coderv1alpha1.ReasonApplied); result.Allowance.Tier != "premium" {
		t.Errorf("added: %+v", result.Allowance)
	}
	if result := w.want("", None, ""); result.Allowance.Tier != "none" {
		t.Errorf("removed: %+v", result.Allowance)
	}
	w.Coder.AddLicense(license(200))
	w.instance = "v2"
	if result := w.pass(); result.Allowance.Tier != "premium" {
		t.Errorf("another Coder: %+v", result.Allowance)
	}
	w.manager.Forget("uid")
	w.asked()
	w.pass()
	w.wantAsked("1 GET entitlements")
}

func TestCoderThatDoesNotSayWhatIsAllowed(t *testing.T) {
	w := newLicensedWorld(t)
	w.Coder.Fail(coderdtest.Fault{PathPrefix: "/api/v2/entitlements", Times: 1})
	w.Coder.Fail(coderdtest.Fault{PathPrefix: "/api/v2/entitlements", Status: 429, RetryAfter: time.Minute, Times: 1})
	text := license(100)
	for _, after := range []time.Duration{retryUnreachable, time.Minute} {
		result := w.want(text, Ready, coderv1alpha1.ReasonApplied)
		if result.Allowance != nil || result.AllowanceErr == nil || result.RequeueAfter != after {
			t.Errorf("%+v, want another look after %s", result, after)
		}
		w.Forward(after)
	}
	result := w.want(text, Ready, coderv1alpha1.ReasonApplied)
	if result.Allowance == nil || result.AllowanceErr != nil || result.RequeueAfter != DefaultRest-retryUnreachable-time.Minute {
		t.Errorf("%+v", result)
	}
}

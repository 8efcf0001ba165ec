package licensing

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure/ensuretest"
)

// TestReplacedLicensesGo prevents a bug of the predecessor (K9): any license counted as applied,
// and old ones stayed.
func TestReplacedLicensesGo(t *testing.T) {
	f := newLicensedFixture(t)
	theirs, first, second := license(400), license(100), license(200)
	f.Coder.AddLicense(theirs)

	result := f.want("\n"+first+"\n", ensure.Ready, coderv1alpha1.ReasonApplied)
	f.wantHeld([]string{theirs, first}, []string{first})
	if !result.Applied || result.Hash != hash(first) || !result.ExpiresAt.Equal(begin.AddDate(0, 0, 100)) || result.AppliedAt.Sub(begin).Abs() > 10*time.Minute {
		t.Errorf("%+v", result)
	}
	if ensuretest.Reasons(result.Events) != "LicenseAdded" || !strings.Contains(result.Events[0].Message, "expires on "+begin.AddDate(0, 0, 100).Format(time.DateOnly)) {
		t.Errorf("events %+v", result.Events)
	}
	if result = f.want(first, ensure.Ready, coderv1alpha1.ReasonApplied); result.Applied || len(result.Events) > 0 || result.AppliedAt == nil {
		t.Errorf("again: %+v", result)
	}

	f.Forward(time.Minute)
	result = f.want(second, ensure.Ready, coderv1alpha1.ReasonApplied)
	f.wantHeld([]string{theirs, second}, []string{second})
	if ensuretest.Reasons(result.Events) != "LicenseAdded,LicenseRemoved" || result.Hash != hash(second) {
		t.Errorf("%+v", result)
	}

	result = f.want("", None, "")
	f.wantHeld([]string{theirs}, nil)
	if ensuretest.Reasons(result.Events) != "LicenseRemoved" || result.Hash != "" || result.ExpiresAt != nil {
		t.Errorf("%+v", result)
	}
	if result = f.want("", None, ""); len(result.Events) > 0 {
		t.Errorf("again: %+v", result.Events)
	}
}

func TestTheNewLicenseIsThereBeforeTheOldOneGoes(t *testing.T) {
	f := newLicensedFixture(t)
	first, second := license(100), license(200)
	f.want(first, ensure.Ready, coderv1alpha1.ReasonApplied)
	remove := f.Coder.Fail(coderdtest.Fault{Method: "DELETE"})
	f.want(second, ensure.Waiting, coderv1alpha1.ReasonError)
	f.wantHeld([]string{first, second}, []string{first, second})
	remove()
	f.want(second, ensure.Ready, coderv1alpha1.ReasonApplied)
	f.wantHeld([]string{second}, []string{second})
}

func TestALicenseOfAPersonStays(t *testing.T) {
	f := newLicensedFixture(t)
	theirs := license(100)
	f.Coder.AddLicense(theirs)
	result := f.want(theirs, ensure.Ready, coderv1alpha1.ReasonApplied)
	if result.Applied || len(result.Events) > 0 || result.Hash == "" || !strings.Contains(result.Message, "the operator did not add it") {
		t.Errorf("%+v", result)
	}
	f.wantHeld([]string{theirs}, nil)
	f.want("", None, "")
	f.wantHeld([]string{theirs}, nil)
}

func TestALicenseThatComesWhileOursIsOnItsWay(t *testing.T) {
	for _, lost := range []bool{false, true} {
		f := newLicensedFixture(t)
		text := license(100)
		f.license = text
		req := f.request()
		if lost {
			// An earlier attempt was recorded, and Coder completed it late.
			req.Own = []string{identityOf(t, text)}
		}
		// Between the list and the upload.
		arrive := ensuretest.Before(1, func() { f.Coder.AddLicense(text) })
		client, err := coderd.New(coderd.Config{URL: f.Coder.URL, Token: f.token, Transport: arrive})
		f.Must(err)
		req.Connect = func(context.Context) (*coderd.Client, error) { return client, nil }
		result, err := f.manager.Ensure(t.Context(), req)
		if err != nil || result.State != ensure.Ready || result.Applied || slices.Contains(result.Own, identityOf(t, text)) != lost {
			t.Errorf("recorded before: %t: %+v, %v", lost, result, err)
		}
	}
}

func TestALicenseThatSomebodyRemovesComesBack(t *testing.T) {
	f := newLicensedFixture(t)
	text := license(100)
	f.want(text, ensure.Ready, coderv1alpha1.ReasonApplied)
	f.Coder.RemoveLicense(f.Coder.Licenses()[0].ID)
	f.Forward(DefaultRest)
	if result := f.want(text, ensure.Ready, coderv1alpha1.ReasonApplied); !result.Applied {
		t.Errorf("%+v", result)
	}
	f.wantHeld([]string{text}, []string{text})
	// The same for a license that is no longer requested.
	f.Coder.RemoveLicense(f.Coder.Licenses()[0].ID)
	if result := f.want("", None, ""); len(result.Events) > 0 || len(result.Own) > 0 {
		t.Errorf("%+v", result)
	}
}

func TestLicensesWithoutAnIDAreTold(t *testing.T) {
	f := newLicensedFixture(t)
	// Coder generates a random UUID for a license without one. The record therefore contains an id
	// that is derived from the claims.
	first, second := noUUID(begin.AddDate(1, 0, 0)), noUUID(begin.AddDate(2, 0, 0))
	f.want(first, ensure.Ready, coderv1alpha1.ReasonApplied)
	f.want(second, ensure.Ready, coderv1alpha1.ReasonApplied)
	f.wantHeld([]string{second}, []string{second})
}

func TestAReissuedLicenseOfTheSameID(t *testing.T) {
	f := newLicensedFixture(t)
	id := uuid.New()
	first := coderdtest.NewLicense(coderdtest.License{UUID: id, Expires: begin.AddDate(1, 0, 0)})
	second := coderdtest.NewLicense(coderdtest.License{UUID: id, Expires: begin.AddDate(2, 0, 0)})
	f.want(first, ensure.Ready, coderv1alpha1.ReasonApplied)
	f.want(second, ensure.Ready, coderv1alpha1.ReasonApplied)
	f.wantHeld([]string{second}, []string{second})
	f.want("", None, "")
	f.wantHeld(nil, nil)
}

func TestRefusedLicenses(t *testing.T) {
	old := license(100)
	for _, test := range []struct{ name, text, said string }{
		{"malformed", "not a license", "it must be a JSON web token"},
		{"changed", license(200) + "x", "Invalid license: license has multiple issues; contact support; put a valid one"},
		{"expired", license(-20), "contact support; it has expired"},
		{
			"of another deployment", coderdtest.NewLicense(coderdtest.License{Expires: begin.AddDate(1, 0, 0), DeploymentIDs: []string{"another"}}),
			`License cannot be used on this deployment: The provided license is locked to the following deployments: ["another"]`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newLicensedFixture(t)
			f.want(old, ensure.Ready, coderv1alpha1.ReasonApplied)
			result := f.want(test.text, ensure.Failed, coderv1alpha1.ReasonInvalidLicense)
			if !strings.Contains(result.Message, test.said) || strings.Contains(result.Message, test.text) || result.Hash != "" || result.AppliedAt != nil {
				t.Errorf("%+v", result)
			}
			if result.Allowance == nil || result.Allowance.Tier != "premium" {
				t.Errorf("what the old one allows: %+v", result.Allowance)
			}
			// The license is uploaded once per hour, without writing the record, and the old one
			// stays.
			records := f.records
			f.asked()
			if again := f.want(test.text, ensure.Failed, coderv1alpha1.ReasonInvalidLicense); again.Message != result.Message {
				t.Errorf("%q, then %q", result.Message, again.Message)
			}
			f.wantAsked("")
			f.Forward(DefaultRest)
			f.want(test.text, ensure.Failed, coderv1alpha1.ReasonInvalidLicense)
			if got := texts(f.Coder); !slices.Equal(got, []string{old}) || f.records != records {
				t.Errorf("licenses %q, %d records", got, f.records-records)
			}
			// A valid license resolves it.
			good := license(300)
			f.want(good, ensure.Ready, coderv1alpha1.ReasonApplied)
			f.wantHeld([]string{good}, []string{good})
		})
	}
}

func TestASecretThatCannotBeReadChangesNothing(t *testing.T) {
	f := newLicensedFixture(t)
	text := license(100)
	f.want(text, ensure.Ready, coderv1alpha1.ReasonApplied)
	f.unread = true
	f.Forward(DefaultRest)
	f.asked()
	if result := f.want("", None, ""); result.Allowance == nil {
		t.Errorf("%+v", result)
	}
	f.wantAsked("1 GET entitlements")
	f.wantHeld([]string{text}, []string{text})
}

func TestTheBuildWithoutLicensesIsNoError(t *testing.T) {
	f := newFixture(t)
	none := Allowance{Tier: "none", ExternalProvisioners: "not_entitled", WorkspaceProxy: "not_entitled", HighAvailability: "not_entitled"}
	result := f.want(license(100), ensure.Failed, coderv1alpha1.ReasonNotSupported)
	if result.Allowance == nil || *result.Allowance != none || result.RequeueAfter != DefaultRest || len(result.Events)+len(result.Own) != 0 {
		t.Errorf("%+v", result)
	}
	f.asked()
	f.want(f.license, ensure.Failed, coderv1alpha1.ReasonNotSupported)
	f.wantAsked("")
	// A build that supports licenses replaces it.
	licensed := newLicensedFixture(t)
	f.Coder, f.token, f.instance = licensed.Coder, licensed.token, "v2"
	f.want(f.license, ensure.Ready, coderv1alpha1.ReasonApplied)
	// And back again: the operator's license is not forgotten.
	f.Coder = coderdtest.New(t)
	f.token, f.instance = f.Coder.AddUser("ada", "owner"), "v3"
	if result := f.want("", ensure.Failed, coderv1alpha1.ReasonNotSupported); len(result.Own) != 1 {
		t.Errorf("%+v", result)
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	for _, test := range []struct {
		name   string
		fault  coderdtest.Fault
		state  ensure.State
		reason string
		after  time.Duration
	}{
		{"401", coderdtest.Fault{Status: 401}, ensure.Failed, coderv1alpha1.ReasonForbidden, time.Minute},
		{"403", coderdtest.Fault{Status: 403}, ensure.Failed, coderv1alpha1.ReasonForbidden, time.Minute},
		{"404", coderdtest.Fault{Status: 404}, ensure.Failed, coderv1alpha1.ReasonError, time.Minute},
		{"429", coderdtest.Fault{Status: 429, RetryAfter: 42 * time.Second}, ensure.Waiting, coderv1alpha1.ReasonPending, 42 * time.Second},
		{"429 at once", coderdtest.Fault{Status: 429}, ensure.Waiting, coderv1alpha1.ReasonPending, soon},
		{"500", coderdtest.Fault{Status: 500}, ensure.Waiting, coderv1alpha1.ReasonError, retryUnreachable},
		{"garbage", coderdtest.Fault{Status: 200, HTML: true}, ensure.Waiting, coderv1alpha1.ReasonError, retryUnreachable},
		{"nothing", coderdtest.Fault{DropConnection: true}, ensure.Waiting, coderv1alpha1.ReasonError, retryUnreachable},
	} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			t.Run(method+" "+test.name, func(t *testing.T) {
				f := newLicensedFixture(t)
				first, second := license(100), license(200)
				f.want(first, ensure.Ready, coderv1alpha1.ReasonApplied)
				fault := test.fault
				fault.Method, fault.PathPrefix = method, "/api/v2/licenses"
				remove := f.Coder.Fail(fault)
				reason, state := test.reason, test.state
				if method == "DELETE" && test.name == "404" {
					state, reason = ensure.Ready, coderv1alpha1.ReasonApplied
				}
				result := f.want(second, state, reason)
				if state != ensure.Ready && result.RequeueAfter != test.after {
					t.Errorf("looks again after %s, want %s", result.RequeueAfter, test.after)
				}
				message := result.Message
				if again := f.want(second, state, reason); again.Message != message && state != ensure.Ready {
					t.Errorf("%q, then %q", message, again.Message)
				}
				remove()
				f.want(second, ensure.Ready, coderv1alpha1.ReasonApplied)
				if state != ensure.Ready {
					f.wantHeld([]string{second}, []string{second})
				}
			})
		}
	}
}

// TestWithoutATokenNothingIsDecided: a failure to read the token is a Kubernetes error.
func TestWithoutATokenNothingIsDecided(t *testing.T) {
	for _, text := range []string{"", license(100)} {
		f := newLicensedFixture(t)
		f.license, f.connectErr = text, errors.New("no Secret now")
		if _, err := f.try(); !errors.Is(err, f.connectErr) || f.asked() != "" {
			t.Errorf("%v, want %v", err, f.connectErr)
		}
	}
}

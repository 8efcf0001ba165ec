package controlplane

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/access"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/licensing"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

func withLicense(cp *coderv1alpha1.CoderControlPlane) {
	cp.Spec.LicenseSecretRef = &coderv1alpha1.SecretKeyReference{Name: "license"}
}

// newLicensedFixture returns a fixture with ready pods whose Coder accepts licenses.
func newLicensedFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	f := newFixture(t, append(objects, databaseSecret())...)
	f.Clock.SetTime(coderdtest.Now(f.Clock.Now()))
	f.coder = coderdtest.New(t, coderdtest.WithLicensing(), coderdtest.WithoutUsers(), coderdtest.WithClock(f.Clock))
	f.Settle()
	f.PodsReady(1)
	f.Settle()
	return f
}

// licenseFor returns a license that expires after the given number of days, with ten further days
// of grace period.
func (f *fixture) licenseFor(days int) string {
	now := f.Clock.Now()
	return coderdtest.NewLicense(coderdtest.License{
		FeatureSet: "premium", NotBefore: now.AddDate(-1, 0, 0), Expires: now.AddDate(0, 0, days), GraceEnds: now.AddDate(0, 0, days+10),
	})
}

// putLicense writes the Secret of the license like a user.
func (f *fixture) putLicense(text string) {
	f.T.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "license", Namespace: "coder"}}
	exists := f.Has("license", secret)
	secret.Data = map[string][]byte{"license": []byte(text)}
	if exists {
		f.Update(secret)
		return
	}
	f.Create(secret)
}

func (f *fixture) mustHold(want ...string) {
	f.T.Helper()
	var got []string
	for _, l := range f.coder.Licenses() {
		got = append(got, l.Text)
	}
	if !slices.Equal(got, want) {
		f.T.Errorf("Coder holds %d licenses %q, want %q", len(got), got, want)
	}
}

// mustNotTell checks that the status and the Events do not contain the licenses.
func (f *fixture) mustNotTell(texts ...string) {
	f.T.Helper()
	var parts []string
	for _, text := range texts {
		parts = append(parts, strings.Split(text, ".")[1:]...)
	}
	f.MustNotExpose(parts)
}

// TestALicenseComesChangesAndGoes protects against a fault of the predecessor (K9): any license
// counted, old licenses remained, and their expiry was not reported.
func TestALicenseComesChangesAndGoes(t *testing.T) {
	f := newLicensedFixture(t, newControlPlane(withLicense))
	missing := f.MustHave(coderv1alpha1.ConditionLicenseApplied, metav1.ConditionFalse, coderv1alpha1.ReasonSecretMissing)
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonSecretMissing)
	f.MustHave(coderv1alpha1.ConditionReconciling, metav1.ConditionTrue, coderv1alpha1.ReasonSecretMissing)
	f.MustHave(coderv1alpha1.ConditionServed, metav1.ConditionTrue, coderv1alpha1.ReasonServed)
	if !strings.Contains(missing.Message, `Secret "license"`) || f.Object().Status.LicenseTier != "none" {
		t.Errorf("%s; tier %q", missing.Message, f.Object().Status.LicenseTier)
	}
	f.putLicense(" \n")
	f.Settle()
	if c := f.MustHave(coderv1alpha1.ConditionLicenseApplied, metav1.ConditionFalse, coderv1alpha1.ReasonSecretMissing); !strings.Contains(c.Message, `no license in key "license"`) {
		t.Error(c.Message)
	}

	theirs, first, second := f.licenseFor(300), f.licenseFor(100), f.licenseFor(200)
	f.coder.AddLicense(theirs)
	f.putLicense(first)
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionLicenseApplied, metav1.ConditionTrue, coderv1alpha1.ReasonApplied)
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	f.mustHold(theirs, first)
	before := f.Object().Status
	if before.LicenseTier != "premium" || before.ExternalProvisionerDaemonsEntitlement != "entitled" || before.WorkspaceProxyEntitlement != "entitled" ||
		!before.LicenseExpiresAt.Time.Equal(f.Clock.Now().AddDate(0, 0, 100)) || len(before.LicenseUUIDs) != 1 ||
		before.LicenseLastApplied == nil || len(before.LicenseLastAppliedHash) != 64 {
		t.Errorf("status %+v", before)
	}

	f.Forward(time.Minute)
	f.putLicense(second)
	f.Settle()
	f.mustHold(theirs, second)
	after := f.Object().Status
	if after.LicenseLastAppliedHash == before.LicenseLastAppliedHash || !f.coder.Real() && after.LicenseLastApplied.Equal(before.LicenseLastApplied) ||
		slices.Equal(after.LicenseUUIDs, before.LicenseUUIDs) || !after.LicenseExpiresAt.After(before.LicenseExpiresAt.Time) {
		t.Errorf("status %+v", after)
	}

	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.LicenseSecretRef = nil })
	f.PodsReady(1)
	f.Settle()
	f.mustHold(theirs)
	end := f.Object().Status
	if c := meta.FindStatusCondition(end.Conditions, coderv1alpha1.ConditionLicenseApplied); c != nil ||
		end.LicenseUUIDs != nil || end.LicenseExpiresAt != nil || end.LicenseLastApplied != nil || end.LicenseLastAppliedHash != "" {
		t.Errorf("after the license %+v", end)
	}
	if end.LicenseTier != "premium" {
		t.Errorf("tier %q, with a license that a person added", end.LicenseTier)
	}
	for reason, want := range map[string]int{"Normal LicenseAdded": 2, "Normal LicenseRemoved": 2, "Warning SecretMissing": 1, "Normal Applied": 1, "Warning Pending": 0} {
		if got := f.Events.Count(reason); got != want {
			t.Errorf("%d Events %q, want %d; all: %q", got, reason, want, f.Events.All())
		}
	}
	f.mustNotTell(first, second)
}

func TestALicenseThatCoderRefuses(t *testing.T) {
	f := newLicensedFixture(t, newControlPlane(withLicense))
	bad := f.licenseFor(100) + "x"
	f.putLicense(bad)
	f.Settle()
	c := f.MustHave(coderv1alpha1.ConditionLicenseApplied, metav1.ConditionFalse, coderv1alpha1.ReasonInvalidLicense)
	f.MustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonInvalidLicense)
	if !strings.Contains(c.Message, "license has multiple issues") || f.Events.Count("Warning InvalidLicense") != 1 {
		t.Errorf("%s; events %q", c.Message, f.Events.All())
	}
	f.mustNotTell(bad)
	// In two hours there is no write to the cluster, and one attempt per hour in Coder.
	f.coder.ResetRequests()
	for range 4 {
		f.Forward(30 * time.Minute)
		f.Reconcile()
	}
	if writes := f.TakeWrites(); len(writes) > 0 || f.coder.Writes() != 2 {
		t.Errorf("writes %q, %d tries", writes, f.coder.Writes())
	}
	good := f.licenseFor(100)
	f.putLicense(good)
	f.Settle()
	f.mustHold(good)
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
}

// TestTheEndOfALicenseIsTold reconciles only when the controller requests it.
func TestTheEndOfALicenseIsTold(t *testing.T) {
	f := newLicensedFixture(t, newControlPlane(withLicense))
	// The hourly passes have another reason, and the license is not due in them.
	f.Forward(17 * time.Minute)
	begin := f.Clock.Now()
	f.putLicense(f.licenseFor(31))
	f.Settle()
	const day = 24 * time.Hour
	seen := map[string]time.Duration{}
	for _, due := range []time.Duration{day, 31 * day, 41 * day} {
		f.Clock.SetTime(begin.Add(due - 100*time.Minute))
		for range 4 {
			reason := meta.FindStatusCondition(f.Object().Status.Conditions, coderv1alpha1.ConditionLicenseApplied).Reason
			if _, known := seen[reason]; !known {
				seen[reason] = f.Clock.Now().Sub(begin)
			}
			result := f.Settle()
			if result.RequeueAfter <= 0 {
				t.Fatal("nobody looks again")
			}
			f.Forward(result.RequeueAfter)
			f.Settle()
		}
	}
	f.MustHave(coderv1alpha1.ConditionLicenseApplied, metav1.ConditionFalse, coderv1alpha1.ReasonLicenseExpired)
	f.MustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonLicenseExpired)
	if tier := f.Object().Status.LicenseTier; tier != "none" {
		t.Errorf("tier %q", tier)
	}
	for reason, want := range map[string]time.Duration{
		coderv1alpha1.ReasonLicenseExpiring: day, coderv1alpha1.ReasonLicenseInGracePeriod: 31 * day, coderv1alpha1.ReasonLicenseExpired: 41 * day,
	} {
		if seen[reason] != want || f.Events.Count("Warning "+reason) != 1 {
			t.Errorf("%s: seen after %s, want %s; events %q", reason, seen[reason], want, f.Events.All())
		}
	}
}

func TestTheBuildWithoutLicensesIsReady(t *testing.T) {
	f := newFixture(t, databaseSecret(), newControlPlane(withLicense))
	f.putLicense(f.licenseFor(100))
	f.Settle()
	f.PodsReady(1)
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionLicenseApplied, metav1.ConditionFalse, coderv1alpha1.ReasonNotSupported)
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	status := f.Object().Status
	if status.LicenseTier != "none" || status.ExternalProvisionerDaemonsEntitlement != "not_entitled" || status.WorkspaceProxyEntitlement != "not_entitled" || status.LicenseUUIDs != nil {
		t.Errorf("status %+v", status)
	}
	f.coder.ResetRequests()
	for range 3 {
		f.Forward(10 * time.Minute)
		if result := f.Reconcile(); result.RequeueAfter < 20*time.Minute {
			t.Errorf("looks again after %s", result.RequeueAfter)
		}
	}
	if asked := f.coder.Requests(); len(asked) > 0 {
		t.Errorf("asked %v", asked)
	}
}

// TestMoreThanOneReplicaNeedsALicense checks that the condition follows the entitlements of the
// running Coder, and that Coder runs without the entitlement too.
func TestMoreThanOneReplicaNeedsALicense(t *testing.T) {
	replicas := func(n int32) func(*coderv1alpha1.CoderControlPlane) {
		return func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Replicas = ptr.To(n) }
	}
	const kind = coderv1alpha1.ConditionHighAvailabilityEntitled
	f := newFixture(t, databaseSecret(), newControlPlane(replicas(2)))
	f.coder = coderdtest.New(t, coderdtest.WithLicensing(), coderdtest.WithClock(f.Clock))
	f.Settle()
	f.MustHave(kind, metav1.ConditionUnknown, coderv1alpha1.ReasonNotChecked)
	f.PodsReady(2)
	f.Settle()
	without := f.MustHave(kind, metav1.ConditionFalse, coderv1alpha1.ReasonNotEntitled)
	if !strings.Contains(without.Message, "2 replicas are requested") || !strings.Contains(without.Message, "spec.licenseSecretRef") {
		t.Errorf("message %q", without.Message)
	}
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	if n := f.Events.Count("Warning " + coderv1alpha1.ReasonNotEntitled); n != 1 {
		t.Errorf("%d Events in %q", n, f.Events.All())
	}
	f.putLicense(f.licenseFor(100))
	f.Edit(withLicense)
	f.Settle()
	f.MustHave(kind, metav1.ConditionTrue, coderv1alpha1.ReasonEntitled)
	f.coder.SetFeature(coderd.FeatureHighAvailability, string(coderd.GracePeriod))
	f.Forward(licensing.DefaultRest)
	f.Settle()
	f.MustHave(kind, metav1.ConditionTrue, coderv1alpha1.ReasonLicenseInGracePeriod)
	f.Edit(replicas(1))
	f.Settle()
	if c := meta.FindStatusCondition(f.Object().Status.Conditions, kind); c != nil {
		t.Errorf("with one replica there is %+v", c)
	}
}

// TestALicenseRollsNoPods checks that a changed license Secret triggers a pass but does not roll
// the pods, which do not use it.
func TestALicenseRollsNoPods(t *testing.T) {
	f := newLicensedFixture(t, newControlPlane(withLicense))
	template := func() corev1.PodTemplateSpec {
		d := &appsv1.Deployment{}
		f.Get("coder", d)
		return d.Spec.Template
	}
	before := template()
	f.putLicense(f.licenseFor(100))
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionLicenseApplied, metav1.ConditionTrue, coderv1alpha1.ReasonApplied)
	if diff := cmp.Diff(before, template()); diff != "" {
		t.Errorf("the license changes the pods:\n%s", diff)
	}
	is := func(r resources.Reference) bool {
		return r.Kind == resources.KindSecret && r.Name == "license"
	}
	if cp := f.Object(); !slices.ContainsFunc(references(cp), is) ||
		slices.ContainsFunc(framework.ReferencesOf(resources.ControlPlane(cp, resources.Cluster{})), is) {
		t.Error("the Secret of the license is watched, and not one of the pods'")
	}
}

// The license is written to Coder and its record to the cluster. The result does not depend on
// which write was the last one before the process ended.
func TestKilledAfterAnyWriteOfALicense(t *testing.T) {
	for n := 1; ; n++ {
		f := newLicensedFixture(t, newControlPlane(withLicense))
		theirs, first, second := f.licenseFor(300), f.licenseFor(100), f.licenseFor(200)
		f.coder.AddLicense(theirs)
		f.Fault.Set(n, true)
		survived := true
		run := func() {
			for range 6 {
				_, err := f.Try()
				switch {
				case f.Fault.Struck():
					survived = false
					f.Fault.Set(0, false)
					f.restart()
				case err != nil:
					t.Fatal(err)
				}
			}
		}
		f.putLicense(first)
		run()
		f.mustHold(theirs, first)
		f.putLicense(second)
		run()
		f.mustHold(theirs, second)
		f.Fault.Set(0, false)
		f.Settle()
		f.mustHold(theirs, second)
		if got := f.Object().Status.LicenseUUIDs; len(got) != 1 || got[0] != identityOf(t, second) {
			t.Errorf("recorded %q", got)
		}
		if t.Failed() {
			t.Fatalf("killed after write %d", n)
		}
		if survived {
			if n < 4 {
				t.Errorf("only %d writes", n-1)
			}
			return
		}
	}
}

func identityOf(t *testing.T, text string) string {
	t.Helper()
	claims, err := coderd.ParseLicense(text)
	if err != nil {
		t.Fatal(err)
	}
	return claims.Identity().String()
}

// TestACacheThatIsBehindDoesNotDisown covers a pass that does not see the record of the previous
// pass. To that pass the license looks like a user's, but it must not write that.
func TestACacheThatIsBehindDoesNotDisown(t *testing.T) {
	f := newLicensedFixture(t, newControlPlane(withLicense))
	stale, text := f.Object(), f.licenseFor(100)
	f.putLicense(text)
	f.Settle()
	want := f.Object().Status

	s := f.r.newScope(stale.DeepCopy())
	s.build, s.access = &coderd.BuildInfo{Version: "v2.30.0"}, &access.Result{Result: ensure.Result{State: ensure.Ready}, TokenRef: want.OperatorTokenSecretRef}
	s.Deployment = &appsv1.Deployment{}
	f.Get("coder", s.Deployment)
	if err := f.r.ensureLicense(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if len(s.license.result.Own) != 0 {
		t.Fatalf("the pass is not behind: %q", s.license.result.Own)
	}
	result, err := f.r.kit.Finish(t.Context(), &s.Pass, func() *coderv1alpha1.WorkloadStatus {
		s.cp.Status = statusOf(s)
		return &s.cp.Status.WorkloadStatus
	}, 0)
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("%+v, %v; want another pass soon", result, err)
	}
	// It must not upload another license either, because it could not record that it owns it.
	f.putLicense(f.licenseFor(200))
	f.coder.ResetRequests()
	s = f.r.newScope(stale.DeepCopy())
	s.build, s.access = &coderd.BuildInfo{Version: "v2.30.0"}, &access.Result{Result: ensure.Result{State: ensure.Ready}, TokenRef: want.OperatorTokenSecretRef}
	s.Deployment = &appsv1.Deployment{}
	if err := f.r.ensureLicense(t.Context(), s); ensure.Stopped(err) == nil || f.coder.Writes() != 0 || len(s.cp.Status.LicenseUUIDs) != 0 {
		t.Errorf("%v; %d writes to Coder; %q", err, f.coder.Writes(), s.cp.Status.LicenseUUIDs)
	}
	f.putLicense(text)
	f.Settle()
	if diff := cmp.Diff(want.LicenseUUIDs, f.Object().Status.LicenseUUIDs); diff != "" {
		t.Errorf("the record (-want +got):\n%s", diff)
	}
}

func TestTheLicenseInReady(t *testing.T) {
	result := func(state ensure.State, reason string, own ...string) func(*scope) {
		return func(s *scope) {
			s.license.result = &licensing.Result{Result: ensure.Result{State: state, Reason: reason, Message: "m"}, Own: own}
		}
	}
	for name, test := range map[string]struct {
		asked     bool
		change    func(*scope)
		condition string
		ready     string
		summary   string
	}{
		"none":                   {false, result(licensing.None, ""), "", "Ready", ""},
		"not looked at":          {true, func(*scope) {}, "False Pending", "Pending", "Reconciling"},
		"applied":                {true, result(ensure.Ready, "Applied", "a"), "True Applied", "Ready", ""},
		"about to expire":        {true, result(ensure.Ready, "LicenseExpiring", "a"), "True LicenseExpiring", "Ready", ""},
		"expired":                {true, result(ensure.Failed, "LicenseExpired", "a"), "False LicenseExpired", "LicenseExpired", "Stalled"},
		"refused":                {true, result(ensure.Failed, "InvalidLicense"), "False InvalidLicense", "InvalidLicense", "Stalled"},
		"no answer":              {true, result(ensure.Waiting, "Error"), "False Error", "Error", "Reconciling"},
		"not supported":          {true, result(ensure.Failed, "NotSupported"), "False NotSupported", "Ready", ""},
		"ours is left":           {false, result(ensure.Waiting, "Error", "a"), "False Error", "Ready", ""},
		"asked, but no access":   {true, disable, "False Disabled", "Disabled", "Stalled"},
		"not asked, no access":   {false, disable, "", "Ready", ""},
		"ours is left, disabled": {false, func(s *scope) { disable(s); s.cp.Status.LicenseUUIDs = []string{"a"} }, "False Disabled", "Ready", ""},
		"no Secret": {true, func(s *scope) {
			s.license.missing = &framework.Problem{Reason: "SecretMissing", Message: "m"}
			s.license.result = &licensing.Result{}
		}, "False SecretMissing", "SecretMissing", "Reconciling"},
	} {
		t.Run(name, func(t *testing.T) {
			s := working()
			if test.asked {
				withLicense(s.cp)
			}
			test.change(s)
			status := statusOf(s)
			got := ""
			if c := meta.FindStatusCondition(status.Conditions, coderv1alpha1.ConditionLicenseApplied); c != nil {
				got = fmt.Sprintf("%s %s", c.Status, c.Reason)
			}
			ready := meta.FindStatusCondition(status.Conditions, coderv1alpha1.ConditionReady)
			if got != test.condition || ready.Reason != test.ready {
				t.Errorf("LicenseApplied %q, Ready %q, want %q, %q", got, ready.Reason, test.condition, test.ready)
			}
			for _, summary := range []string{coderv1alpha1.ConditionReconciling, coderv1alpha1.ConditionStalled} {
				if present := meta.FindStatusCondition(status.Conditions, summary) != nil; present != (summary == test.summary) {
					t.Errorf("%s is present: %t", summary, present)
				}
			}
		})
	}
}

func disable(s *scope) { s.cp.Spec.OperatorAccess.Disabled, s.access = true, nil }

// TestNoAnswerKeepsTheRecord checks that previous values are kept if Coder does not answer.
func TestNoAnswerKeepsTheRecord(t *testing.T) {
	s := working()
	withLicense(s.cp)
	at := metav1.NewTime(s.Now)
	s.cp.Status.LicenseTier, s.cp.Status.LicenseUUIDs, s.cp.Status.LicenseLastAppliedHash = "premium", []string{"a"}, "hash"
	s.cp.Status.LicenseLastApplied, s.cp.Status.LicenseExpiresAt = &at, &at
	for name, result := range map[string]*licensing.Result{
		"not asked": nil,
		"no answer": {Result: ensure.Result{State: ensure.Waiting, Reason: "Error"}, Own: []string{"a"}, ExpiresAt: ptr.To(s.Now)},
	} {
		s.license.result = result
		got := statusOf(s)
		if got.LicenseTier != "premium" || len(got.LicenseUUIDs) != 1 || got.LicenseLastAppliedHash != "hash" || got.LicenseLastApplied == nil || got.LicenseExpiresAt == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	disable(s)
	if got := statusOf(s); got.LicenseTier != "" || len(got.LicenseUUIDs) != 1 {
		t.Errorf("disabled: %+v", got)
	}
}

// TestALicenseSurvivesItsSecret checks that the license stays in Coder if its Secret is missing for
// a moment, for example during a replacement.
func TestALicenseSurvivesItsSecret(t *testing.T) {
	f := newLicensedFixture(t, newControlPlane(withLicense))
	text := f.licenseFor(100)
	f.putLicense(text)
	f.Settle()
	before := f.Object().Status
	f.Remove(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "license", Namespace: "coder"}})
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionLicenseApplied, metav1.ConditionFalse, coderv1alpha1.ReasonSecretMissing)
	f.mustHold(text)
	after := f.Object().Status
	before.Conditions, after.Conditions, before.Phase, after.Phase = nil, nil, "", ""
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the record changed:\n%s", diff)
	}
}

// TestTheRecordComesFirst checks that the record is written before the upload. After an interrupted
// upload, a new process needs the record to recognize its own license.
func TestTheRecordComesFirst(t *testing.T) {
	f := newLicensedFixture(t, newControlPlane(withLicense))
	text, looked := f.licenseFor(100), 0
	f.watch = func(req *http.Request) {
		if req.Method != http.MethodPost || !strings.HasSuffix(req.URL.Path, "/licenses") {
			return
		}
		looked++
		if got := f.Object().Status.LicenseUUIDs; !slices.Equal(got, []string{identityOf(t, text)}) {
			t.Errorf("recorded before the upload: %q", got)
		}
	}
	f.putLicense(text)
	f.Settle()
	if looked != 1 {
		t.Errorf("%d uploads", looked)
	}
}

// TestATokenThatTheLicenseFindsRefused checks that a rejected token is replaced although its check
// is cached for an hour.
func TestATokenThatTheLicenseFindsRefused(t *testing.T) {
	f := newLicensedFixture(t, newControlPlane(withLicense))
	token := &corev1.Secret{}
	f.Get("coder-operator-token", token)
	f.coder.RevokeToken(string(token.Data[coderv1alpha1.SecretKeyToken]))
	text := f.licenseFor(100)
	f.putLicense(text)
	f.Settle()
	f.mustHold(text)
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
}

// TestAnotherBuildIsAskedAtOnce replaces a Coder without license support by one with it.
func TestAnotherBuildIsAskedAtOnce(t *testing.T) {
	f := newFixture(t, databaseSecret(), newControlPlane(withLicense))
	text := f.licenseFor(100)
	f.putLicense(text)
	f.Settle()
	f.PodsReady(1)
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionLicenseApplied, metav1.ConditionFalse, coderv1alpha1.ReasonNotSupported)
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Image = "ghcr.io/coder/coder:v2.30.0-licensed" })
	f.Settle()
	// The fake API server does not increase the generation of Deployments.
	d := &appsv1.Deployment{}
	f.Get("coder", d)
	d.Generation++
	f.Update(d)
	// The old pod answers until the new pod is ready.
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionLicenseApplied, metav1.ConditionFalse, coderv1alpha1.ReasonNotSupported)
	f.coder = coderdtest.New(t, coderdtest.WithLicensing(), coderdtest.WithClock(f.Clock))
	f.PodsReady(1)
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionLicenseApplied, metav1.ConditionTrue, coderv1alpha1.ReasonApplied)
	f.mustHold(text)
}

// TestTheOldPodsDoNotSpeakForTheNew checks that a rollout invalidates cached answers. Two builds of
// Coder can have the same version, and the old one answers until the new one is ready.
func TestTheOldPodsDoNotSpeakForTheNew(t *testing.T) {
	seen := map[string]string{}
	for name, change := range map[string]func(*scope){
		"at rest":         func(*scope) {},
		"another rollout": func(s *scope) { s.Deployment.Generation, s.Deployment.Status.ObservedGeneration = 2, 2 },
		"a rollout":       func(s *scope) { s.Deployment.Status.UpdatedReplicas = 0 },
		"another one":     func(s *scope) { s.cp.UID = "other" },
		"another version": func(s *scope) { s.build.Version = "v2.31.0" },
	} {
		s := working()
		change(s)
		instance := s.coderInstance()
		if other, taken := seen[instance]; taken {
			t.Errorf("%q and %q are both %q", name, other, instance)
		}
		seen[instance] = name
	}
}

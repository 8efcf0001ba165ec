package keys

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure/ensuretest"
)

func TestAKeyIsMadeOnceAndThenLeftAlone(t *testing.T) {
	f := newFixture(t)
	result := f.settle()
	f.checkWhole("gpu")
	wantKey(t, result, metav1.ConditionTrue, coderv1alpha1.ReasonProvisionerKeyReady)
	if result.Secret.Reason != coderv1alpha1.ReasonSecretReady || result.Entitled.Reason != coderv1alpha1.ReasonEntitled {
		t.Errorf("Secret %+v, entitled %+v", result.Secret, result.Entitled)
	}
	if n := count(f.said, "Normal ProvisionerKeyCreated"); n != 1 {
		t.Errorf("Events: %q", f.said)
	}

	f.Coder.Asked()
	before := f.Writes()
	f.Forward(59 * time.Minute)
	if again := f.pass(); again.RequeueAfter != time.Minute {
		t.Errorf("it is looked at again after %v", again.RequeueAfter)
	}
	if asked := f.Coder.Asked(); asked != 0 || f.Writes() != before {
		t.Errorf("at rest it asks Coder %d times and writes %d times", asked, f.Writes()-before)
	}
	f.Forward(time.Minute)
	f.pass()
	if asked := f.Coder.Asked(); asked == 0 || asked > 3 || f.Writes() != before {
		t.Errorf("after an hour it asks Coder %d times and writes %d times", asked, f.Writes()-before)
	}
}

// The first key waits until the status says that there will be one: from then on, the API server rejects
// changes of the fields that say where it is.
func TestTheFirstKeyWaitsForTheStatus(t *testing.T) {
	f := newFixture(t)
	result, err := f.manager.Ensure(f.Ctx, f.request())
	f.Must(err)
	wantKey(t, result, metav1.ConditionFalse, coderv1alpha1.ReasonWaiting)
	if !result.Claimed || result.RequeueAfter == 0 || f.keyNames() != "" || f.HasSecret(secretName) {
		t.Errorf("%+v, keys %q", result, f.keyNames())
	}
	f.cr.Status.ControlPlaneRefName = "dev"
	if result = f.ensure(); result.Claimed || f.keyNames() != "gpu" {
		t.Errorf("%+v, keys %q", result, f.keyNames())
	}
}

// A leader that was paused continues with an outdated cache. A key for an object that is gone would stay
// in Coder, and no later object could use its name.
func TestNoKeyIsMadeForAProvisionerThatIsGone(t *testing.T) {
	for name, change := range map[string]func(*fixture){
		"gone": func(f *fixture) { f.Remove(f.cr.DeepCopy()) },
		"being deleted": func(f *fixture) {
			held := &coderv1alpha1.CoderProvisioner{}
			f.Has(testName, held)
			held.Finalizers = []string{"test/hold"}
			f.Update(held)
			f.Remove(held)
		},
		"created again": func(f *fixture) {
			f.Remove(f.cr.DeepCopy())
			next := f.cr.DeepCopy()
			next.UID = "next"
			f.Create(next)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			change(f)
			wantKey(t, f.ensure(), metav1.ConditionUnknown, coderv1alpha1.ReasonDeleting)
			if f.keyNames() != "" || f.HasSecret(secretName) {
				t.Errorf("keys %q, Secret: %t", f.keyNames(), f.HasSecret(secretName))
			}
		})
	}
}

// K13: the predecessor never checks the key again once the Secret contains one.
func TestK13AKeyThatWasDeletedInCoderIsMadeAnew(t *testing.T) {
	f := newFixture(t)
	f.settle()
	old := f.keys()[0]
	f.Coder.RemoveProvisionerKey(organization, "gpu")

	f.Forward(time.Hour)
	f.settle()
	f.checkWhole("gpu")
	if f.keys()[0].ID == old.ID {
		t.Error("the key is the old one")
	}

	// If pods are not ready, the key is checked earlier.
	f.Coder.RemoveProvisionerKey(organization, "gpu")
	request := f.request()
	request.MaxAge = time.Minute
	f.Forward(time.Minute)
	if _, err := f.manager.Ensure(f.Ctx, request); err != nil {
		t.Fatal(err)
	}
	f.settle()
	f.checkWhole("gpu")
}

// K14: the predecessor deletes the old key before the pods have the new one.
func TestK14TheOldKeyOutlivesThePodsThatHoldIt(t *testing.T) {
	f := newFixture(t)
	f.settle()
	old := f.keys()[0].ID.String()
	f.slow = true
	f.cr.Spec.Tags = map[string]string{"zone": "b"}
	f.pass()
	f.pass()
	if names := f.keyNames(); names != "gpu gpu-2" {
		t.Fatalf("keys while the old pods run: %s", names)
	}
	current := f.cr.Status.ProvisionerKeyID

	// There is one pod of each revision. The old one is terminating.
	f.pods = []string{old, current}
	f.pass()
	if names := f.keyNames(); names != "gpu gpu-2" {
		t.Fatalf("keys while an old pod ends: %s", names)
	}
	f.pods = []string{current}
	f.pass()
	f.checkWhole("gpu-2")

	// The next replacement uses the first name again.
	f.cr.Spec.Tags = nil
	f.pass()
	f.pods = []string{f.cr.Status.ProvisionerKeyID}
	f.pass()
	f.checkWhole("gpu")
}

// K15: the predecessor deletes a key with the wanted name, also that of another owner.
func TestK15AKeyOfSomeoneElseIsNotTouched(t *testing.T) {
	f := newFixture(t)
	f.Coder.AddProvisionerKey(organization, "GPU", map[string]string{"zone": "a"})
	foreign := f.keys()[0]
	for range 3 {
		result := f.pass()
		wantKey(t, result, metav1.ConditionFalse, coderv1alpha1.ReasonKeyNameTaken)
		if !result.Stalled || !strings.Contains(result.Key.Message, "spec.key.name") {
			t.Errorf("stalled %v, message %q", result.Stalled, result.Key.Message)
		}
		f.Forward(result.RequeueAfter)
	}
	if all := f.keys(); len(all) != 1 || all[0].ID != foreign.ID {
		t.Fatalf("keys: %+v", all)
	}
	if f.HasSecret(secretName) {
		t.Error("a Secret was made")
	}
	f.Coder.RemoveProvisionerKey(organization, "gpu")
	f.settle()
	f.checkWhole("gpu")
}

// K15 as a race: another cluster creates the key after the lookup and before the creation.
func TestK15AKeyThatSomeoneMadeMeanwhileIsNotTouched(t *testing.T) {
	f := newFixture(t)
	stop := f.Coder.Fail(coderdtest.Fault{Method: http.MethodPost, Status: http.StatusConflict})
	wantKey(t, f.pass(), metav1.ConditionFalse, coderv1alpha1.ReasonKeyNameTaken)
	stop()
	f.Coder.AddProvisionerKey(organization, "gpu", map[string]string{"zone": "a"})
	f.Forward(time.Hour)
	wantKey(t, f.pass(), metav1.ConditionFalse, coderv1alpha1.ReasonKeyNameTaken)
	if names := f.keyNames(); names != "gpu" {
		t.Errorf("keys: %s", names)
	}
}

// An intent was interrupted before the key was created, and then another owner created a key of
// that name. A key that a daemon uses, or that has other tags, is not the lost one.
func TestAnIntentIsNoClaimToAKeyThatIsInUse(t *testing.T) {
	for name, tags := range map[string]map[string]string{"with a daemon": {"zone": "a"}, "with other tags": {"zone": "x"}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			stop := f.Coder.Fail(coderdtest.Fault{Method: http.MethodPost})
			wantKey(t, f.pass(), metav1.ConditionFalse, coderv1alpha1.ReasonUnreachable)
			if s := readStored(f.Secret(secretName), "key"); s.intent == nil {
				t.Fatal("no intent")
			}
			stop()
			f.Coder.AddProvisionerKey(organization, "gpu", tags)
			if name == "with a daemon" {
				f.Coder.AddProvisionerDaemon(organization, "gpu", "theirs")
			}
			foreign := f.keys()[0]
			f.Forward(time.Hour)
			wantKey(t, f.pass(), metav1.ConditionFalse, coderv1alpha1.ReasonKeyNameTaken)
			if all := f.keys(); len(all) != 1 || all[0].ID != foreign.ID {
				t.Errorf("keys: %+v", all)
			}
		})
	}
}

// K16: the predecessor stops at the entitlement and does nothing more.
func TestK16WithoutALicenseTheKeyStaysAndNoneIsMade(t *testing.T) {
	f := newFixture(t)
	f.settle()
	f.Coder.SetFeature(feature, "not_entitled")
	f.Forward(time.Hour)
	result := f.pass()
	wantKey(t, result, metav1.ConditionTrue, coderv1alpha1.ReasonProvisionerKeyReady)
	if result.Entitled.Status != metav1.ConditionFalse || result.Entitled.Reason != coderv1alpha1.ReasonNotEntitled || result.SecretRef == nil {
		t.Fatalf("entitled %+v, Secret %+v", result.Entitled, result.SecretRef)
	}
	f.cr.Spec.Tags = nil
	result = f.pass()
	wantKey(t, result, metav1.ConditionFalse, coderv1alpha1.ReasonNotEntitled)
	if result.SecretRef == nil || len(f.keys()) != 1 {
		t.Errorf("Secret %+v, keys %s", result.SecretRef, f.keyNames())
	}
	f.Coder.SetFeature(feature, "grace_period")
	f.Forward(time.Hour)
	f.settle()
	f.checkWhole("gpu-2")
}

func TestWithoutALicenseNothingIsMade(t *testing.T) {
	f := newFixture(t)
	f.Coder.SetFeature(feature, "not_entitled")
	result := f.pass()
	wantKey(t, result, metav1.ConditionFalse, coderv1alpha1.ReasonNotEntitled)
	if f.Writes() != 0 || !result.Stalled {
		t.Errorf("%d writes, stalled %v", f.Writes(), result.Stalled)
	}
}

// TestALicenseThatEndsDuringAPassLosesNoKey ends the license before each of the requests of a pass.
func TestALicenseThatEndsDuringAPassLosesNoKey(t *testing.T) {
	for name, prepare := range map[string]func(*fixture){
		"creation":    func(*fixture) {},
		"replacement": func(f *fixture) { f.settle(); f.slow, f.cr.Spec.Tags = true, map[string]string{"zone": "b"} },
	} {
		for at, ended := 0, true; ended; at++ {
			ended = false
			t.Run(fmt.Sprintf("%s, request %d", name, at), func(t *testing.T) {
				f := newFixture(t)
				prepare(f)
				before := f.cr.Status.ProvisionerKeyID
				transport := ensuretest.Before(at, func() { ended = true; f.Coder.SetFeature(feature, "not_entitled") })
				f.manager.Connect = func(context.Context, *coderv1alpha1.CoderControlPlane) (*coderd.Client, error) {
					return coderd.New(coderd.Config{URL: f.Coder.URL, Token: f.token, Transport: transport})
				}
				f.pass()
				f.pass()
				if all := f.keys(); before != "" && (len(all) == 0 || all[0].ID.String() != before) {
					t.Errorf("the key that pods use is gone: %s", f.keyNames())
				}
				f.slow = false
				f.restart() // From here on the license stays.
				f.Coder.SetFeature(feature, "entitled")
				f.Forward(time.Hour)
				f.settle()
				f.checkWhole("")
			})
		}
	}
}

func TestTheAGPLBuildIsNotSupportedAndNoError(t *testing.T) {
	f := newFixture(t)
	f.Coder = coderdtest.New(t)
	f.token = f.Coder.AddUser("operator", "owner")
	result := f.ensure()
	wantKey(t, result, metav1.ConditionFalse, coderv1alpha1.ReasonNotSupported)
	if result.Entitled.Reason != coderv1alpha1.ReasonNotSupported || result.RequeueAfter < time.Hour || !result.Stalled {
		t.Errorf("%+v", result)
	}
	f.Coder.Asked()
	f.ensure()
	if asked := f.Coder.Asked(); asked != 0 {
		t.Errorf("it asks again at once: %d", asked)
	}
}

// The organization of a key cannot change, so the condition does not ask for that.
func TestAMissingOrganizationSaysWhatCanBeDone(t *testing.T) {
	for name, want := range map[string]string{"": "or correct spec.organizationName", "dev": "create another CoderProvisioner"} {
		f := newFixture(t)
		f.cr.Spec.OrganizationName, f.cr.Status.ControlPlaneRefName = "sales", name
		result := f.ensure()
		wantKey(t, result, metav1.ConditionFalse, coderv1alpha1.ReasonOrganizationNotFound)
		if !strings.Contains(result.Key.Message, want) {
			t.Errorf("message %q does not contain %q", result.Key.Message, want)
		}
	}
}

func TestWhatCoderMayAnswer(t *testing.T) {
	cases := map[string]struct {
		fault  coderdtest.Fault
		reason string
		status metav1.ConditionStatus
	}{
		"401":     {coderdtest.Fault{Status: 401, PathPrefix: "/api/v2/organizations"}, coderv1alpha1.ReasonTokenRefused, metav1.ConditionFalse},
		"403":     {coderdtest.Fault{Status: 403, PathPrefix: "/api/v2/organizations"}, coderv1alpha1.ReasonForbidden, metav1.ConditionFalse},
		"404":     {coderdtest.Fault{Status: 404, PathPrefix: "/api/v2/organizations"}, coderv1alpha1.ReasonOrganizationNotFound, metav1.ConditionFalse},
		"409":     {coderdtest.Fault{Status: 409, PathPrefix: "/api/v2/organizations"}, coderv1alpha1.ReasonProvisionerKeyFailed, metav1.ConditionFalse},
		"429":     {coderdtest.Fault{Status: 429, RetryAfter: 40 * time.Second}, coderv1alpha1.ReasonRateLimited, metav1.ConditionFalse},
		"500":     {coderdtest.Fault{Status: 500}, coderv1alpha1.ReasonUnreachable, metav1.ConditionUnknown},
		"garbage": {coderdtest.Fault{HTML: true, Status: 200}, coderv1alpha1.ReasonUnreachable, metav1.ConditionUnknown},
		"nothing": {coderdtest.Fault{DropConnection: true}, coderv1alpha1.ReasonUnreachable, metav1.ConditionUnknown},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.settle()
			before := f.Writes()
			f.Forward(time.Hour)
			f.Coder.Fail(c.fault)
			result := f.pass()
			wantKey(t, result, c.status, c.reason)
			if result.SecretRef == nil || result.Record == nil || result.RequeueAfter <= 0 {
				t.Errorf("the key is lost, or not looked at again: %+v", result)
			}
			f.Coder.ClearFaults()
			f.Forward(result.RequeueAfter)
			f.settle()
			f.checkWhole("gpu")
			if f.Writes() != before {
				t.Errorf("%d writes because of it", f.Writes()-before)
			}
		})
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	f := newFixture(t)
	f.Coder.Fail(coderdtest.Fault{Status: 429, RetryAfter: 40 * time.Second, Times: 1})
	if result := f.pass(); result.RequeueAfter != 40*time.Second {
		t.Fatalf("it waits %v", result.RequeueAfter)
	}
	f.Coder.Asked()
	f.Forward(39 * time.Second)
	f.cr.Spec.Tags = nil
	wantKey(t, f.pass(), metav1.ConditionFalse, coderv1alpha1.ReasonRateLimited)
	f.run(f.manager.Withdraw)
	if asked := f.Coder.Asked(); asked != 0 {
		t.Errorf("it asks %d times before its time", asked)
	}
	f.Forward(time.Second)
	f.settle()
	f.checkWhole("gpu")
}

func TestAControlPlaneThatCannotBeAskedKeepsTheKey(t *testing.T) {
	for name, change := range map[string]func(f *fixture){
		coderv1alpha1.ReasonControlPlaneUnavailable: func(f *fixture) { f.cp = nil },
		coderv1alpha1.ReasonOperatorAccessDisabled:  func(f *fixture) { f.cp.Spec.OperatorAccess.Disabled = true },
	} {
		f := newFixture(t)
		f.settle()
		f.Coder.Asked()
		change(f)
		result := f.pass()
		wantKey(t, result, metav1.ConditionUnknown, name)
		if result.ControlPlane == nil || result.SecretRef == nil || f.Coder.Asked() != 0 {
			t.Errorf("%s: %+v", name, result)
		}
	}
}

func TestASecretThatWasEmptiedOrFilledWithSomethingElseIsFilledAgain(t *testing.T) {
	for _, text := range []string{"", "nonsense", strings.Repeat("x", 43)} {
		f := newFixture(t)
		f.settle()
		secret := f.Secret(secretName)
		secret.Data["key"] = []byte(text)
		f.Update(secret)
		f.settle()
		f.checkWhole("gpu-2")
	}
}

func TestASecretOfSomeoneElseIsNotTouched(t *testing.T) {
	f := newFixture(t)
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: secretName}, Data: map[string][]byte{"key": []byte("theirs")}}
	f.Create(theirs)
	result := f.ensure()
	if result.Secret.Reason != coderv1alpha1.ReasonNotOwned || result.SecretRef != nil || !result.Stalled {
		t.Fatalf("%+v", result)
	}
	if f.Coder.Asked() != 0 || string(f.Secret(secretName).Data["key"]) != "theirs" {
		t.Error("Coder was asked, or the Secret was written")
	}
}

// The Secret and the status of the public predecessor do not cause a new key.
func TestTheKeyOfThePredecessorIsTakenOver(t *testing.T) {
	f := newFixture(t)
	text := f.Coder.AddProvisionerKey(organization, "gpu", f.cr.Spec.Tags)
	before := f.keys()[0]
	yes := true
	f.cr.Status.ProvisionerKeyID, f.cr.Status.ProvisionerKeyName = before.ID.String(), "gpu"
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ensuretest.Namespace, Name: secretName,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "coder.com/v1alpha1", Kind: "CoderProvisioner", Name: testName, UID: f.cr.UID, Controller: &yes,
			}},
		},
		Data: map[string][]byte{"key": []byte(text)},
	}
	f.Create(secret)
	f.settle()
	f.checkWhole("gpu")
	if f.keys()[0].ID != before.ID {
		t.Error("a new key was made")
	}
}

// There are three changes while no old pod ends. No pod loses its key, and in the end one key
// remains.
func TestAReplacementDuringAReplacement(t *testing.T) {
	f := newFixture(t)
	f.settle()
	f.slow = true
	var ids []string
	for _, zone := range []string{"b", "c", "d"} {
		ids = append(ids, f.cr.Status.ProvisionerKeyID)
		f.cr.Spec.Tags = map[string]string{"zone": zone}
		f.pods = ids
		f.pass()
	}
	if names := f.keyNames(); names != "gpu gpu-2 gpu-3 gpu-4" {
		t.Fatalf("keys: %s", names)
	}
	f.pods = []string{f.cr.Status.ProvisionerKeyID}
	f.pass()
	f.checkWhole("gpu-4")
}

// A second name that belongs to another owner is skipped.
func TestTheSecondNameMayBeTaken(t *testing.T) {
	f := newFixture(t)
	f.settle()
	f.Coder.AddProvisionerKey(organization, "gpu-2", nil)
	f.cr.Spec.Tags = nil
	f.settle()
	if names := f.keyNames(); names != "gpu-2 gpu-3" {
		t.Errorf("keys: %s", names)
	}
}

// Coder's database is restored from before the last replacement: Coder has the replaced key again, which
// no record contains, and not the current one.
func TestARestoredDatabaseGetsANewKey(t *testing.T) {
	f := newFixture(t)
	f.settle()
	f.cr.Spec.Tags = nil
	f.settle()
	f.checkWhole("gpu-2")
	f.Coder.RemoveProvisionerKey(organization, "gpu-2")
	f.Coder.AddProvisionerKey(organization, "gpu", map[string]string{"zone": "a"})
	f.Forward(time.Hour)
	f.settle()
	if names := f.keyNames(); names != "gpu gpu-2" {
		t.Errorf("keys: %s", names)
	}
}

// The Secret was deleted during a replacement. Both keys are found through the status and the pods.
func TestASecretDeletedDuringAReplacementLeaksNoKey(t *testing.T) {
	f := newFixture(t)
	f.settle()
	first := f.cr.Status.ProvisionerKeyID
	f.slow = true
	f.cr.Spec.Tags = nil
	f.pass()
	f.Remove(f.Secret(secretName))
	f.pods = []string{first, f.cr.Status.ProvisionerKeyID}
	f.pass()
	f.pods = []string{f.cr.Status.ProvisionerKeyID}
	f.pass()
	f.checkWhole("gpu-3")
}

func TestOwnKeysWaitForTheirPods(t *testing.T) {
	f := newFixture(t)
	f.settle()
	f.cr.Spec.PSKSecretRef = &coderv1alpha1.PSKSecretReference{Name: "psk"}
	if result := f.run(f.manager.Release); result.Forgotten || len(f.keys()) != 1 {
		t.Fatalf("the key is deleted while pods hold it: %+v", result)
	}
	f.pods = []string{""}
	if result := f.run(f.manager.Release); !result.Forgotten || len(f.keys()) != 0 || f.HasSecret(secretName) {
		t.Fatalf("%+v, keys %s", result, f.keyNames())
	}
	f.cr.Status = coderv1alpha1.CoderProvisionerStatus{}
	f.Coder.Asked()
	f.run(f.manager.Release)
	if asked := f.Coder.Asked(); asked != 0 {
		t.Errorf("it asks Coder %d times although it has no key", asked)
	}
}

// A user copies the key into another Secret and names that one in the spec.
func TestACopiedKeyIsHandedOver(t *testing.T) {
	for name, do := range map[string]func(*Manager, context.Context, Request) (Result, error){
		"while it runs": (*Manager).Release, "and is deleted at once": (*Manager).Withdraw,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.settle()
			f.slow, f.cr.Spec.Tags = true, nil
			f.pass()
			f.Create(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: "mine"},
				Data:       map[string][]byte{"key": f.Secret(secretName).Data["key"]},
			})
			f.cr.Spec.Key.SecretRef = &coderv1alpha1.ProvisionerKeySecretReference{Name: "mine"}
			f.pods = []string{""}
			// A second pass continues after a crash in which the Secret was deleted and the status was not written.
			for range 2 {
				result := f.run(func(ctx context.Context, req Request) (Result, error) { return do(f.manager, ctx, req) })
				if len(result.Left) > 0 || f.keyNames() != "gpu-2" {
					t.Errorf("keys %s, result %+v", f.keyNames(), result)
				}
			}
		})
	}
}

// bringKey puts a key into a Secret of the user and the spec, so that no pod uses that of the operator.
func (f *fixture) bringKey(text string) {
	f.T.Helper()
	f.Create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: "mine"}, Data: map[string][]byte{"key": []byte(text)},
	})
	f.cr.Spec.Key.SecretRef = &coderv1alpha1.ProvisionerKeySecretReference{Name: "mine"}
	f.pods = []string{""}
}

// TestACoderThatBecameAGPLReleasesTheKey checks that a Coder that no longer has provisioner keys has none to keep.
func TestACoderThatBecameAGPLReleasesTheKey(t *testing.T) {
	f := newFixture(t)
	f.settle()
	f.bringKey("mine")
	f.Coder = coderdtest.New(t)
	f.token = f.Coder.AddUser("operator", "owner")
	if result := f.run(f.manager.Release); !result.Forgotten || f.HasSecret(secretName) {
		t.Errorf("result %+v", result)
	}
}

// The Secret of the operator itself hands nothing over.
func TestTheOperatorsOwnSecretIsNoHandover(t *testing.T) {
	f := newFixture(t)
	f.settle()
	f.cr.Spec.Key.SecretRef = &coderv1alpha1.ProvisionerKeySecretReference{Name: secretName}
	if result := f.run(f.manager.Release); result.Secret.Reason != coderv1alpha1.ReasonInvalidSpec || len(f.keys()) != 1 {
		t.Errorf("keys %s, result %+v", f.keyNames(), result)
	}
	if f.run(f.manager.Withdraw); len(f.keys()) != 0 {
		t.Errorf("keys %s", f.keyNames())
	}
}

// K18: the predecessor removes the finalizer whatever happens to the key.
func TestK18AKeyThatCannotBeDeletedIsTold(t *testing.T) {
	f := newFixture(t)
	f.settle()
	f.Coder.Fail(coderdtest.Fault{DropConnection: true})
	result := f.run(f.manager.Withdraw)
	if len(result.Left) != 1 || result.Left[0].Name != "gpu" || result.RequeueAfter <= 0 {
		t.Fatalf("%+v", result)
	}
	events := f.manager.Abandon(f.request(), result.Left, "Coder gave no answer")
	if len(events) != 1 || !strings.Contains(events[0].Message, `provisioner key "gpu" in organization "coder"`) {
		t.Errorf("Events: %+v", events)
	}
	f.Coder.ClearFaults()
	if result := f.run(f.manager.Withdraw); len(result.Left) != 0 || f.keyNames() != "" {
		t.Errorf("%+v, keys %s", result, f.keyNames())
	}
}

func TestDeletionOfAKeyGoesByItsID(t *testing.T) {
	f := newFixture(t)
	f.settle()
	f.Coder.RemoveProvisionerKey(organization, "gpu")
	f.Coder.AddProvisionerKey(organization, "gpu", nil)
	if result := f.run(f.manager.Withdraw); len(result.Left) != 0 {
		t.Fatalf("%+v", result)
	}
	if f.keyNames() != "gpu" {
		t.Error("someone else's key of that name was deleted")
	}
}

func TestAControlPlaneThatIsGoneHoldsNothingUp(t *testing.T) {
	f := newFixture(t)
	f.settle()
	f.cp = nil
	if result := f.run(f.manager.Withdraw); len(result.Left) != 0 || count(f.said, "Warning ProvisionerKeyLeftBehind") != 1 {
		t.Errorf("%+v, Events %q", result, f.said)
	}
}

// A change that was interrupted and then reverted leaves no key.
func TestAChangeThatIsTakenBackLeavesNothing(t *testing.T) {
	f := newFixture(t)
	f.settle()
	tags := f.cr.Spec.Tags
	f.cr.Spec.Tags = nil
	f.Coder.Fail(coderdtest.Fault{Method: http.MethodPost, Processed: true, DropConnection: true, Times: 1})
	f.pass()
	if names := f.keyNames(); names != "gpu gpu-2" {
		t.Fatalf("keys: %s", names)
	}
	f.cr.Spec.Tags = tags
	f.settle()
	f.checkWhole("gpu")
}

// TestAgeOfAKeyWithAnotherClock checks that the age of a key counts by the operator's clock. With Coder's, a Coder that is years
// behind would get a new key at every pass, and one that is years ahead never.
func TestAgeOfAKeyWithAnotherClock(t *testing.T) {
	now := time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)
	w := wanted{names: []string{testName}, rotateAfter: 24 * time.Hour}
	for name, made := range map[string]time.Time{
		"right": now, "10 minutes behind": now.Add(-10 * time.Minute), "10 minutes ahead": now.Add(10 * time.Minute),
		"10 years behind": now.AddDate(-10, 0, 0), "10 years ahead": now.AddDate(10, 0, 0), "zero": {},
	} {
		r := recordOf(coderd.ProvisionerKey{Name: testName, CreatedAt: made}, "", now)
		r.OrganizationID = w.org.ID.String()
		for after, rotated := range map[time.Duration]bool{0: false, 23 * time.Hour: false, 25 * time.Hour: true} {
			if v := decideRecorded(r, r, w, now.Add(after)); (v.why != "") != rotated {
				t.Errorf("%s, after %s: %q, want a new key: %t", name, after, v.why, rotated)
			}
		}
	}
	ahead := recordOf(coderd.ProvisionerKey{Name: testName}, "", now.AddDate(10, 0, 0))
	if v := decideRecorded(ahead, ahead, w, now); v.why == "" {
		t.Error("a key that another replica has recorded with a time in ten years is never replaced")
	}
}

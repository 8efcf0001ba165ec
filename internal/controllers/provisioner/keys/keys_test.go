package keys

import (
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure/ensuretest"
)

func TestAKeyIsMadeOnceAndThenLeftAlone(t *testing.T) {
	w := newWorld(t)
	result := w.settle()
	w.checkWhole("gpu")
	wantKey(t, result, metav1.ConditionTrue, coderv1alpha1.ReasonProvisionerKeyReady)
	if result.Secret.Reason != coderv1alpha1.ReasonSecretReady || result.Entitled.Reason != coderv1alpha1.ReasonEntitled {
		t.Errorf("Secret %+v, entitled %+v", result.Secret, result.Entitled)
	}
	if n := count(w.said, "Normal ProvisionerKeyCreated"); n != 1 {
		t.Errorf("Events: %q", w.said)
	}

	w.Asked()
	before := w.Writes
	w.Forward(59 * time.Minute)
	if again := w.pass(); again.RequeueAfter != time.Minute {
		t.Errorf("it is looked at again after %v", again.RequeueAfter)
	}
	if asked := w.Asked(); asked != 0 || w.Writes != before {
		t.Errorf("at rest it asks Coder %d times and writes %d times", asked, w.Writes-before)
	}
	w.Forward(time.Minute)
	w.pass()
	if asked := w.Asked(); asked == 0 || asked > 3 || w.Writes != before {
		t.Errorf("after an hour it asks Coder %d times and writes %d times", asked, w.Writes-before)
	}
}

// K13: the predecessor never checks the key again once the Secret contains one.
func TestK13AKeyThatWasDeletedInCoderIsMadeAnew(t *testing.T) {
	w := newWorld(t)
	w.settle()
	old := w.keys()[0]
	w.Coder.RemoveProvisionerKey(organization, "gpu")

	w.Forward(time.Hour)
	w.settle()
	w.checkWhole("gpu")
	if w.keys()[0].ID == old.ID {
		t.Error("the key is the old one")
	}

	// If pods are not ready, the key is checked earlier.
	w.Coder.RemoveProvisionerKey(organization, "gpu")
	request := w.request()
	request.MaxAge = time.Minute
	w.Forward(time.Minute)
	if _, err := w.manager.Ensure(w.Ctx, request); err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.checkWhole("gpu")
}

// K14: the predecessor deletes the old key before the pods have the new one.
func TestK14TheOldKeyOutlivesThePodsThatHoldIt(t *testing.T) {
	w := newWorld(t)
	w.settle()
	old := w.keys()[0].ID.String()
	w.slow = true
	w.cr.Spec.Tags = map[string]string{"zone": "b"}
	w.pass()
	w.pass()
	if names := w.keyNames(); names != "gpu gpu-2" {
		t.Fatalf("keys while the old pods run: %s", names)
	}
	current := w.cr.Status.ProvisionerKeyID

	// There is one pod of each revision. The old one is terminating.
	w.pods = []string{old, current}
	w.pass()
	if names := w.keyNames(); names != "gpu gpu-2" {
		t.Fatalf("keys while an old pod ends: %s", names)
	}
	w.pods = []string{current}
	w.pass()
	w.checkWhole("gpu-2")

	// The next replacement uses the first name again.
	w.cr.Spec.Tags = nil
	w.pass()
	w.pods = []string{w.cr.Status.ProvisionerKeyID}
	w.pass()
	w.checkWhole("gpu")
}

// K14, second half: the predecessor creates a new key for a new Secret, and leaves the old Secret.
func TestK14AnotherSecretNameIsNoNewKey(t *testing.T) {
	w := newWorld(t)
	w.settle()
	before := w.keys()[0]
	w.slow = true
	w.cr.Spec.Key.SecretName = "elsewhere"
	w.pods = []string{"", before.ID.String()}
	w.pass()
	if !w.HasSecret(secretName) {
		t.Fatal("the Secret is gone while a pod may read it")
	}
	w.pods = []string{before.ID.String()}
	w.pass()
	w.checkWhole("gpu")
	if w.keys()[0].ID != before.ID {
		t.Error("a new key was made")
	}
	if w.HasSecret(secretName) {
		t.Error("the old Secret is left")
	}
}

// K15: the predecessor deletes a key with the wanted name, also that of another owner.
func TestK15AKeyOfSomeoneElseIsNotTouched(t *testing.T) {
	w := newWorld(t)
	w.Coder.AddProvisionerKey(organization, "GPU", map[string]string{"zone": "a"})
	foreign := w.keys()[0]
	for range 3 {
		result := w.pass()
		wantKey(t, result, metav1.ConditionFalse, coderv1alpha1.ReasonKeyNameTaken)
		if !result.Stalled || !strings.Contains(result.Key.Message, "spec.key.name") {
			t.Errorf("stalled %v, message %q", result.Stalled, result.Key.Message)
		}
		w.Forward(result.RequeueAfter)
	}
	if all := w.keys(); len(all) != 1 || all[0].ID != foreign.ID {
		t.Fatalf("keys: %+v", all)
	}
	if w.HasSecret(secretName) {
		t.Error("a Secret was made")
	}
	w.Coder.RemoveProvisionerKey(organization, "gpu")
	w.settle()
	w.checkWhole("gpu")
}

// K15 as a race: another cluster creates the key after the lookup and before the creation.
func TestK15AKeyThatSomeoneMadeMeanwhileIsNotTouched(t *testing.T) {
	w := newWorld(t)
	stop := w.Coder.Fail(coderdtest.Fault{Method: http.MethodPost, Status: http.StatusConflict})
	wantKey(t, w.pass(), metav1.ConditionFalse, coderv1alpha1.ReasonKeyNameTaken)
	stop()
	w.Coder.AddProvisionerKey(organization, "gpu", map[string]string{"zone": "a"})
	w.Forward(time.Hour)
	wantKey(t, w.pass(), metav1.ConditionFalse, coderv1alpha1.ReasonKeyNameTaken)
	if names := w.keyNames(); names != "gpu" {
		t.Errorf("keys: %s", names)
	}
}

// An intent was interrupted before the key was created, and then another owner created a key of
// that name. A key that a daemon uses, or that has other tags, is not the lost one.
func TestAnIntentIsNoClaimToAKeyThatIsInUse(t *testing.T) {
	for name, tags := range map[string]map[string]string{"with a daemon": {"zone": "a"}, "with other tags": {"zone": "x"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			stop := w.Coder.Fail(coderdtest.Fault{Method: http.MethodPost})
			wantKey(t, w.pass(), metav1.ConditionFalse, coderv1alpha1.ReasonUnreachable)
			if s := readStored(w.Secret(secretName), "key"); s.intent == nil {
				t.Fatal("no intent")
			}
			stop()
			w.Coder.AddProvisionerKey(organization, "gpu", tags)
			if name == "with a daemon" {
				w.Coder.AddProvisionerDaemon(organization, "gpu", "theirs")
			}
			foreign := w.keys()[0]
			w.Forward(time.Hour)
			wantKey(t, w.pass(), metav1.ConditionFalse, coderv1alpha1.ReasonKeyNameTaken)
			if all := w.keys(); len(all) != 1 || all[0].ID != foreign.ID {
				t.Errorf("keys: %+v", all)
			}
		})
	}
}

// K16: the predecessor stops at the entitlement and does nothing more.
func TestK16WithoutALicenseTheKeyStaysAndNoneIsMade(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.Coder.SetFeature(feature, "not_entitled")
	w.Forward(time.Hour)
	result := w.pass()
	wantKey(t, result, metav1.ConditionTrue, coderv1alpha1.ReasonProvisionerKeyReady)
	if result.Entitled.Status != metav1.ConditionFalse || result.Entitled.Reason != coderv1alpha1.ReasonNotEntitled || result.SecretRef == nil {
		t.Fatalf("entitled %+v, Secret %+v", result.Entitled, result.SecretRef)
	}
	w.cr.Spec.Tags = nil
	result = w.pass()
	wantKey(t, result, metav1.ConditionFalse, coderv1alpha1.ReasonNotEntitled)
	if result.SecretRef == nil || len(w.keys()) != 1 {
		t.Errorf("Secret %+v, keys %s", result.SecretRef, w.keyNames())
	}
	w.Coder.SetFeature(feature, "grace_period")
	w.Forward(time.Hour)
	w.settle()
	w.checkWhole("gpu-2")
}

func TestWithoutALicenseNothingIsMade(t *testing.T) {
	w := newWorld(t)
	w.Coder.SetFeature(feature, "not_entitled")
	result := w.pass()
	wantKey(t, result, metav1.ConditionFalse, coderv1alpha1.ReasonNotEntitled)
	if w.Writes != 0 || !result.Stalled {
		t.Errorf("%d writes, stalled %v", w.Writes, result.Stalled)
	}
}

func TestTheAGPLBuildIsNotSupportedAndNoError(t *testing.T) {
	w := newWorld(t)
	w.Coder = coderdtest.New(t)
	w.token = w.Coder.AddUser("operator", "owner")
	result := w.ensure()
	wantKey(t, result, metav1.ConditionFalse, coderv1alpha1.ReasonNotSupported)
	if result.Entitled.Reason != coderv1alpha1.ReasonNotSupported || result.RequeueAfter < time.Hour || !result.Stalled {
		t.Errorf("%+v", result)
	}
	w.Asked()
	w.ensure()
	if asked := w.Asked(); asked != 0 {
		t.Errorf("it asks again at once: %d", asked)
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
			w := newWorld(t)
			w.settle()
			before := w.Writes
			w.Forward(time.Hour)
			w.Coder.Fail(c.fault)
			result := w.pass()
			wantKey(t, result, c.status, c.reason)
			if result.SecretRef == nil || result.Record == nil || result.RequeueAfter <= 0 {
				t.Errorf("the key is lost, or not looked at again: %+v", result)
			}
			w.Coder.ClearFaults()
			w.Forward(result.RequeueAfter)
			w.settle()
			w.checkWhole("gpu")
			if w.Writes != before {
				t.Errorf("%d writes because of it", w.Writes-before)
			}
		})
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	w := newWorld(t)
	w.Coder.Fail(coderdtest.Fault{Status: 429, RetryAfter: 40 * time.Second, Times: 1})
	if result := w.pass(); result.RequeueAfter != 40*time.Second {
		t.Fatalf("it waits %v", result.RequeueAfter)
	}
	w.Asked()
	w.Forward(39 * time.Second)
	w.cr.Spec.Tags = nil
	wantKey(t, w.pass(), metav1.ConditionFalse, coderv1alpha1.ReasonRateLimited)
	w.run(w.manager.Withdraw)
	if asked := w.Asked(); asked != 0 {
		t.Errorf("it asks %d times before its time", asked)
	}
	w.Forward(time.Second)
	w.settle()
	w.checkWhole("gpu")
}

func TestAControlPlaneThatCannotBeAskedKeepsTheKey(t *testing.T) {
	for name, change := range map[string]func(w *world){
		coderv1alpha1.ReasonControlPlaneUnavailable: func(w *world) { w.cp = nil },
		coderv1alpha1.ReasonOperatorAccessDisabled:  func(w *world) { w.cp.Spec.OperatorAccess.Disabled = true },
	} {
		w := newWorld(t)
		w.settle()
		w.Asked()
		change(w)
		result := w.pass()
		wantKey(t, result, metav1.ConditionUnknown, name)
		if result.ControlPlane == nil || result.SecretRef == nil || w.Asked() != 0 {
			t.Errorf("%s: %+v", name, result)
		}
	}
}

func TestAnotherOrganizationOrControlPlaneGetsANewKey(t *testing.T) {
	w := newWorld(t)
	w.Coder.AddOrganization("sales")
	w.settle()
	w.cr.Spec.OrganizationName = "sales"
	w.settle()
	if w.keyNames() != "" || len(w.Coder.ProvisionerKeys("sales")) != 1 {
		t.Fatalf("keys: %q, sales %+v", w.keyNames(), w.Coder.ProvisionerKeys("sales"))
	}
	old := w.cp
	w.Create(old.DeepCopy())
	w.cp = &coderv1alpha1.CoderControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: "prod", UID: "prod-uid"}}
	w.cr.Spec.ControlPlaneRef.Name = "prod"
	w.settle()
	if all := w.Coder.ProvisionerKeys("sales"); len(all) != 1 || all[0].Name != "gpu-2" {
		t.Errorf("keys: %+v", all)
	}
}

func TestASecretThatWasEmptiedOrFilledWithSomethingElseIsFilledAgain(t *testing.T) {
	for _, text := range []string{"", "nonsense", strings.Repeat("x", 43)} {
		w := newWorld(t)
		w.settle()
		secret := w.Secret(secretName)
		secret.Data["key"] = []byte(text)
		w.Update(secret)
		w.settle()
		w.checkWhole("gpu-2")
	}
}

func TestASecretOfSomeoneElseIsNotTouched(t *testing.T) {
	w := newWorld(t)
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: secretName}, Data: map[string][]byte{"key": []byte("theirs")}}
	w.Create(theirs)
	result := w.ensure()
	if result.Secret.Reason != coderv1alpha1.ReasonNotOwned || result.SecretRef != nil || !result.Stalled {
		t.Fatalf("%+v", result)
	}
	if w.Asked() != 0 || string(w.Secret(secretName).Data["key"]) != "theirs" {
		t.Error("Coder was asked, or the Secret was written")
	}
}

// The Secret and the status of the public predecessor do not cause a new key.
func TestTheKeyOfThePredecessorIsTakenOver(t *testing.T) {
	w := newWorld(t)
	text := w.Coder.AddProvisionerKey(organization, "gpu", w.cr.Spec.Tags)
	before := w.keys()[0]
	yes := true
	w.cr.Status.ProvisionerKeyID, w.cr.Status.ProvisionerKeyName = before.ID.String(), "gpu"
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ensuretest.Namespace, Name: secretName,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "coder.com/v1alpha1", Kind: "CoderProvisioner", Name: testName, UID: w.cr.UID, Controller: &yes,
			}},
		},
		Data: map[string][]byte{"key": []byte(text)},
	}
	w.Create(secret)
	w.settle()
	w.checkWhole("gpu")
	w.cr.Spec.Key.SecretName = "elsewhere"
	w.settle()
	w.checkWhole("gpu")
	if w.keys()[0].ID != before.ID {
		t.Error("a new key was made")
	}
}

// There are three changes while no old pod ends. No pod loses its key, and in the end one key
// remains.
func TestAReplacementDuringAReplacement(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.slow = true
	var ids []string
	for _, zone := range []string{"b", "c", "d"} {
		ids = append(ids, w.cr.Status.ProvisionerKeyID)
		w.cr.Spec.Tags = map[string]string{"zone": zone}
		w.pods = ids
		w.pass()
	}
	if names := w.keyNames(); names != "gpu gpu-2 gpu-3 gpu-4" {
		t.Fatalf("keys: %s", names)
	}
	w.pods = []string{w.cr.Status.ProvisionerKeyID}
	w.pass()
	w.checkWhole("gpu-4")
}

// A second name that belongs to another owner is skipped.
func TestTheSecondNameMayBeTaken(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.Coder.AddProvisionerKey(organization, "gpu-2", nil)
	w.cr.Spec.Tags = nil
	w.settle()
	if names := w.keyNames(); names != "gpu-2 gpu-3" {
		t.Errorf("keys: %s", names)
	}
}

// The Secret was deleted during a replacement. Both keys are found through the status and the pods.
func TestASecretDeletedDuringAReplacementLeaksNoKey(t *testing.T) {
	w := newWorld(t)
	w.settle()
	first := w.cr.Status.ProvisionerKeyID
	w.slow = true
	w.cr.Spec.Tags = nil
	w.pass()
	w.Delete(w.Secret(secretName))
	w.pods = []string{first, w.cr.Status.ProvisionerKeyID}
	w.pass()
	w.pods = []string{w.cr.Status.ProvisionerKeyID}
	w.pass()
	w.checkWhole("gpu-3")
}

func TestOwnKeysWaitForTheirPods(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.cr.Spec.PSKSecretRef = &coderv1alpha1.PSKSecretReference{Name: "psk"}
	if result := w.run(w.manager.Release); result.Forgotten || len(w.keys()) != 1 {
		t.Fatalf("the key is deleted while pods hold it: %+v", result)
	}
	w.pods = []string{""}
	if result := w.run(w.manager.Release); !result.Forgotten || len(w.keys()) != 0 || w.HasSecret(secretName) {
		t.Fatalf("%+v, keys %s", result, w.keyNames())
	}
	w.cr.Status = coderv1alpha1.CoderProvisionerStatus{}
	w.Asked()
	w.run(w.manager.Release)
	if asked := w.Asked(); asked != 0 {
		t.Errorf("it asks Coder %d times although it has no key", asked)
	}
}

// K18: the predecessor removes the finalizer whatever happens to the key.
func TestK18AKeyThatCannotBeDeletedIsTold(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.Coder.Fail(coderdtest.Fault{DropConnection: true})
	result := w.run(w.manager.Withdraw)
	if len(result.Left) != 1 || result.Left[0].Name != "gpu" || result.RequeueAfter <= 0 {
		t.Fatalf("%+v", result)
	}
	events := w.manager.Abandon(w.request(), result.Left, "Coder gave no answer")
	if len(events) != 1 || !strings.Contains(events[0].Message, `left behind: provisioner key "gpu" in organization "coder"`) {
		t.Errorf("Events: %+v", events)
	}
	w.Coder.ClearFaults()
	if result := w.run(w.manager.Withdraw); len(result.Left) != 0 || w.keyNames() != "" {
		t.Errorf("%+v, keys %s", result, w.keyNames())
	}
}

func TestDeletionOfAKeyGoesByItsID(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.Coder.RemoveProvisionerKey(organization, "gpu")
	w.Coder.AddProvisionerKey(organization, "gpu", nil)
	if result := w.run(w.manager.Withdraw); len(result.Left) != 0 {
		t.Fatalf("%+v", result)
	}
	if w.keyNames() != "gpu" {
		t.Error("someone else's key of that name was deleted")
	}
}

func TestAControlPlaneThatIsGoneHoldsNothingUp(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.cp = nil
	if result := w.run(w.manager.Withdraw); len(result.Left) != 0 || count(w.said, "Warning ProvisionerKeyLeftBehind") != 1 {
		t.Errorf("%+v, Events %q", result, w.said)
	}
}

// A change that was interrupted and then reverted leaves no key.
func TestAChangeThatIsTakenBackLeavesNothing(t *testing.T) {
	w := newWorld(t)
	w.settle()
	tags := w.cr.Spec.Tags
	w.cr.Spec.Tags = nil
	w.Coder.Fail(coderdtest.Fault{Method: http.MethodPost, Processed: true, DropConnection: true, Times: 1})
	w.pass()
	if names := w.keyNames(); names != "gpu gpu-2" {
		t.Fatalf("keys: %s", names)
	}
	w.cr.Spec.Tags = tags
	w.settle()
	w.checkWhole("gpu")
}

// The name of the Secret changes and changes back, with a replacement in between.
func TestSecretNamesThereAndBackLeakNoKey(t *testing.T) {
	w := newWorld(t)
	w.settle()
	first := w.cr.Status.ProvisionerKeyID
	w.slow, w.pods = true, []string{first}
	w.cr.Spec.Key.SecretName = "elsewhere"
	w.pass()
	w.cr.Spec.Tags = nil
	w.pass()
	w.cr.Spec.Key.SecretName = ""
	w.pass()
	w.pods = []string{w.cr.Status.ProvisionerKeyID}
	w.pass()
	w.checkWhole("")
	if w.HasSecret("elsewhere") {
		t.Error("the other Secret is left")
	}
}

// The Secret with the new name is deleted while the one with the old name still contains the
// previous key.
func TestANewSecretDeletedWhileTheOldOneStandsLeaksNoKey(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.slow, w.pods = true, []string{w.cr.Status.ProvisionerKeyID}
	w.cr.Spec.Key.SecretName = "elsewhere"
	w.pass()
	w.cr.Spec.Tags = nil
	w.pass()
	w.Delete(w.Secret("elsewhere"))
	w.pass()
	w.pods = []string{w.cr.Status.ProvisionerKeyID}
	w.pass()
	w.checkWhole("")
}

// An intent in a control plane that no longer answers does not block another control plane.
func TestAnIntentInAnotherControlPlaneHoldsNothingUp(t *testing.T) {
	w := newWorld(t)
	w.Coder.Fail(coderdtest.Fault{Method: http.MethodPost, Times: 1})
	w.pass()
	old := w.cp.DeepCopy()
	old.Spec.OperatorAccess.Disabled = true
	w.Create(old)
	w.cp = &coderv1alpha1.CoderControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: "prod", UID: "prod-uid"}}
	w.cr.Spec.ControlPlaneRef.Name = "prod"
	w.settle()
	w.checkWhole("gpu")
	if count(w.said, "Warning ProvisionerKeyLeftBehind") != 1 {
		t.Errorf("Events: %q", w.said)
	}
}

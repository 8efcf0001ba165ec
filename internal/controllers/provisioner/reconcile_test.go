package provisioner

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
)

func TestAProvisionerComesUpAndRests(t *testing.T) {
	f := readyFixture(t)
	cr, d := f.Object(), f.Deployment()
	status := cr.Status
	key := f.coder.ProvisionerKeys("coder")[0]
	if status.ProvisionerKeyID != key.ID.String() || status.ProvisionerKeyName != "gpu" || status.OrganizationName != "coder" ||
		status.OrganizationID != f.coder.OrganizationID("coder").String() || status.ControlPlaneRefName != "coder" ||
		status.ControlPlaneURL != coderURL || status.SecretRef == nil || status.SecretRef.Name != "gpu-provisioner-key" ||
		len(status.TagsHash) != 64 || status.ReadyReplicas != 2 || status.Phase != coderv1alpha1.PhaseReady || status.Selector == "" {
		t.Errorf("status %+v", status)
	}
	if image := d.Spec.Template.Spec.Containers[0].Image; image != "registry.example.com/coder:v2.30.0" {
		t.Errorf("image %q, want that of the control plane", image)
	}
	for _, kind := range []string{
		coderv1alpha1.ConditionControlPlaneReady, coderv1alpha1.ConditionExternalProvisionersEntitled,
		coderv1alpha1.ConditionProvisionerKeyReady, coderv1alpha1.ConditionProvisionerKeySecretReady,
		coderv1alpha1.ConditionResourcesApplied, coderv1alpha1.ConditionDeploymentAvailable, coderv1alpha1.ConditionWorkspaceAccess,
	} {
		if c := meta.FindStatusCondition(status.Conditions, kind); c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != cr.Generation {
			t.Errorf("%s is %+v", kind, c)
		}
	}
	f.Get("gpu-provisioner", &corev1.ServiceAccount{})
	f.Get("provisioner-gpu", &rbacv1.Role{})
	f.Get("provisioner-gpu", &rbacv1.RoleBinding{})
	f.mustNotLeak()

	f.coder.Asked()
	f.Forward(30 * time.Minute)
	if result := f.Reconcile(); result.RequeueAfter < 29*time.Minute || result.RequeueAfter > time.Hour {
		t.Errorf("it looks again after %v", result.RequeueAfter)
	}
	if writes, asked := f.TakeWrites(), f.coder.Asked(); len(writes) > 0 || asked > 0 {
		t.Errorf("at rest: writes %q, %d requests", writes, asked)
	}
}

// The pods are rolled once for a new key, and not again for its checksum.
func TestANewKeyRollsThePodsOnce(t *testing.T) {
	f := readyFixture(t)
	f.Edit(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.Tags = nil })
	secret := &corev1.Secret{}
	f.Get("gpu-provisioner-key", secret)
	f.behind[secret.Name] = secret.ResourceVersion
	applies := 0
	for pass := range 8 {
		if pass == 2 {
			delete(f.behind, secret.Name)
		}
		f.Reconcile()
		for _, write := range f.TakeWrites() {
			if strings.HasPrefix(write, "apply") && strings.Contains(write, "provisioner-gpu") {
				applies++
			}
		}
		f.roll()
		f.TakeWrites()
	}
	if applies != 1 {
		t.Errorf("the Deployment was applied %d times", applies)
	}
	if f.keyNames() != "gpu-2" {
		t.Errorf("keys: %s", f.keyNames())
	}
}

// K14: no running job is interrupted.
func TestK14RotationWaitsForTerminatingPods(t *testing.T) {
	f := readyFixture(t)
	f.slow = true
	f.Edit(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.Tags = map[string]string{"zone": "b"} })
	f.Settle()
	if f.keyNames() != "gpu gpu-2" {
		t.Fatalf("keys while old pods run: %s", f.keyNames())
	}
	key := f.MustHave(coderv1alpha1.ConditionProvisionerKeyReady, metav1.ConditionTrue, coderv1alpha1.ReasonProvisionerKeyReady)
	if !strings.Contains(key.Message, `"gpu" is deleted when no pod uses it`) {
		t.Errorf("message %q", key.Message)
	}
	f.slow = false
	f.Settle()
	if f.keyNames() != "gpu-2" {
		t.Errorf("keys: %s", f.keyNames())
	}
	if f.Events.Count("Normal ProvisionerKeyRotated") != 1 || f.Events.Count("Normal ProvisionerKeyDeleted") != 1 {
		t.Errorf("Events: %q", f.Events.All())
	}
}

// K14: a Deployment whose controller has not observed the new revision may still create a pod of
// the old one.
func TestK14RotationWaitsForTheDeploymentController(t *testing.T) {
	f := readyFixture(t)
	f.Edit(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.Tags = nil })
	f.Reconcile()
	d := f.Deployment()
	d.Generation = 7
	f.Update(d)
	for _, pod := range f.pods() {
		f.Remove(&pod)
	}
	f.Reconcile()
	if f.keyNames() != "gpu gpu-2" {
		t.Fatalf("keys: %s", f.keyNames())
	}
	f.Settle()
	if f.keyNames() != "gpu-2" {
		t.Errorf("keys: %s", f.keyNames())
	}
}

// K15: two CoderProvisioners have the same key name.
func TestK15TheOlderOneHasTheKey(t *testing.T) {
	younger := newProvisioner(func(cr *coderv1alpha1.CoderProvisioner) {
		cr.Name, cr.UID, cr.Spec.Key.Name = "other", "other-uid", "GPU"
		cr.CreationTimestamp = metav1.NewTime(time.Date(2026, 11, 21, 11, 0, 1, 0, time.UTC))
	})
	f := newFixture(t, newProvisioner(), newControlPlane(), younger)
	for range 3 {
		if _, err := f.Try("other"); err != nil {
			t.Fatal(err)
		}
	}
	if asked := f.coder.Asked(); asked != 0 {
		t.Errorf("the younger one asks Coder %d times", asked)
	}
	refused := f.MustHave(coderv1alpha1.ConditionProvisionerKeyReady, metav1.ConditionFalse, coderv1alpha1.ReasonDuplicateKeyName, "other")
	f.MustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonDuplicateKeyName, "other")
	if !strings.Contains(refused.Message, `"gpu"`) || !strings.Contains(refused.Message, "spec.key.name") {
		t.Errorf("message %q", refused.Message)
	}
	f.Settle()
	first := f.coder.ProvisionerKeys("coder")[0].ID
	if _, err := f.Try("other"); err != nil {
		t.Fatal(err)
	}
	if keys := f.coder.ProvisionerKeys("coder"); len(keys) != 1 || keys[0].ID != first {
		t.Fatalf("keys: %+v", keys)
	}
	if got := f.r.siblings(t.Context(), f.Object()); len(got) != 1 || got[0].Name != "other" {
		t.Errorf("the end of the older one is told to %v", got)
	}

	// The older one is deleted, and the younger one takes over.
	f.Remove(f.Object())
	f.Reconcile()
	f.roll()
	f.Reconcile()
	if f.Has(name, &coderv1alpha1.CoderProvisioner{}) {
		t.Fatal("the older one is still there")
	}
	for range 2 { // The first pass writes to the status that there will be a key.
		if _, err := f.Try("other"); err != nil {
			t.Fatal(err)
		}
	}
	if keys := f.coder.ProvisionerKeys("coder"); len(keys) != 1 || keys[0].ID == first {
		t.Errorf("keys: %+v", keys)
	}
}

// Coder rejects provisioners of a newer minor version. So they use the image of the Coder that
// answers and not the wanted one, which may never start.
func TestProvisionersFollowTheImageThatAnswers(t *testing.T) {
	const old, wanted = "registry.example.com/coder:v2.30.0", "registry.example.com/coder:v2.34.8"
	f := readyFixture(t)
	image := func() string { return f.Deployment().Spec.Template.Spec.Containers[0].Image }
	f.editControlPlane(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Image = wanted })
	f.Settle()
	if image() != old {
		t.Errorf("image %q during the update of the control plane, want %q", image(), old)
	}
	f.editControlPlane(func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.Image = wanted })
	f.Settle()
	if image() != wanted {
		t.Errorf("image %q after it, want %q", image(), wanted)
	}
	// An unknown image, for example after an update of the operator, changes nothing.
	f.editControlPlane(func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.Image = "" })
	f.Reconcile()
	if image() != wanted {
		t.Errorf("image %q without a known one, want %q", image(), wanted)
	}
}

// K16: without a license the pods follow the spec with the existing key.
func TestK16LossOfEntitlementStopsNoEdit(t *testing.T) {
	f := readyFixture(t)
	f.coder.SetFeature(feature, "not_entitled")
	f.Forward(time.Hour)
	f.Edit(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.Image = "registry.example.com/coder:v2.31.0" })
	f.Settle()
	if image := f.Deployment().Spec.Template.Spec.Containers[0].Image; image != "registry.example.com/coder:v2.31.0" {
		t.Errorf("image %q", image)
	}
	f.MustHave(coderv1alpha1.ConditionExternalProvisionersEntitled, metav1.ConditionFalse, coderv1alpha1.ReasonNotEntitled)
	f.MustHave(coderv1alpha1.ConditionProvisionerKeyReady, metav1.ConditionTrue, coderv1alpha1.ReasonProvisionerKeyReady)
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonNotEntitled)
	f.MustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonNotEntitled)
	if len(f.pods()) != 2 {
		t.Errorf("%d pods", len(f.pods()))
	}
}

func TestWithoutAControlPlaneThePodsGoOn(t *testing.T) {
	f := newFixture(t, newProvisioner())
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionControlPlaneReady, metav1.ConditionFalse, coderv1alpha1.ReasonControlPlaneUnavailable)
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonControlPlaneUnavailable)
	if f.Has("provisioner-gpu", &appsv1.Deployment{}) {
		t.Error("a Deployment without an address")
	}

	cp := newControlPlane()
	cp.Status.OperatorAccessReady = false
	f.Create(cp.DeepCopy())
	f.editControlPlane(func(c *coderv1alpha1.CoderControlPlane) { c.Status = cp.Status })
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionControlPlaneReady, metav1.ConditionFalse, coderv1alpha1.ReasonOperatorAccessNotReady)
	f.editControlPlane(func(c *coderv1alpha1.CoderControlPlane) { c.Status.OperatorAccessReady = true })
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)

	f.editControlPlane(func(c *coderv1alpha1.CoderControlPlane) { c.Spec.OperatorAccess.Disabled = true })
	f.coder.Asked()
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionControlPlaneReady, metav1.ConditionFalse, coderv1alpha1.ReasonOperatorAccessDisabled)
	f.Remove(newControlPlane())
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionControlPlaneReady, metav1.ConditionFalse, coderv1alpha1.ReasonControlPlaneUnavailable)
	if len(f.pods()) != 2 || f.coder.Asked() != 0 || f.keyNames() != "gpu" {
		t.Errorf("%d pods, keys %s", len(f.pods()), f.keyNames())
	}
}

func TestARefusedTokenIsToldToItsOwner(t *testing.T) {
	f := readyFixture(t)
	f.coder.RevokeToken(f.token)
	f.Forward(time.Hour)
	if result := f.Reconcile(); result.RequeueAfter > time.Minute {
		t.Errorf("it looks again after %v", result.RequeueAfter)
	}
	f.MustHave(coderv1alpha1.ConditionProvisionerKeyReady, metav1.ConditionFalse, coderv1alpha1.ReasonTokenRefused)
	if len(f.refused) != 1 || f.refused[0].Name != newControlPlane().Name {
		t.Errorf("told: %v", f.refused)
	}
	if len(f.pods()) != 2 {
		t.Errorf("%d pods", len(f.pods()))
	}
}

func TestTheAGPLBuildIsToldAndNotLoopedOn(t *testing.T) {
	f := newFixture(t, newProvisioner(), newControlPlane())
	f.coder = coderdtest.New(t)
	f.token = f.coder.AddUser("operator", "owner")
	if result := f.Settle(); result.RequeueAfter < time.Hour {
		t.Errorf("it looks again after %v", result.RequeueAfter)
	}
	f.MustHave(coderv1alpha1.ConditionExternalProvisionersEntitled, metav1.ConditionFalse, coderv1alpha1.ReasonNotSupported)
	f.MustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonNotSupported)
}

func TestDaemonsWithWhatTheSpecNamesNeedNoCoder(t *testing.T) {
	secret := func() *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"}, Data: map[string][]byte{"key": []byte("one"), "psk": []byte("two")},
		}
	}
	for what, change := range map[string]func(*coderv1alpha1.CoderProvisioner){
		coderv1alpha1.ReasonOwnKey: func(cr *coderv1alpha1.CoderProvisioner) {
			cr.Spec.Tags = nil
			cr.Spec.Key.SecretRef = &coderv1alpha1.ProvisionerKeySecretReference{Name: "mine"}
		},
		coderv1alpha1.ReasonPreSharedKey: func(cr *coderv1alpha1.CoderProvisioner) {
			cr.Spec.ControlPlaneRef, cr.Spec.URL = nil, "https://coder.example.com"
			cr.Spec.PSKSecretRef = &coderv1alpha1.PSKSecretReference{Name: "mine"}
		},
	} {
		f := newFixture(t, newProvisioner(change), newControlPlane())
		f.Settle()
		f.MustHave(coderv1alpha1.ConditionProvisionerKeySecretReady, metav1.ConditionFalse, coderv1alpha1.ReasonSecretMissing)
		f.Create(secret())
		f.Settle()
		f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
		f.MustHave(coderv1alpha1.ConditionProvisionerKeyReady, metav1.ConditionTrue, what)
		f.MustHave(coderv1alpha1.ConditionProvisionerKeySecretReady, metav1.ConditionTrue, coderv1alpha1.ReasonSecretReady)
		if asked := f.coder.Asked(); asked != 0 {
			t.Errorf("%s: Coder was asked %d times", what, asked)
		}
		if ref := f.Object().Status.SecretRef; ref == nil || ref.Name != "mine" {
			t.Errorf("%s: status.secretRef %+v", what, ref)
		}

		// A changed content rolls the pods.
		before := f.Deployment().Spec.Template.Annotations[coderv1alpha1.AnnotationConfigChecksum]
		changed := secret()
		changed.Data["key"], changed.Data["psk"] = []byte("three"), []byte("four")
		f.Update(changed)
		f.Settle()
		if after := f.Deployment().Spec.Template.Annotations[coderv1alpha1.AnnotationConfigChecksum]; after == before {
			t.Errorf("%s: the pods keep the old content", what)
		}
	}
}

// When the spec names its own key, first the pods change and then the generated key is deleted.
func TestTheGeneratedKeyGoesWhenItIsNotUsedAnyMore(t *testing.T) {
	f := readyFixture(t)
	f.Must(f.Cluster.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"}, Data: map[string][]byte{"key": []byte("one")},
	}))
	f.slow = true
	f.Edit(func(cr *coderv1alpha1.CoderProvisioner) {
		cr.Spec.Tags, cr.Spec.Key.SecretRef = nil, &coderv1alpha1.ProvisionerKeySecretReference{Name: "mine"}
	})
	f.Settle()
	if f.keyNames() != "gpu" {
		t.Fatalf("keys while old pods run: %q", f.keyNames())
	}
	f.slow = false
	f.Settle()
	if f.keyNames() != "" || f.Has("gpu-provisioner-key", &corev1.Secret{}) {
		t.Errorf("keys: %q, or the Secret is left", f.keyNames())
	}
	if status := f.Object().Status; status.ProvisionerKeyID != "" || status.OrganizationID != "" {
		t.Errorf("status %+v", status)
	}
	f.Edit(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.Key.SecretRef = nil })
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	if f.keyNames() != "gpu" {
		t.Errorf("keys: %q", f.keyNames())
	}
}

// The key would be deleted with the Secret that the daemons now read.
func TestTheGeneratedSecretIsNoOwnKey(t *testing.T) {
	f := readyFixture(t)
	f.Edit(func(cr *coderv1alpha1.CoderProvisioner) {
		cr.Spec.Tags, cr.Spec.Key.SecretRef = nil, &coderv1alpha1.ProvisionerKeySecretReference{Name: "gpu-provisioner-key"}
	})
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionProvisionerKeySecretReady, metav1.ConditionFalse, coderv1alpha1.ReasonInvalidSpec)
	f.MustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonInvalidSpec)
	if f.keyNames() != "gpu" || !f.Has("gpu-provisioner-key", &corev1.Secret{}) {
		t.Errorf("keys %q, or the Secret is gone", f.keyNames())
	}
}

func TestAPreSharedKeyIsForTheDefaultOrganization(t *testing.T) {
	f := newFixture(t, newControlPlane(), newProvisioner(func(cr *coderv1alpha1.CoderProvisioner) {
		cr.Spec.PSKSecretRef, cr.Spec.OrganizationName = &coderv1alpha1.PSKSecretReference{Name: "mine"}, "sales"
	}))
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonOrganizationNotSelectable)
	if f.Has("provisioner-gpu", &appsv1.Deployment{}) {
		t.Error("daemons for another organization than the one that was asked for")
	}
}

func TestWhatIsSomeoneElsesIsNotTouched(t *testing.T) {
	theirs := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "provisioner-gpu"}}
	f := newFixture(t, newProvisioner(), newControlPlane(), theirs)
	for range 3 {
		f.Reconcile()
	}
	f.MustHave(coderv1alpha1.ConditionResourcesApplied, metav1.ConditionFalse, coderv1alpha1.ReasonNotOwned)
	f.MustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonNotOwned)
	d := f.Deployment()
	if len(d.OwnerReferences) != 0 || len(d.Labels) != 0 {
		t.Errorf("it was touched: %+v", d.ObjectMeta)
	}
}

// If pods are not ready, a key that Coder no longer knows is noticed within a minute.
func TestUnwellPodsMakeItAskEarlier(t *testing.T) {
	f := readyFixture(t)
	f.coder.RemoveProvisionerKey("coder", "gpu")
	d := f.Deployment()
	d.Status.ReadyReplicas, d.Status.AvailableReplicas = 0, 0
	f.UpdateStatus(d)
	f.Forward(time.Minute)
	f.Reconcile()
	f.Settle()
	if f.keyNames() != "gpu" {
		t.Errorf("keys: %q", f.keyNames())
	}
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
}

// An operator that has a new default must not replace the pods of an earlier version.
func TestRunningPodsGetNoNewDefault(t *testing.T) {
	f := readyFixture(t)
	d := f.Deployment()
	d.Spec.Template.Spec.Containers[0].SecurityContext.Capabilities = nil
	f.Update(d)
	f.restart()
	f.Settle()
	if got := f.Deployment().Spec.Template.Spec.Containers[0].SecurityContext.Capabilities; got != nil {
		t.Errorf("the running pods got the capabilities %+v", got)
	}
}

// A token in a Secret often ends with the newline of the file that it comes from.
func TestTheNewlineAfterAGivenTokenIsNoPartOfIt(t *testing.T) {
	f := newFixture(t, newProvisioner(), newControlPlane())
	f.Update(controllertest.Secret(namespace, "coder-operator-token", map[string]string{"token": f.token + "\n"}))
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
}

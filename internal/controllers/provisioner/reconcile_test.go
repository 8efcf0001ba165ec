package provisioner

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/kube/conditions"
)

func TestAProvisionerComesUpAndRests(t *testing.T) {
	f := readyFixture(t)
	cr, d := f.provisioner(), f.deployment()
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
		if c := conditions.Find(status.Conditions, kind); c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != cr.Generation {
			t.Errorf("%s is %+v", kind, c)
		}
	}
	f.get("gpu-provisioner", &corev1.ServiceAccount{})
	f.get("provisioner-gpu", &rbacv1.Role{})
	f.get("provisioner-gpu", &rbacv1.RoleBinding{})
	f.mustNotLeak()

	f.asked()
	f.forward(30 * time.Minute)
	if result := f.reconcile(); result.RequeueAfter < 29*time.Minute || result.RequeueAfter > time.Hour {
		t.Errorf("it looks again after %v", result.RequeueAfter)
	}
	if writes, asked := f.takeWrites(), f.asked(); len(writes) > 0 || asked > 0 {
		t.Errorf("at rest: writes %q, %d requests", writes, asked)
	}
}

// The pods are rolled once for a new key, and not again for its checksum.
func TestANewKeyRollsThePodsOnce(t *testing.T) {
	f := readyFixture(t)
	f.edit(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.Tags = nil })
	secret := &corev1.Secret{}
	f.get("gpu-provisioner-key", secret)
	f.behind[secret.Name] = secret.ResourceVersion
	applies := 0
	for pass := range 8 {
		if pass == 2 {
			delete(f.behind, secret.Name)
		}
		f.reconcile()
		for _, write := range f.takeWrites() {
			if strings.HasPrefix(write, "apply") && strings.Contains(write, "provisioner-gpu") {
				applies++
			}
		}
		f.roll()
		f.takeWrites()
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
	f.edit(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.Tags = map[string]string{"zone": "b"} })
	f.settle()
	if f.keyNames() != "gpu gpu-2" {
		t.Fatalf("keys while old pods run: %s", f.keyNames())
	}
	key := f.mustHave(coderv1alpha1.ConditionProvisionerKeyReady, metav1.ConditionTrue, coderv1alpha1.ReasonProvisionerKeyReady)
	if !strings.Contains(key.Message, `"gpu" is deleted when no pod holds it`) {
		t.Errorf("message %q", key.Message)
	}
	f.slow = false
	f.settle()
	if f.keyNames() != "gpu-2" {
		t.Errorf("keys: %s", f.keyNames())
	}
	if f.events.count("Normal ProvisionerKeyRotated") != 1 || f.events.count("Normal ProvisionerKeyDeleted") != 1 {
		t.Errorf("Events: %q", f.events.all())
	}
}

// K14: a Deployment whose controller has not observed the new revision may still create a pod of
// the old one.
func TestK14RotationWaitsForTheDeploymentController(t *testing.T) {
	f := readyFixture(t)
	f.edit(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.Tags = nil })
	f.reconcile()
	d := f.deployment()
	d.Generation = 7
	f.must(f.cluster.Update(t.Context(), d))
	for _, pod := range f.pods() {
		f.must(f.cluster.Delete(t.Context(), &pod))
	}
	f.reconcile()
	if f.keyNames() != "gpu gpu-2" {
		t.Fatalf("keys: %s", f.keyNames())
	}
	f.settle()
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
		if _, err := f.try("other"); err != nil {
			t.Fatal(err)
		}
	}
	if asked := f.asked(); asked != 0 {
		t.Errorf("the younger one asks Coder %d times", asked)
	}
	refused := f.mustHave(coderv1alpha1.ConditionProvisionerKeyReady, metav1.ConditionFalse, coderv1alpha1.ReasonDuplicateKeyName, "other")
	f.mustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonDuplicateKeyName, "other")
	if !strings.Contains(refused.Message, `"gpu"`) || !strings.Contains(refused.Message, "spec.key.name") {
		t.Errorf("message %q", refused.Message)
	}
	f.settle()
	first := f.coder.ProvisionerKeys("coder")[0].ID
	if _, err := f.try("other"); err != nil {
		t.Fatal(err)
	}
	if keys := f.coder.ProvisionerKeys("coder"); len(keys) != 1 || keys[0].ID != first {
		t.Fatalf("keys: %+v", keys)
	}
	if got := f.r.siblings(t.Context(), f.provisioner()); len(got) != 1 || got[0].Name != "other" {
		t.Errorf("the end of the older one is told to %v", got)
	}

	// The older one is deleted, and the younger one takes over.
	f.must(f.cluster.Delete(t.Context(), f.provisioner()))
	f.reconcile()
	f.roll()
	f.reconcile()
	if f.find(name, &coderv1alpha1.CoderProvisioner{}) {
		t.Fatal("the older one is still there")
	}
	if _, err := f.try("other"); err != nil {
		t.Fatal(err)
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
	image := func() string { return f.deployment().Spec.Template.Spec.Containers[0].Image }
	f.editControlPlane(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Image = wanted })
	f.settle()
	if image() != old {
		t.Errorf("image %q during the update of the control plane, want %q", image(), old)
	}
	f.editControlPlane(func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.Image = wanted })
	f.settle()
	if image() != wanted {
		t.Errorf("image %q after it, want %q", image(), wanted)
	}
	// An unknown image, for example after an update of the operator, changes nothing.
	f.editControlPlane(func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.Image = "" })
	f.reconcile()
	if image() != wanted {
		t.Errorf("image %q without a known one, want %q", image(), wanted)
	}
}

// K16: without a license the pods follow the spec with the existing key.
func TestK16LossOfEntitlementStopsNoEdit(t *testing.T) {
	f := readyFixture(t)
	f.coder.SetFeature(feature, "not_entitled")
	f.forward(time.Hour)
	f.edit(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.Image = "registry.example.com/coder:v2.31.0" })
	f.settle()
	if image := f.deployment().Spec.Template.Spec.Containers[0].Image; image != "registry.example.com/coder:v2.31.0" {
		t.Errorf("image %q", image)
	}
	f.mustHave(coderv1alpha1.ConditionExternalProvisionersEntitled, metav1.ConditionFalse, coderv1alpha1.ReasonNotEntitled)
	f.mustHave(coderv1alpha1.ConditionProvisionerKeyReady, metav1.ConditionTrue, coderv1alpha1.ReasonProvisionerKeyReady)
	f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonNotEntitled)
	f.mustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonNotEntitled)
	if len(f.pods()) != 2 {
		t.Errorf("%d pods", len(f.pods()))
	}
}

func TestWithoutAControlPlaneThePodsGoOn(t *testing.T) {
	f := newFixture(t, newProvisioner())
	f.settle()
	f.mustHave(coderv1alpha1.ConditionControlPlaneReady, metav1.ConditionFalse, coderv1alpha1.ReasonControlPlaneUnavailable)
	f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonControlPlaneUnavailable)
	if f.find("provisioner-gpu", &appsv1.Deployment{}) {
		t.Error("a Deployment without an address")
	}

	cp := newControlPlane()
	cp.Status.OperatorAccessReady = false
	f.must(f.cluster.Create(t.Context(), cp.DeepCopy()))
	f.editControlPlane(func(c *coderv1alpha1.CoderControlPlane) { c.Status = cp.Status })
	f.settle()
	f.mustHave(coderv1alpha1.ConditionControlPlaneReady, metav1.ConditionFalse, coderv1alpha1.ReasonOperatorAccessNotReady)
	f.editControlPlane(func(c *coderv1alpha1.CoderControlPlane) { c.Status.OperatorAccessReady = true })
	f.settle()
	f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)

	f.editControlPlane(func(c *coderv1alpha1.CoderControlPlane) { c.Spec.OperatorAccess.Disabled = true })
	f.asked()
	f.settle()
	f.mustHave(coderv1alpha1.ConditionControlPlaneReady, metav1.ConditionFalse, coderv1alpha1.ReasonOperatorAccessDisabled)
	f.must(f.cluster.Delete(t.Context(), newControlPlane()))
	f.settle()
	f.mustHave(coderv1alpha1.ConditionControlPlaneReady, metav1.ConditionFalse, coderv1alpha1.ReasonControlPlaneUnavailable)
	if len(f.pods()) != 2 || f.asked() != 0 || f.keyNames() != "gpu" {
		t.Errorf("%d pods, keys %s", len(f.pods()), f.keyNames())
	}
}

func TestARefusedTokenIsToldToItsOwner(t *testing.T) {
	f := readyFixture(t)
	f.coder.RevokeToken(f.token)
	f.forward(time.Hour)
	if result := f.reconcile(); result.RequeueAfter > time.Minute {
		t.Errorf("it looks again after %v", result.RequeueAfter)
	}
	f.mustHave(coderv1alpha1.ConditionProvisionerKeyReady, metav1.ConditionFalse, coderv1alpha1.ReasonTokenRefused)
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
	if result := f.settle(); result.RequeueAfter < time.Hour {
		t.Errorf("it looks again after %v", result.RequeueAfter)
	}
	f.mustHave(coderv1alpha1.ConditionExternalProvisionersEntitled, metav1.ConditionFalse, coderv1alpha1.ReasonNotSupported)
	f.mustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonNotSupported)
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
		f.settle()
		f.mustHave(coderv1alpha1.ConditionProvisionerKeySecretReady, metav1.ConditionFalse, coderv1alpha1.ReasonSecretMissing)
		f.must(f.cluster.Create(t.Context(), secret()))
		f.settle()
		f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
		f.mustHave(coderv1alpha1.ConditionProvisionerKeyReady, metav1.ConditionTrue, what)
		f.mustHave(coderv1alpha1.ConditionProvisionerKeySecretReady, metav1.ConditionTrue, coderv1alpha1.ReasonSecretReady)
		if asked := f.asked(); asked != 0 {
			t.Errorf("%s: Coder was asked %d times", what, asked)
		}
		if ref := f.provisioner().Status.SecretRef; ref == nil || ref.Name != "mine" {
			t.Errorf("%s: status.secretRef %+v", what, ref)
		}

		// A changed content rolls the pods.
		before := f.deployment().Spec.Template.Annotations[coderv1alpha1.AnnotationConfigChecksum]
		changed := secret()
		changed.Data["key"], changed.Data["psk"] = []byte("three"), []byte("four")
		f.must(f.cluster.Update(t.Context(), changed))
		f.settle()
		if after := f.deployment().Spec.Template.Annotations[coderv1alpha1.AnnotationConfigChecksum]; after == before {
			t.Errorf("%s: the pods keep the old content", what)
		}
	}
}

// When the spec names its own key, first the pods change and then the generated key is deleted.
func TestTheGeneratedKeyGoesWhenItIsNotUsedAnyMore(t *testing.T) {
	f := readyFixture(t)
	f.must(f.cluster.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"}, Data: map[string][]byte{"key": []byte("one")},
	}))
	f.slow = true
	f.edit(func(cr *coderv1alpha1.CoderProvisioner) {
		cr.Spec.Tags, cr.Spec.Key.SecretRef = nil, &coderv1alpha1.ProvisionerKeySecretReference{Name: "mine"}
	})
	f.settle()
	if f.keyNames() != "gpu" {
		t.Fatalf("keys while old pods run: %q", f.keyNames())
	}
	f.slow = false
	f.settle()
	if f.keyNames() != "" || f.find("gpu-provisioner-key", &corev1.Secret{}) {
		t.Errorf("keys: %q, or the Secret is left", f.keyNames())
	}
	if status := f.provisioner().Status; status.ProvisionerKeyID != "" || status.OrganizationID != "" {
		t.Errorf("status %+v", status)
	}
	f.edit(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.Key.SecretRef = nil })
	f.settle()
	f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	if f.keyNames() != "gpu" {
		t.Errorf("keys: %q", f.keyNames())
	}
}

// The key would be deleted with the Secret that the daemons now read.
func TestTheGeneratedSecretIsNoOwnKey(t *testing.T) {
	f := readyFixture(t)
	f.edit(func(cr *coderv1alpha1.CoderProvisioner) {
		cr.Spec.Tags, cr.Spec.Key.SecretRef = nil, &coderv1alpha1.ProvisionerKeySecretReference{Name: "gpu-provisioner-key"}
	})
	f.settle()
	f.mustHave(coderv1alpha1.ConditionProvisionerKeySecretReady, metav1.ConditionFalse, coderv1alpha1.ReasonInvalidSpec)
	f.mustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonInvalidSpec)
	if f.keyNames() != "gpu" || !f.find("gpu-provisioner-key", &corev1.Secret{}) {
		t.Errorf("keys %q, or the Secret is gone", f.keyNames())
	}
}

func TestAPreSharedKeyIsForTheDefaultOrganization(t *testing.T) {
	f := newFixture(t, newControlPlane(), newProvisioner(func(cr *coderv1alpha1.CoderProvisioner) {
		cr.Spec.PSKSecretRef, cr.Spec.OrganizationName = &coderv1alpha1.PSKSecretReference{Name: "mine"}, "sales"
	}))
	f.settle()
	f.mustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonOrganizationNotSelectable)
	if f.find("provisioner-gpu", &appsv1.Deployment{}) {
		t.Error("daemons for another organization than the one that was asked for")
	}
}

func TestWhatIsSomeoneElsesIsNotTouched(t *testing.T) {
	theirs := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "provisioner-gpu"}}
	f := newFixture(t, newProvisioner(), newControlPlane(), theirs)
	for range 3 {
		f.reconcile()
	}
	f.mustHave(coderv1alpha1.ConditionResourcesApplied, metav1.ConditionFalse, coderv1alpha1.ReasonNotOwned)
	f.mustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonNotOwned)
	d := f.deployment()
	if len(d.OwnerReferences) != 0 || len(d.Labels) != 0 {
		t.Errorf("it was touched: %+v", d.ObjectMeta)
	}
}

// If pods are not ready, a key that Coder no longer knows is noticed within a minute.
func TestUnwellPodsMakeItAskEarlier(t *testing.T) {
	f := readyFixture(t)
	f.coder.RemoveProvisionerKey("coder", "gpu")
	d := f.deployment()
	d.Status.ReadyReplicas, d.Status.AvailableReplicas = 0, 0
	f.must(f.cluster.SubResource("status").Update(t.Context(), d))
	f.forward(time.Minute)
	f.reconcile()
	f.settle()
	if f.keyNames() != "gpu" {
		t.Errorf("keys: %q", f.keyNames())
	}
	f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
}

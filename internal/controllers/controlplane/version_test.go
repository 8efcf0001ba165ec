package controlplane

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
)

const (
	image230 = "ghcr.io/coder/coder:v2.30.0"
	image236 = "ghcr.io/coder/coder:v2.36.0"
	// imageMissing cannot be pulled.
	imageMissing = "ghcr.io/coder/coder:v2.99.0"
)

// wants changes the image in the spec.
func (f *fixture) wants(image string) {
	f.T.Helper()
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Image = image })
}

// upgraded returns the fixture after an upgrade from 2.30 to 2.36.
func upgraded(t *testing.T, changes ...func(*coderv1alpha1.CoderControlPlane)) *fixture {
	t.Helper()
	f := readyFixture(t, changes...)
	f.wants(image236)
	f.Reconcile()
	f.PodsReady(0)
	f.Reconcile()
	f.withWorld()
	f.Settle()
	f.World = nil
	if got := f.Object().Status; got.Version != string(coderdtest.Release236) || got.Image != image236 {
		t.Fatalf("after the upgrade the status is %+v", got)
	}
	return f
}

// mustRun checks the image and the strategy of the Deployment.
func (f *fixture) mustRun(when, image string, strategy appsv1.DeploymentStrategyType) {
	f.T.Helper()
	d := f.Deployment()
	if got := d.Spec.Template.Spec.Containers[0].Image; got != image || d.Spec.Strategy.Type != strategy {
		f.T.Errorf("%s the pods have the image %s with the strategy %s, want %s and %s", when, got, d.Spec.Strategy.Type, image, strategy)
	}
}

// The strategy decides about a patch, and never about a new minor version.
func TestOrderOfPods(t *testing.T) {
	f := readyFixture(t)
	f.mustRun("at first", image230, appsv1.RollingUpdateDeploymentStrategyType)
	f.wants("ghcr.io/coder/coder:v2.30.9")
	f.Settle()
	f.mustRun("for a patch", "ghcr.io/coder/coder:v2.30.9", appsv1.RollingUpdateDeploymentStrategyType)

	if u := f.Object().Status.Upgrade; u != nil {
		t.Errorf("a patch is an upgrade in phases: %+v", u)
	}

	explicit := readyFixture(t, func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.Deployment.Strategy = &coderv1alpha1.DeploymentStrategy{Type: "RollingUpdate"}
	})
	explicit.wants(image236)
	explicit.Reconcile()
	explicit.mustBeIn(coderv1alpha1.UpgradeChecking)
	explicit.mustRun("with a strategy in the spec", image230, appsv1.RollingUpdateDeploymentStrategyType)
}

func TestADowngradeIsRefused(t *testing.T) {
	f := upgraded(t)
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.Image = image230
		cp.Spec.NodeSelector = map[string]string{"pool": "system"}
	})
	f.Settle()
	f.mustRun("after a refused downgrade", image236, appsv1.RollingUpdateDeploymentStrategyType)
	if f.Deployment().Spec.Template.Spec.NodeSelector["pool"] != "system" {
		t.Error("the other changes of the spec are not applied")
	}
	refused := f.MustHave(coderv1alpha1.ConditionVersionAllowed, metav1.ConditionFalse, coderv1alpha1.ReasonDowngrade)
	for _, part := range []string{image230, string(coderdtest.Release236), `coder.com/allow-version: "v2.30.0"`} {
		if !strings.Contains(refused.Message, part) {
			t.Errorf("message %q does not contain %q", refused.Message, part)
		}
	}
	f.MustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonDowngrade)
	f.MustHave(coderv1alpha1.ConditionCoderReachable, metav1.ConditionTrue, coderv1alpha1.ReasonReachable)
	f.MustBe("after a refused downgrade", controllertest.KstatusFailed)
	if f.Events.Count("Warning Downgrade") != 1 {
		t.Errorf("Events: %q", f.Events.All())
	}
	// A Coder that does not respond, and a restart of the operator, change nothing.
	f.PodsReady(0)
	f.restart()
	f.Settle()
	f.mustRun("while Coder is down", image236, appsv1.RollingUpdateDeploymentStrategyType)

	f.withWorld()
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Annotations = map[string]string{coderv1alpha1.AnnotationAllowVersion: "2.30.0"}
	})
	f.Settle()
	f.mustRun("after the annotation", image230, appsv1.RollingUpdateDeploymentStrategyType)
	f.mustBeIn(coderv1alpha1.UpgradeCompleted)
	f.MustNotHave(coderv1alpha1.ConditionVersionAllowed)
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	if got := f.Object().Status.Version; got != string(coderdtest.Release230) {
		t.Errorf("status.version is %q", got)
	}
}

func TestSettingTheImageBackEndsTheRefusal(t *testing.T) {
	f := upgraded(t)
	f.wants("ghcr.io/coder/coder@sha256:aa")
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionVersionAllowed, metav1.ConditionFalse, coderv1alpha1.ReasonVersionUnknown)
	f.mustRun("with a digest", image236, appsv1.RollingUpdateDeploymentStrategyType)
	f.wants(image236)
	f.Settle()
	f.MustNotHave(coderv1alpha1.ConditionVersionAllowed)
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
}

// The pods of the new version never answered, so there is no proof that the schema changed.
func TestAnUpgradeThatNeverAnsweredCanBeTakenBack(t *testing.T) {
	f := readyFixture(t)
	u := f.withWorld()
	u.broken = "ghcr.io/coder/coder:v2.99.0"
	f.wants(u.broken)
	f.Settle()
	f.mustBeIn(coderv1alpha1.UpgradeMigrating)
	f.World = nil
	f.wants(image230)
	f.Reconcile()
	f.mustRun("after the image was set back", image230, appsv1.RecreateDeploymentStrategyType)
	f.PodsReady(1)
	f.Settle()
	f.mustRun("at the end", image230, appsv1.RollingUpdateDeploymentStrategyType)
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
}

// Before a Coder has answered, any image is allowed.
func TestAFirstInstallationCanGetAnyImage(t *testing.T) {
	f := newFixture(t, newControlPlane(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Image = "ghcr.io/coder/coder@sha256:aa" }), databaseSecret())
	f.Settle()
	f.PodsReady(0)
	for _, image := range []string{image236, image230, "ghcr.io/coder/coder:latest"} {
		f.wants(image)
		f.Settle()
		f.mustRun("before an answer", image, appsv1.RecreateDeploymentStrategyType)
		f.MustNotHave(coderv1alpha1.ConditionVersionAllowed)
	}
}

// If somebody else rolls the pods, both versions answer. The newer one has migrated the database.
func TestTheVersionDoesNotGoBackWhileTwoRun(t *testing.T) {
	f := upgraded(t, func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.Deployment.Strategy = &coderv1alpha1.DeploymentStrategy{Type: "RollingUpdate"}
	})
	d := f.Deployment()
	d.Status.Replicas = 2
	f.UpdateStatus(d)
	f.coder.SetRelease(coderdtest.Release230)
	f.restart()
	f.Reconcile()
	if got := f.Object().Status.Version; got != string(coderdtest.Release236) {
		t.Errorf("status.version is %q", got)
	}
	f.wants(image230)
	f.Reconcile()
	f.MustHave(coderv1alpha1.ConditionVersionAllowed, metav1.ConditionFalse, coderv1alpha1.ReasonDowngrade)
}

// A Deployment that was taken over runs a Coder that was not asked yet. Its pods stay until it was.
func TestAnAdoptedDeploymentIsAskedFirst(t *testing.T) {
	f := readyFixture(t)
	cp := f.Object()
	cp.Status = coderv1alpha1.CoderControlPlaneStatus{}
	f.UpdateStatus(cp)
	d := f.Deployment()
	d.Spec.Template.Spec.Containers[0].Image = "ghcr.io/coder/coder@sha256:aa"
	f.Update(d)
	f.restart()

	result := f.Reconcile()
	f.mustRun("before Coder was asked", "ghcr.io/coder/coder@sha256:aa", appsv1.RollingUpdateDeploymentStrategyType)
	f.MustHave(coderv1alpha1.ConditionVersionAllowed, metav1.ConditionFalse, coderv1alpha1.ReasonVersionUnknown)
	f.MustNotHave(coderv1alpha1.ConditionStalled)
	if result.RequeueAfter == 0 {
		t.Error("nobody looks again")
	}
	f.Settle()
	f.mustRun("afterwards", image230, appsv1.RollingUpdateDeploymentStrategyType)
	f.MustNotHave(coderv1alpha1.ConditionVersionAllowed)
}

// The operator was away while the new version became ready and migrated the database.
func TestADowngradeIsRefusedIfNobodySawTheUpgrade(t *testing.T) {
	f := upgraded(t)
	cp := f.Object()
	cp.Status.Upgrade, cp.Status.Image, cp.Status.Version = nil, image230, string(coderdtest.Release230)
	f.UpdateStatus(cp)
	f.wants(image230)
	f.restart()
	f.Reconcile()
	f.mustRun("before Coder was asked", image236, appsv1.RollingUpdateDeploymentStrategyType)
	f.MustHave(coderv1alpha1.ConditionVersionAllowed, metav1.ConditionFalse, coderv1alpha1.ReasonDowngrade)
	f.MustNotHave(coderv1alpha1.ConditionStalled)
	f.Settle()
	f.mustRun("afterwards", image236, appsv1.RollingUpdateDeploymentStrategyType)
	f.MustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonDowngrade)
}

// The image of spec.podTemplate is the one that the pods get, so it is the one that is checked.
func TestTheImageOfThePodTemplateIsChecked(t *testing.T) {
	f := upgraded(t)
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.PodTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "coder", Image: image230}}}}
	})
	f.Settle()
	f.mustRun("after a refused downgrade", image236, appsv1.RollingUpdateDeploymentStrategyType)
	f.MustHave(coderv1alpha1.ConditionVersionAllowed, metav1.ConditionFalse, coderv1alpha1.ReasonDowngrade)
}

func TestADatabaseOfANewerCoder(t *testing.T) {
	f := newFixture(t, newControlPlane(), databaseSecret())
	f.Reconcile()
	f.PodsReady(0)
	f.addPod("1", crashedContainer(1, "Error", "error: connect to postgres: connect to postgres: migrate up: up: 1 error occurred:\n\t* no migration found for version 556: read down for version 556 .: file does not exist\n\n"))
	f.Settle()
	condition := f.MustHave(coderv1alpha1.ConditionDeploymentAvailable, metav1.ConditionFalse, coderv1alpha1.ReasonDatabaseSchemaNewer)
	for _, part := range []string{"migration 556", "set the image to the version of that Coder or a newer one", "restore a backup"} {
		if !strings.Contains(condition.Message, part) {
			t.Errorf("message %q does not contain %q", condition.Message, part)
		}
	}
	f.MustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonDatabaseSchemaNewer)
}

// A Coder of any version works, and the condition says what to expect of it.
func TestVersionSupported(t *testing.T) {
	for version, want := range map[string]struct {
		status metav1.ConditionStatus
		reason string
	}{
		string(coderdtest.Release230): {metav1.ConditionTrue, coderv1alpha1.ReasonSupported},
		"v2.20.0":                     {metav1.ConditionFalse, coderv1alpha1.ReasonOlderVersion},
		"v2.99.0+1234567":             {metav1.ConditionFalse, coderv1alpha1.ReasonNewerVersion},
		"v2.37.0-devel+1234567":       {metav1.ConditionUnknown, coderv1alpha1.ReasonVersionUnknown},
		"main":                        {metav1.ConditionUnknown, coderv1alpha1.ReasonVersionUnknown},
	} {
		t.Run(version, func(t *testing.T) {
			f := newFixture(t, newControlPlane(), databaseSecret())
			f.Reconcile()
			f.MustNotHave(coderv1alpha1.ConditionVersionSupported)
			f.coder.SetRelease(coderdtest.Release(version))
			f.live()
			if c := f.MustHave(coderv1alpha1.ConditionVersionSupported, want.status, want.reason); !strings.Contains(c.Message, version) {
				t.Errorf("message: %s", c.Message)
			}
			f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
			if n := f.Events.Count("Warning " + want.reason); (n == 1) != (want.status == metav1.ConditionFalse) || n > 1 {
				t.Errorf("Events: %q", f.Events.All())
			}
		})
	}
}

// A version that does not come from the pods is the one that counts, because its sender answers the
// other requests too. The message names both.
func TestTheVersionOfAProxy(t *testing.T) {
	f := upgraded(t)
	f.coder.SetRelease(coderdtest.Release230)
	f.restart()
	f.Settle()
	c := f.MustHave(coderv1alpha1.ConditionVersionSupported, metav1.ConditionTrue, coderv1alpha1.ReasonSupported)
	for _, part := range []string{string(coderdtest.Release230), "the pods have the image v2.36.0", "http://coder.coder.svc"} {
		if !strings.Contains(c.Message, part) {
			t.Errorf("message %q does not contain %q", c.Message, part)
		}
	}
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
}

// The tag of the image is all that the operator knows about a Coder that the operator does not call.
func TestVersionSupportedWithoutAccess(t *testing.T) {
	f := readyFixture(t, func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.Image, cp.Spec.OperatorAccess.Disabled = "ghcr.io/coder/coder@sha256:aa", true
	})
	f.MustHave(coderv1alpha1.ConditionVersionSupported, metav1.ConditionUnknown, coderv1alpha1.ReasonVersionUnknown)
}

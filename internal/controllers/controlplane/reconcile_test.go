package controlplane

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

func TestFromApplyToReady(t *testing.T) {
	f := newFixture(t, newControlPlane(), databaseSecret())

	f.Settle()
	f.MustHave(coderv1alpha1.ConditionResourcesApplied, metav1.ConditionTrue, coderv1alpha1.ReasonApplied)
	f.MustHave(coderv1alpha1.ConditionWorkspaceAccess, metav1.ConditionTrue, coderv1alpha1.ReasonGranted)
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonProgressing)
	f.MustHave(coderv1alpha1.ConditionReconciling, metav1.ConditionTrue, coderv1alpha1.ReasonProgressing)

	f.PodsReady(1)
	result := f.Settle()

	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	f.MustHave(coderv1alpha1.ConditionServed, metav1.ConditionTrue, coderv1alpha1.ReasonServed)
	status := f.Object().Status
	if meta.FindStatusCondition(status.Conditions, coderv1alpha1.ConditionReconciling) != nil {
		t.Error("Reconciling is present although everything is Ready")
	}
	if status.URL != "http://coder.coder.svc.cluster.local:80" || status.Version == "" || status.Phase != coderv1alpha1.PhaseReady ||
		status.ReadyReplicas != 1 || !status.OperatorAccessReady || status.OperatorTokenSecretRef == nil ||
		status.OperatorTokenExpiresAt == nil || ptr.Deref(status.ObjectNamePrefix, "unset") != "" {
		t.Errorf("status is %+v", status)
	}
	if result.RequeueAfter == 0 || result.RequeueAfter > time.Hour {
		t.Errorf("a working Coder is looked at again after %v, want at most an hour", result.RequeueAfter)
	}
	f.Get("coder-initial-admin", &corev1.Secret{})
	// A condition that is true from the beginning gets no Event.
	for reason, want := range map[string]int{"Normal Ready": 1, "Normal TokenMinted": 1, "Normal Available": 0, "Normal Applied": 0} {
		if f.Events.Count(reason) != want {
			t.Errorf("%d Events %q, want %d of %q", f.Events.Count(reason), reason, want, f.Events.All())
		}
	}
	f.mustNotLeak()
}

// settle checks that a pass writes nothing. This test checks restarts and requests to Coder.
func TestAPassThatChangesNothingIsQuiet(t *testing.T) {
	f := newFixture(t, newControlPlane(), databaseSecret())
	f.Settle()
	f.PodsReady(1)
	f.Settle()
	events, before := len(f.Events.All()), f.Object()
	f.coder.ResetRequests()

	for range 3 {
		f.Forward(19 * time.Minute)
		f.Reconcile()
	}

	if writes := f.TakeWrites(); len(writes) > 0 {
		t.Errorf("writes: %q", writes)
	}
	for request := range f.coder.Requests() {
		t.Errorf("request to Coder: %s", request)
	}
	if len(f.Events.All()) != events {
		t.Errorf("new Events: %q", f.Events.All()[events:])
	}

	f.restart()
	f.Reconcile()
	if diff := cmp.Diff(before.Status, f.Object().Status); diff != "" {
		t.Errorf("a new process changed the status:\n%s", diff)
	}
}

func TestChildrenOfOthersAreNotTouched(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "coder", Namespace: "coder"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "theirs"}}}
	f := newFixture(t, newControlPlane(), databaseSecret(), service)
	before := &corev1.Service{}
	f.Get("coder", before)

	f.Settle()
	f.PodsReady(1)
	result := f.Settle()

	condition := f.MustHave(coderv1alpha1.ConditionResourcesApplied, metav1.ConditionFalse, coderv1alpha1.ReasonNotOwned)
	if !strings.Contains(condition.Message, `Service "coder"`) {
		t.Errorf("message %q does not name the Service", condition.Message)
	}
	f.MustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonNotOwned)
	f.MustHave(coderv1alpha1.ConditionDeploymentAvailable, metav1.ConditionTrue, coderv1alpha1.ReasonAvailable)
	f.MustHave(coderv1alpha1.ConditionCoderReachable, metav1.ConditionUnknown, coderv1alpha1.ReasonNotChecked)
	after := &corev1.Service{}
	f.Get("coder", after)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the Service of someone else was touched:\n%s", diff)
	}
	if requests := f.coder.Requests(); len(requests) > 0 {
		t.Errorf("something was sent to a Service of someone else: %v", requests)
	}
	if url := f.Object().Status.URL; url != "" {
		t.Errorf("status.url is %q and leads to a Service of someone else", url)
	}
	if f.Events.Count("Warning NotOwned") != 1 {
		t.Errorf("Events: %q", f.Events.All())
	}
	if result.RequeueAfter == 0 {
		t.Error("nobody looks again, and no watch tells when the Service is gone")
	}

	f.Remove(after)
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
}

func TestBadNamesStall(t *testing.T) {
	f := newFixture(t, newControlPlane(func(cp *coderv1alpha1.CoderControlPlane) { cp.Name = "my.coder" }))
	if _, err := f.Try("my.coder"); err != nil {
		t.Fatal(err)
	}
	for _, write := range f.TakeWrites() {
		if !strings.HasPrefix(write, "patch status") {
			t.Errorf("write: %s", write)
		}
	}
	cp := &coderv1alpha1.CoderControlPlane{}
	f.Get("my.coder", cp)
	stalled := meta.FindStatusCondition(cp.Status.Conditions, coderv1alpha1.ConditionStalled)
	if stalled == nil || stalled.Reason != coderv1alpha1.ReasonInvalidName || cp.Status.URL != "" {
		t.Errorf("status is %+v", cp.Status)
	}
}

func TestUnreachableCoder(t *testing.T) {
	f := newFixture(t, newControlPlane(), databaseSecret())
	f.Settle()
	f.PodsReady(1)
	f.Settle()
	f.coder.Fail(coderdtest.Fault{DropConnection: true})
	f.Forward(framework.RestInterval)

	result := f.Settle()

	f.MustHave(coderv1alpha1.ConditionCoderReachable, metav1.ConditionFalse, coderv1alpha1.ReasonUnreachable)
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonUnreachable)
	f.MustHave(coderv1alpha1.ConditionOperatorAccess, metav1.ConditionUnknown, coderv1alpha1.ReasonWaiting)
	status := f.Object().Status
	if !status.OperatorAccessReady || status.OperatorTokenSecretRef == nil || status.Version == "" {
		t.Errorf("an outage made the operator forget its token or the version: %+v", status)
	}
	if result.RequeueAfter != framework.PollInterval {
		t.Errorf("looks again after %v, want %v", result.RequeueAfter, framework.PollInterval)
	}
	if f.Events.Count("Warning Unreachable") != 1 {
		t.Errorf("Events: %q", f.Events.All())
	}
}

// TestHostileCoder replaces Coder by a server whose responses are as expensive as possible to read.
func TestHostileCoder(t *testing.T) {
	kubetest.SkipWithRace(t)
	for hostile, says := range map[coderdtest.Hostile]string{
		coderdtest.EndlessBody: "to GET /api/v2/buildinfo is larger than 4 MiB",
		coderdtest.GzipBomb:    "to GET /api/v2/buildinfo is larger than 4 MiB",
		coderdtest.DeepJSON:    "to GET /api/v2/buildinfo is nested more than 64 levels deep",
		coderdtest.EmptyItems:  "to GET /api/v2/buildinfo has more than 20000 items",
	} {
		t.Run(string(hostile), func(t *testing.T) {
			f := newFixture(t, newControlPlane(), databaseSecret())
			// On a busy machine, 4 MiB may take longer than the controller waits.
			f.watch = func(req *http.Request) { *req = *req.WithContext(context.WithoutCancel(req.Context())) }
			f.Settle()
			f.PodsReady(1)
			f.Settle()
			f.coder.Fail(coderdtest.Fault{Hostile: hostile})
			f.Forward(framework.RestInterval)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			f.Settle()
			runtime.ReadMemStats(&after)
			f.MustHave(coderv1alpha1.ConditionCoderReachable, metav1.ConditionFalse, coderv1alpha1.ReasonUnreachable)
			condition := meta.FindStatusCondition(f.Object().Status.Conditions, coderv1alpha1.ConditionCoderReachable)
			if condition == nil || !strings.Contains(condition.Message, says) || len(condition.Message) > 2<<10 {
				t.Errorf("%+v; want %q", condition, says)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 256<<20 {
				t.Errorf("%d MiB were allocated", n>>20)
			}
		})
	}
}

// TestCoderIsAskedSoonAgainAfterNewPods covers the moment after new pods become ready, in which the
// Service does not route to them yet. The retries must be frequent.
func TestCoderIsAskedSoonAgainAfterNewPods(t *testing.T) {
	for name, condition := range map[string]func(now metav1.Time) appsv1.DeploymentCondition{
		"enough pods became ready": func(now metav1.Time) appsv1.DeploymentCondition {
			return appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, LastTransitionTime: now}
		},
		"a rollout went on": func(now metav1.Time) appsv1.DeploymentCondition {
			return appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, LastUpdateTime: now}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, newControlPlane(), databaseSecret())
			f.Settle()
			f.PodsReady(1)
			d := &appsv1.Deployment{}
			f.Get("coder", d)
			d.Status.Conditions = []appsv1.DeploymentCondition{condition(metav1.NewTime(f.Clock.Now()))}
			f.UpdateStatus(d)
			f.coder.Fail(coderdtest.Fault{DropConnection: true})
			if result := f.Settle(); result.RequeueAfter != freshInterval {
				t.Errorf("looks again after %v, want %v", result.RequeueAfter, freshInterval)
			}
			f.Forward(freshPeriod)
			if result := f.Settle(); result.RequeueAfter != framework.PollInterval {
				t.Errorf("later it looks again after %v, want %v", result.RequeueAfter, framework.PollInterval)
			}
		})
	}
}

func TestATokenThatCoderRefusesIsRenewed(t *testing.T) {
	f := newFixture(t, newControlPlane(), databaseSecret())
	f.Settle()
	f.PodsReady(1)
	f.Settle()
	token := &corev1.Secret{}
	f.Get("coder-operator-token", token)
	old := string(token.Data[coderv1alpha1.SecretKeyToken])
	f.coder.RevokeToken(old)
	f.Forward(framework.RestInterval)

	f.Settle()

	f.Get("coder-operator-token", token)
	if string(token.Data[coderv1alpha1.SecretKeyToken]) == old {
		t.Error("the token that Coder refuses is still there")
	}
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
}

func TestEnvFromDecidesAboutTheAccessURL(t *testing.T) {
	f := newFixture(t, databaseSecret(), newControlPlane(func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.EnvFrom = []corev1.EnvFromSource{{Prefix: "CODER_", ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "settings"},
		}}}
	}))
	names := func() []string {
		d := &appsv1.Deployment{}
		f.Get("coder", d)
		var all []string
		for _, variable := range d.Spec.Template.Spec.Containers[0].Env {
			all = append(all, variable.Name)
		}
		return all
	}
	f.Reconcile()
	if !slices.Contains(names(), "CODER_ACCESS_URL") {
		t.Errorf("environment %v has no CODER_ACCESS_URL while the ConfigMap does not exist", names())
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: "coder"}, Data: map[string]string{"ACCESS_URL": "https://x"}}
	f.Create(settings)
	f.Reconcile()
	if slices.Contains(names(), "CODER_ACCESS_URL") {
		t.Errorf("environment %v overrides the CODER_ACCESS_URL of the ConfigMap", names())
	}

	// Another access URL would roll the pods of all proxies, so a failed read must not change it.
	f.Settle()
	f.PodsReady(1)
	f.Settle()
	kubetest.EachStep(t, 3, func(at int) bool {
		f.restart()
		f.reads.SetError(at, false, apierrors.NewInternalError(errors.New("no answer")))
		_, _ = f.Try()
		if got := f.Object().Status.AccessURL; got != "" {
			t.Errorf("after the failed read %d the access URL is %q, and the ConfigMap has another one", at, got)
		}
		return f.reads.Struck()
	})
	// The revocation of the token waits for Coder.
	f.reads.Set(0, false)
	f.coder.Fail(coderdtest.Fault{DropConnection: true})
	f.Delete()
	f.Reconcile()
	if got := f.Object().Status.AccessURL; got != "" {
		t.Errorf("during the deletion the access URL is %q", got)
	}
}

func TestScaledToZero(t *testing.T) {
	f := newFixture(t, databaseSecret(), newControlPlane(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Replicas = ptr.To[int32](0) }))
	result := f.Settle()
	f.MustHave(coderv1alpha1.ConditionDeploymentAvailable, metav1.ConditionTrue, coderv1alpha1.ReasonScaledToZero)
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonScaledToZero)
	if result.RequeueAfter != 0 {
		t.Errorf("looks again after %v, although nothing runs that could change", result.RequeueAfter)
	}
}

// This test only registers the controller. The tests against a real API server cover the watches.
func TestSetupWithManager(t *testing.T) {
	mgr := controllertest.OfflineManager(t, framework.CacheOptions())
	kit, err := framework.New(mgr, framework.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := New(kit).SetupWithManager(t.Context(), mgr); err != nil {
		t.Fatal(err)
	}
}

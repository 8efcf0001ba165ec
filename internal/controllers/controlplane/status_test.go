package controlplane

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/access"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// working returns the scope of a pass in which everything works.
func working() *scope {
	cp := newControlPlane()
	cp.Status.ObjectNamePrefix = ptr.To("")
	expires := time.Date(2026, 11, 27, 12, 0, 0, 123, time.UTC)
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	kit := framework.NewWith(nil, nil, nil, framework.Options{Clock: clocktesting.NewFakePassiveClock(now)})
	s := New(kit).newScope(cp)
	s.Deployment = &appsv1.Deployment{Status: appsv1.DeploymentStatus{
		Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
	}}
	s.build = &coderd.BuildInfo{Version: "v2.30.0"}
	s.access = &access.Result{
		Result:   ensure.Result{State: ensure.Ready, Reason: coderv1alpha1.ReasonTokenAccepted, Message: "accepted"},
		TokenRef: &coderv1alpha1.TokenSecretReference{Name: "coder-operator-token", Key: "token"}, ExpiresAt: &expires,
	}
	return s
}

// before sets the status that an earlier pass wrote while everything worked.
func (s *scope) before() *scope {
	s.cp.Status = statusOf(working())
	s.Previous = s.cp.Status.WorkloadStatus
	return s
}

func TestReadyIsDerivedFromItsParts(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*scope)
		reason  string
		summary string
	}{
		"everything works": {func(*scope) {}, coderv1alpha1.ReasonReady, ""},
		"an object is someone else's": {func(s *scope) {
			s.Problems = []framework.Problem{{Reason: coderv1alpha1.ReasonNotOwned, Message: "no"}}
		}, coderv1alpha1.ReasonNotOwned, coderv1alpha1.ConditionStalled},
		"the API server does not answer": {func(s *scope) {
			s.Problems = []framework.Problem{{Reason: coderv1alpha1.ReasonApplyFailed, Message: "no"}}
		}, coderv1alpha1.ReasonApplyFailed, coderv1alpha1.ConditionReconciling},
		"an object is not applied yet": {func(s *scope) {
			s.Outcome.Skipped = map[string]string{framework.StepDeployment: framework.StepReferences}
		}, coderv1alpha1.ReasonReconciling, coderv1alpha1.ConditionReconciling},
		"a rollout goes on": {func(s *scope) {
			s.Deployment.Status.Replicas, s.Deployment.Status.UpdatedReplicas = 2, 1
		}, coderv1alpha1.ReasonProgressing, coderv1alpha1.ConditionReconciling},
		"the Deployment controller is behind": {func(s *scope) {
			s.Deployment.Generation, s.Deployment.Status.ObservedGeneration = 2, 1
		}, coderv1alpha1.ReasonProgressing, coderv1alpha1.ConditionReconciling},
		"Coder does not answer": {func(s *scope) {
			s.build, s.access, s.coderErr = nil, nil, errors.New("refused")
		}, coderv1alpha1.ReasonUnreachable, coderv1alpha1.ConditionReconciling},
		"the Service does not lead to the new pods yet": {func(s *scope) {
			s.build, s.access, s.justReady = nil, nil, true
			s.coderErr = &coderd.Error{Op: "asking", Message: "refused"}
		}, coderv1alpha1.ReasonWaiting, coderv1alpha1.ConditionReconciling},
		"new pods answer with trouble": {func(s *scope) {
			s.build, s.access, s.justReady = nil, nil, true
			s.coderErr = &coderd.Error{Op: "asking", Message: "redirect", StatusCode: 302}
		}, coderv1alpha1.ReasonUnreachable, coderv1alpha1.ConditionReconciling},
		"access is on its way": {func(s *scope) {
			s.access = &access.Result{Result: ensure.Result{State: ensure.Waiting, Reason: coderv1alpha1.ReasonAdminJobRunning}}
		}, coderv1alpha1.ReasonAdminJobRunning, coderv1alpha1.ConditionReconciling},
		"access needs somebody": {func(s *scope) {
			s.access = &access.Result{Result: ensure.Result{State: ensure.Failed, Reason: coderv1alpha1.ReasonCredentialsRefused}}
		}, coderv1alpha1.ReasonCredentialsRefused, coderv1alpha1.ConditionStalled},
		"workspace rights do not count": {func(s *scope) {
			s.Grants = []framework.Problem{{Reason: coderv1alpha1.ReasonGrantForbidden, Message: "no"}}
		}, coderv1alpha1.ReasonReady, ""},
		"being served does not count": {func(s *scope) {
			s.prefix = nil
		}, coderv1alpha1.ReasonReady, ""},
		"the Gateway API is asked for and missing": {func(s *scope) {
			s.cp.Spec.Expose = &coderv1alpha1.ExposeSpec{Gateway: &coderv1alpha1.GatewaySpec{Host: "x"}}
			s.Exposure = &framework.Problem{Reason: coderv1alpha1.ReasonKindMissing, Message: "no"}
		}, coderv1alpha1.ReasonKindMissing, coderv1alpha1.ConditionReconciling},
		"a license is asked for": {func(s *scope) {
			s.cp.Spec.LicenseSecretRef = &coderv1alpha1.SecretKeyReference{Name: "license"}
		}, coderv1alpha1.ReasonPending, coderv1alpha1.ConditionReconciling},
		"it is being deleted": {func(s *scope) {
			s.cp.DeletionTimestamp = ptr.To(metav1.NewTime(s.Now))
		}, coderv1alpha1.ReasonDeleting, coderv1alpha1.ConditionReconciling},
	} {
		t.Run(name, func(t *testing.T) {
			s := working()
			c.change(s)
			status := statusOf(s)
			ready := meta.FindStatusCondition(status.Conditions, coderv1alpha1.ConditionReady)
			if ready == nil || ready.Reason != c.reason || (ready.Status == metav1.ConditionTrue) != (c.summary == "") {
				t.Fatalf("Ready is %+v, want reason %s", ready, c.reason)
			}
			for _, summary := range []string{coderv1alpha1.ConditionReconciling, coderv1alpha1.ConditionStalled} {
				if present := meta.FindStatusCondition(status.Conditions, summary) != nil; present != (summary == c.summary) {
					t.Errorf("%s is present: %v", summary, present)
				}
			}
			if (status.Phase == coderv1alpha1.PhaseReady) != (c.summary == "") {
				t.Errorf("phase is %q", status.Phase)
			}
			for _, condition := range status.Conditions {
				if condition.ObservedGeneration != s.cp.Generation || condition.Reason == "" || condition.LastTransitionTime.IsZero() {
					t.Errorf("condition %+v is not complete", condition)
				}
			}
		})
	}
}

func TestTheTokenInTheStatus(t *testing.T) {
	type token struct {
		Ref, Ready, Expiry bool
	}
	for name, c := range map[string]struct {
		change func(*scope)
		want   token
	}{
		"accepted":          {func(*scope) {}, token{true, true, true}},
		"given by a person": {func(s *scope) { s.access.ExpiresAt = nil }, token{Ref: true, Ready: true}},
		"nobody asked":      {func(s *scope) { s.access = nil }, token{true, true, true}},
		"Coder gave no answer": {func(s *scope) {
			s.access = &access.Result{Result: ensure.Result{State: ensure.Waiting, Reason: coderv1alpha1.ReasonUnreachable}}
		}, token{true, true, true}},
		"refused": {func(s *scope) {
			s.access = &access.Result{Result: ensure.Result{State: ensure.Failed, Reason: coderv1alpha1.ReasonTokenRefused}}
		}, token{}},
		"the Service is foreign":  {func(s *scope) { s.access, s.ServiceForeign = nil, true }, token{Ref: true, Expiry: true}},
		"disabled, not revoked":   {func(s *scope) { s.cp.Spec.OperatorAccess.Disabled = true; s.access.State = ensure.Waiting }, token{Ref: true, Expiry: true}},
		"disabled and revoked":    {func(s *scope) { s.cp.Spec.OperatorAccess.Disabled = true }, token{}},
		"disabled, nothing there": {func(s *scope) { s.cp.Spec.OperatorAccess.Disabled = true; s.access = nil }, token{}},
	} {
		s := working().before()
		c.change(s)
		status := statusOf(s)
		got := token{status.OperatorTokenSecretRef != nil, status.OperatorAccessReady, status.OperatorTokenExpiresAt != nil}
		if got != c.want {
			t.Errorf("%s: token is %+v, want %+v", name, got, c.want)
		}
	}
}

// TestEverServed checks that the value stays true once it is true.
func TestEverServed(t *testing.T) {
	waits := func(s *scope) {
		s.access = &access.Result{Result: ensure.Result{State: ensure.Waiting, Reason: coderv1alpha1.ReasonAdminJobRunning}}
	}
	for name, c := range map[string]struct {
		before coderv1alpha1.CoderControlPlaneStatus
		change func(*scope)
		want   *bool
	}{
		"Coder never answered":                      {change: func(s *scope) { s.build, s.access = nil, nil }, want: ptr.To(false)},
		"it answers, and there is no access yet":    {change: waits, want: ptr.To(false)},
		"the token is accepted":                     {change: func(*scope) {}, want: ptr.To(true)},
		"it was false":                              {before: coderv1alpha1.CoderControlPlaneStatus{EverServed: ptr.To(false), ObjectNamePrefix: ptr.To(""), Version: "v2.30.0"}, change: waits, want: ptr.To(false)},
		"it was true, and the token is refused":     {before: coderv1alpha1.CoderControlPlaneStatus{EverServed: ptr.To(true), ObjectNamePrefix: ptr.To("")}, change: waits, want: ptr.To(true)},
		"it was true, and access is disabled":       {before: coderv1alpha1.CoderControlPlaneStatus{EverServed: ptr.To(true)}, change: func(s *scope) { s.cp.Spec.OperatorAccess.Disabled = true }, want: ptr.To(true)},
		"an older operator had access":              {before: coderv1alpha1.CoderControlPlaneStatus{OperatorAccessReady: true}, change: waits, want: ptr.To(true)},
		"an older operator may have had access":     {before: coderv1alpha1.CoderControlPlaneStatus{ObjectNamePrefix: ptr.To(""), Version: "v2.30.0"}, change: waits},
		"an older operator never reached its Coder": {before: coderv1alpha1.CoderControlPlaneStatus{ObjectNamePrefix: ptr.To("")}, change: waits, want: ptr.To(false)},
	} {
		s := working()
		s.cp.Status = c.before
		c.change(s)
		if diff := cmp.Diff(c.want, statusOf(s).EverServed); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
	}
}

// The same results must produce the same status. Otherwise every pass would write.
func TestTheStatusIsStable(t *testing.T) {
	s := working().before()
	s.Now = s.Now.Add(time.Hour)
	if diff := cmp.Diff(s.cp.Status, statusOf(s)); diff != "" {
		t.Errorf("an hour later the status differs:\n%s", diff)
	}
}

// The status contains the image of the Coder that answers, so that pods that use that image never
// run a newer version than Coder.
func TestImageThatAnswers(t *testing.T) {
	const old, image = "registry.example.com/coder@sha256:old", "registry.example.com/coder@sha256:new"
	for name, c := range map[string]struct {
		change func(*scope)
		want   string
	}{
		"rolled out":                     {func(*scope) {}, image},
		"not looked at by the cluster":   {func(s *scope) { s.Deployment.Generation = 2 }, old},
		"pods of two images":             {func(s *scope) { s.Deployment.Status.Replicas = 2 }, old},
		"paused rollout":                 {func(s *scope) { s.Deployment.Spec.Paused, s.Deployment.Status.UpdatedReplicas = true, 0 }, old},
		"no answer":                      {func(s *scope) { s.build = nil }, old},
		"nobody asks, pods ready":        {func(s *scope) { s.build, s.cp.Spec.OperatorAccess.Disabled = nil, true }, image},
		"no pods":                        {func(s *scope) { s.Deployment.Status = appsv1.DeploymentStatus{} }, old},
		"no Deployment":                  {func(s *scope) { s.Deployment = nil }, old},
		"the Deployment of someone else": {func(s *scope) { s.DeploymentForeign = true }, old},
		"taken over from the chart": {func(s *scope) {
			s.Workload.Adopted = &resources.Adopted{Container: "chart"}
			s.Deployment.Spec.Template.Spec.Containers[0].Name = "chart"
		}, image},
	} {
		t.Run(name, func(t *testing.T) {
			s := working()
			s.cp.Status.Image = old
			s.Deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: s.Workload.Container, Image: image}, {Name: "sidecar", Image: "x"}}
			c.change(s)
			if got := statusOf(s).Image; got != c.want {
				t.Errorf("status.image %q, want %q", got, c.want)
			}
		})
	}
}

// TestC9TLSDoesNotChangeTheWayToCoder covers a fault of the predecessor: it called a Coder that
// serves TLS under a name that no certificate contains. Here access and license work with and
// without TLS at status.url, which is the URL for all clients inside the cluster.
func TestC9TLSDoesNotChangeTheWayToCoder(t *testing.T) {
	f := newScene(t, newControlPlane(withLicense))
	tls := func(names ...string) {
		t.Helper()
		f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.TLS.SecretNames = names })
		f.live()
		f.MustHave(coderv1alpha1.ConditionOperatorAccess, metav1.ConditionTrue, coderv1alpha1.ReasonTokenAccepted)
		f.MustHave(coderv1alpha1.ConditionLicenseApplied, metav1.ConditionTrue, coderv1alpha1.ReasonApplied)
		f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
		if url := f.Object().Status.URL; url != "http://coder.coder.svc.cluster.local:80" {
			t.Errorf("with the certificates %q it is called at %s", names, url)
		}
	}
	tls("tls")
	tls()
	tls("tls")
}

// Logs of coderd 2.30.0 with a database that refuses connections.
const (
	logRetrying = "Started HTTP listener at http://0.0.0.0:8080\n" +
		"WARN: The access URL  http://coder.coder.svc  could not be resolved\n\n" +
		"2026-11-20 12:24:44.379 [warn]  ping postgres: retrying  error=\"dial tcp 10.96.0.7:5432: connect: connection refused\"  try=1\n" +
		"2026-11-20 12:24:45.999 [warn]  ping postgres: retrying  error=\"dial tcp 10.96.0.7:5432: connect: connection refused\"  try=2\n"
	logEnded = logRetrying +
		"Encountered an error running \"coder server\", see \"coder server --help\" for more information\n" +
		"error: connect to postgres: connect to postgres: unable to connect after 11 tries; last error: dial tcp 10.96.0.7:5432: connect: connection refused\n"
)

func TestInvalidName(t *testing.T) {
	long := "n123456789012345678901234567890123456789012345678901234567890123"
	for name, valid := range map[string]bool{
		"coder": true, "team-a": true, long[:63]: true, long: false, "a.b": false, "1st": false, "Upper": false,
	} {
		cp := newControlPlane()
		cp.Name = name
		if got := invalidName(cp) == ""; got != valid {
			t.Errorf("name %q: valid is %v, want %v", name, got, valid)
		}
	}
}

package workspaceproxy

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
)

func TestFromNothingToReady(t *testing.T) {
	f := newFixture(t, newProxy())
	f.settle()
	f.mustHave(coderv1alpha1.ConditionControlPlaneReady, metav1.ConditionTrue, coderv1alpha1.ReasonControlPlaneAvailable)
	f.mustHave(coderv1alpha1.ConditionRegistered, metav1.ConditionTrue, coderv1alpha1.ReasonRegistered)
	f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonProgressing)
	f.mustHave(coderv1alpha1.ConditionReconciling, metav1.ConditionTrue, coderv1alpha1.ReasonProgressing)
	f.podsReady()
	result := f.settle()
	f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	f.MustNotHave(coderv1alpha1.ConditionReconciling)
	f.MustNotHave(coderv1alpha1.ConditionStalled)
	if result.RequeueAfter < 50*time.Minute {
		t.Errorf("looks again after %v", result.RequeueAfter)
	}
	proxies := f.coder.Proxies()
	if len(proxies) != 1 || proxies[0].Name != "sydney" || proxies[0].Icon != coderd.DefaultProxyIcon {
		t.Fatalf("Coder has %+v", proxies)
	}
	status := f.Object().Status
	want := coderv1alpha1.CoderWorkspaceProxyStatus{
		WorkloadStatus: status.WorkloadStatus,
		URL:            "http://wsproxy-sydney.team.svc.cluster.local:80", AccessURL: "http://wsproxy-sydney.team.svc.cluster.local",
		Registered: true, ProxyID: proxies[0].ID.String(), ProxyName: "sydney", ProxyTokenSecretRef: status.ProxyTokenSecretRef,
	}
	if ref := status.ProxyTokenSecretRef; ref == nil || ref.Name != tokenSecret || ref.Key != "token" {
		t.Errorf("proxyTokenSecretRef is %+v", ref)
	}
	if status.URL != want.URL || status.AccessURL != want.AccessURL || !status.Registered || status.ProxyID != want.ProxyID || status.ProxyName != "sydney" ||
		status.Phase != coderv1alpha1.PhaseReady || status.ReadyReplicas != 1 || status.ObservedGeneration != 1 || status.Selector == "" {
		t.Errorf("status is %+v", status)
	}
	if got := f.env("CODER_PRIMARY_ACCESS_URL").Value; got != accessURL {
		t.Errorf("the pods belong to %q, want %q", got, accessURL)
	}
	if ref := f.env("CODER_PROXY_SESSION_TOKEN").ValueFrom.SecretKeyRef; ref.Name != tokenSecret || ref.Key != "token" {
		t.Errorf("the pods take their token from %+v", ref)
	}
	if image := f.Deployment().Spec.Template.Spec.Containers[0].Image; image != "ghcr.io/coder/coder:v2.30.1" {
		t.Errorf("the pods run %q, want the control plane's image", image)
	}
	f.Get(deploymentName, &corev1.Service{})
	f.Get(deploymentName, &corev1.ServiceAccount{})
	if f.Events.Count("Warning") != 0 || f.Events.Count("Normal Ready") != 1 {
		t.Errorf("Events: %q", f.Events.All())
	}
}

// TestC6StartsWithTheOfficialImage covers a fault of the predecessor: its pods did not start with
// that image.
func TestC6StartsWithTheOfficialImage(t *testing.T) {
	f := newFixture(t, newProxy(func(p *coderv1alpha1.CoderWorkspaceProxy) { p.Spec.DerpOnly = true }))
	f.settle()
	container := f.Deployment().Spec.Template.Spec.Containers[0]
	want := []string{"/opt/coder", "wsproxy", "server", "--http-address=0.0.0.0:3001", "--derp-only"}
	if got := slices.Concat(container.Command, container.Args); !slices.Equal(got, want) {
		t.Errorf("the container runs %q, want %q", got, want)
	}
}

func TestAtRestNothingIsWrittenOrAsked(t *testing.T) {
	f := newFixture(t, newProxy())
	f.run()
	f.coder.Asked()
	f.TakeWrites()
	for range 5 {
		f.Clock.SetTime(f.Clock.Now().Add(10 * time.Minute))
		f.Reconcile()
	}
	if n, writes := f.coder.Asked(), f.TakeWrites(); n != 0 || len(writes) != 0 {
		t.Errorf("%d requests to Coder and the writes %q", n, writes)
	}
}

func TestPrimaryAccessURL(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*coderv1alpha1.CoderWorkspaceProxySpec)
		status coderv1alpha1.CoderControlPlaneStatus
		want   string
	}{
		"of the spec":          {func(s *coderv1alpha1.CoderWorkspaceProxySpec) { s.PrimaryAccessURL = "https://other.example.com" }, coderv1alpha1.CoderControlPlaneStatus{AccessURL: accessURL}, "https://other.example.com"},
		"of the control plane": {func(*coderv1alpha1.CoderWorkspaceProxySpec) {}, coderv1alpha1.CoderControlPlaneStatus{AccessURL: accessURL}, accessURL},
		"of its Service":       {func(*coderv1alpha1.CoderWorkspaceProxySpec) {}, coderv1alpha1.CoderControlPlaneStatus{}, controlPlaneURL},
		"of bootstrap": {func(s *coderv1alpha1.CoderWorkspaceProxySpec) {
			s.ControlPlaneRef = nil
			s.Bootstrap.CoderURL = accessURL
			s.Bootstrap.CredentialsSecretRef = &coderv1alpha1.TokenSecretReference{Name: "dev-operator-token"}
		}, coderv1alpha1.CoderControlPlaneStatus{}, accessURL},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, newProxy(func(p *coderv1alpha1.CoderWorkspaceProxy) { c.change(&p.Spec) }))
			cp := &coderv1alpha1.CoderControlPlane{}
			f.Get("dev", cp)
			cp.Status.AccessURL = c.status.AccessURL
			if err := f.Cluster.Status().Update(t.Context(), cp); err != nil {
				t.Fatal(err)
			}
			f.settle()
			if got := f.env("CODER_PRIMARY_ACCESS_URL").Value; got != c.want {
				t.Errorf("CODER_PRIMARY_ACCESS_URL is %q, want %q", got, c.want)
			}
		})
	}
}

func TestThePrimaryAccessURLFollowsTheSpec(t *testing.T) {
	f := newFixture(t, newProxy())
	f.run()
	// This also works while Coder is unreachable.
	f.coder.Fail(coderdtest.Fault{DropConnection: true})
	f.edit(func(s *coderv1alpha1.CoderWorkspaceProxySpec) { s.PrimaryAccessURL = "https://moved.example.com" })
	f.settle()
	if got := f.env("CODER_PRIMARY_ACCESS_URL").Value; got != "https://moved.example.com" {
		t.Errorf("CODER_PRIMARY_ACCESS_URL is %q", got)
	}
}

func TestANewTokenRollsThePods(t *testing.T) {
	f := newFixture(t, newProxy())
	f.run()
	// The fake API server counts the versions of each object from 1. A further one makes that of the next Secret differ.
	secret := f.secretNamed(tokenSecret)
	secret.Labels["further"] = "version"
	f.Update(secret)
	f.run()
	before := f.Deployment().Spec.Template.Annotations[coderv1alpha1.AnnotationConfigChecksum]
	f.Remove(f.secretNamed(tokenSecret))
	f.settle()
	if after := f.Deployment().Spec.Template.Annotations[coderv1alpha1.AnnotationConfigChecksum]; after == before || after == "" {
		t.Errorf("the checksum was %q and is %q", before, after)
	}
	if f.Events.Count("Normal TokenRegenerated") != 1 || len(f.coder.Proxies()) != 1 {
		t.Errorf("Events: %q", f.Events.All())
	}
}

func (f *fixture) secretNamed(name string) *corev1.Secret {
	f.T.Helper()
	secret := &corev1.Secret{}
	f.Get(name, secret)
	return secret
}

// TestK19ErrorsAreInTheStatus covers a fault of the predecessor: its conditions were never set.
func TestK19ErrorsAreInTheStatus(t *testing.T) {
	for name, c := range map[string]struct {
		fault   coderdtest.Fault
		reason  string
		stalled bool
	}{
		"401":       {coderdtest.Fault{Status: 401}, coderv1alpha1.ReasonTokenRefused, false},
		"403":       {coderdtest.Fault{Status: 403}, coderv1alpha1.ReasonForbidden, true},
		"license":   {coderdtest.Fault{Status: 403, Message: "Workspace Proxy is a Premium feature. Contact sales!"}, coderv1alpha1.ReasonNotEntitled, true},
		"AGPL":      {coderdtest.Fault{Status: 404, Message: "Route not found."}, coderv1alpha1.ReasonNotSupported, true},
		"409":       {coderdtest.Fault{Method: "POST", Status: 409}, coderv1alpha1.ReasonNameTaken, true},
		"429":       {coderdtest.Fault{Status: 429, RetryAfter: 40 * time.Second}, coderv1alpha1.ReasonRateLimited, false},
		"500":       {coderdtest.Fault{Status: 500}, coderv1alpha1.ReasonUnreachable, false},
		"garbage":   {coderdtest.Fault{HTML: true, Status: 200}, coderv1alpha1.ReasonUnreachable, false},
		"no answer": {coderdtest.Fault{DropConnection: true}, coderv1alpha1.ReasonUnreachable, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, newProxy())
			end := f.coder.Fail(c.fault)
			result := f.settle()
			f.mustHave(coderv1alpha1.ConditionRegistered, metav1.ConditionFalse, c.reason)
			f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, c.reason)
			summary := coderv1alpha1.ConditionReconciling
			if c.stalled {
				summary = coderv1alpha1.ConditionStalled
			}
			f.mustHave(summary, metav1.ConditionTrue, c.reason)
			if result.RequeueAfter < 10*time.Second || result.RequeueAfter > 5*time.Minute {
				t.Errorf("tries again after %v", result.RequeueAfter)
			}
			if c.fault.RetryAfter != 0 && result.RequeueAfter != c.fault.RetryAfter {
				t.Errorf("tries again after %v, and Coder asked for %v", result.RequeueAfter, c.fault.RetryAfter)
			}
			if f.Events.Count("Warning "+c.reason) != 1 {
				t.Errorf("Events: %q", f.Events.All())
			}
			if f.Has(deploymentName, &appsv1.Deployment{}) {
				t.Error("pods were made without a token")
			}
			f.Get(deploymentName, &corev1.Service{})
			end()
			f.run()
			f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
			if n := len(f.coder.Proxies()); n != 1 {
				t.Errorf("%d proxies", n)
			}
		})
	}
}

func TestALicenseThatEndsDoesNotFreezeTheSpec(t *testing.T) {
	f := newFixture(t, newProxy())
	f.run()
	f.coder.SetFeature(coderd.FeatureWorkspaceProxy, "not_entitled")
	f.edit(func(s *coderv1alpha1.CoderWorkspaceProxySpec) {
		s.Replicas, s.Bootstrap.DisplayName = ptr.To[int32](3), "Sydney"
	})
	f.settle()
	f.mustHave(coderv1alpha1.ConditionRegistered, metav1.ConditionFalse, coderv1alpha1.ReasonNotEntitled)
	if got := *f.Deployment().Spec.Replicas; got != 3 {
		t.Errorf("%d replicas, want 3", got)
	}
	if status := f.Object().Status; !status.Registered || status.ProxyID == "" || status.ProxyTokenSecretRef == nil {
		t.Errorf("status lost what works: %+v", status)
	}
}

func TestALostSecretWhileCoderIsAwayDoesNotFreezeTheSpec(t *testing.T) {
	f := newFixture(t, newProxy())
	f.run()
	f.coder.Fail(coderdtest.Fault{DropConnection: true})
	f.Remove(f.secretNamed(tokenSecret))
	f.edit(func(s *coderv1alpha1.CoderWorkspaceProxySpec) { s.Replicas = ptr.To[int32](0) })
	f.settle()
	if got := *f.Deployment().Spec.Replicas; got != 0 {
		t.Errorf("%d replicas, want 0", got)
	}
	f.coder.ClearFaults()
	f.settle()
	if len(f.coder.Proxies()) != 1 || !f.Has(tokenSecret, &corev1.Secret{}) {
		t.Error("the token did not come back")
	}
}

func TestAControlPlaneThatIsMissing(t *testing.T) {
	f := newFixture(t, newProxy(func(p *coderv1alpha1.CoderWorkspaceProxy) { p.Spec.ControlPlaneRef.Name = "later" }))
	f.settle()
	c := f.mustHave(coderv1alpha1.ConditionControlPlaneReady, metav1.ConditionFalse, coderv1alpha1.ReasonControlPlaneUnavailable)
	f.mustHave(coderv1alpha1.ConditionRegistered, metav1.ConditionUnknown, coderv1alpha1.ReasonWaiting)
	f.mustHave(coderv1alpha1.ConditionReconciling, metav1.ConditionTrue, coderv1alpha1.ReasonControlPlaneUnavailable)
	if !strings.Contains(c.Message, `"later"`) || f.Has(deploymentName, &appsv1.Deployment{}) {
		t.Errorf("message %q", c.Message)
	}
	// The watch maps the control plane to the proxy.
	cp := controlPlane("later", controlPlaneURL, accessURL)
	cp.Status.OperatorTokenSecretRef.Name = "dev-operator-token"
	f.Create(cp)
	f.UpdateStatus(cp)
	r := f.Reconciler.(*Reconciler)
	if requests := r.kit.OfControlPlane(framework.Registration{For: &coderv1alpha1.CoderWorkspaceProxy{}})(t.Context(), cp); len(requests) != 1 || requests[0].Name != "sydney" {
		t.Errorf("the control plane leads to %v", requests)
	}
	f.run()
	f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
}

func TestAControlPlaneThatGoesLeavesThePodsAlone(t *testing.T) {
	f := newFixture(t, newProxy())
	f.run()
	before := f.Deployment()
	cp := &coderv1alpha1.CoderControlPlane{}
	f.Get("dev", cp)
	f.Remove(cp)
	f.settle()
	f.mustHave(coderv1alpha1.ConditionControlPlaneReady, metav1.ConditionFalse, coderv1alpha1.ReasonControlPlaneUnavailable)
	if after := f.Deployment(); after.ResourceVersion != before.ResourceVersion {
		t.Error("the pods were changed")
	}
	if status := f.Object().Status; status.ProxyID == "" || status.ReadyReplicas != 1 {
		t.Errorf("status %+v", status)
	}
}

func TestAccessThatIsDisabledIsStalled(t *testing.T) {
	f := newFixture(t, newProxy())
	cp := &coderv1alpha1.CoderControlPlane{}
	f.Get("dev", cp)
	cp.Spec.OperatorAccess.Disabled = true
	f.Update(cp)
	f.coder.Asked()
	f.settle()
	f.mustHave(coderv1alpha1.ConditionControlPlaneReady, metav1.ConditionFalse, coderv1alpha1.ReasonOperatorAccessDisabled)
	f.mustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonOperatorAccessDisabled)
	if n := f.coder.Asked(); n != 0 {
		t.Errorf("%d requests to a Coder that forbids it", n)
	}
}

func TestWhatProxiesNoticeOfAControlPlane(t *testing.T) {
	before := controlPlane("dev", controlPlaneURL, accessURL)
	for name, c := range map[string]struct {
		change func(*coderv1alpha1.CoderControlPlane)
		want   bool
	}{
		"address": {func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.URL = "" }, true},
		"access":  {func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.OperatorAccessReady = false }, true},
		"license": {func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.WorkspaceProxyEntitlement = "entitled" }, true},
		"image":   {func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.Image = "x" }, true},
		"token":   {func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.OperatorTokenSecretRef.Key = "x" }, true},
		"lost":    {func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.OperatorTokenSecretRef = nil }, true},
		"off":     {func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.OperatorAccess.Disabled = true }, true},
		"deleted": {func(cp *coderv1alpha1.CoderControlPlane) { cp.DeletionTimestamp = new(metav1.Now()) }, true},
		"nothing": {func(*coderv1alpha1.CoderControlPlane) {}, false},
		"wanted":  {func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Image = "x" }, false},
		"pods":    {func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.ReadyReplicas = 3 }, false},
	} {
		after := before.DeepCopy()
		c.change(after)
		if got := affectsProxies(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != c.want {
			t.Errorf("%s: noticed %t, want %t", name, got, c.want)
		}
	}
}

func TestAProxyOfSomebodyElseStallsIt(t *testing.T) {
	f := newFixture(t, newProxy())
	theirs := f.coder.AddProxy("sydney", "Theirs", "/x.png")
	f.settle()
	f.mustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonNameTaken)
	if got := f.coder.Proxies(); len(got) != 1 || got[0] != theirs {
		t.Errorf("their proxy is %+v", got)
	}
	f.Delete()
	f.Reconcile()
	if !f.Gone() || len(f.coder.Proxies()) != 1 {
		t.Error("deletion touched a proxy of somebody else, or hangs")
	}
}

func TestAnOwnToken(t *testing.T) {
	f := newFixture(t, newProxy(func(p *coderv1alpha1.CoderWorkspaceProxy) {
		p.Spec.ControlPlaneRef = nil
		p.Spec.PrimaryAccessURL = accessURL
		p.Spec.ProxySessionTokenSecretRef = &coderv1alpha1.TokenSecretReference{Name: "mine", Key: "token"}
	}))
	f.settle()
	f.mustHave(coderv1alpha1.ConditionRegistered, metav1.ConditionFalse, coderv1alpha1.ReasonTokenSecretMissing)
	f.mustHave(coderv1alpha1.ConditionReconciling, metav1.ConditionTrue, coderv1alpha1.ReasonTokenSecretMissing)
	f.Create(secretOf("mine", f.coder.AddProxy("by-hand", "By hand", "/x.png").Token))
	f.run()
	f.mustHave(coderv1alpha1.ConditionRegistered, metav1.ConditionTrue, coderv1alpha1.ReasonTokenAccepted)
	f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	f.MustNotHave(coderv1alpha1.ConditionControlPlaneReady)
	if ref := f.env("CODER_PROXY_SESSION_TOKEN").ValueFrom.SecretKeyRef; ref.Name != "mine" {
		t.Errorf("the pods take their token from %+v", ref)
	}
	if len(f.coder.Proxies()) != 1 {
		t.Error("something was registered")
	}
	// The operator need not reach the URL that browsers use.
	f.coder.Fail(coderdtest.Fault{DropConnection: true})
	f.restart()
	f.settle()
	f.mustHave(coderv1alpha1.ConditionRegistered, metav1.ConditionUnknown, coderv1alpha1.ReasonNotChecked)
	f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
}

func TestExposed(t *testing.T) {
	f := newFixture(t, newProxy(func(p *coderv1alpha1.CoderWorkspaceProxy) {
		p.Spec.Expose = &coderv1alpha1.ExposeSpec{Ingress: &coderv1alpha1.IngressSpec{
			Host: "sydney.example.com", WildcardHost: "*.sydney.example.com", TLS: &coderv1alpha1.IngressTLSSpec{SecretName: "tls"},
		}}
	}))
	f.run()
	f.mustHave(coderv1alpha1.ConditionExposed, metav1.ConditionTrue, coderv1alpha1.ReasonExposed)
	f.Get(deploymentName, &networkingv1.Ingress{})
	if got := f.Object().Status.AccessURL; got != "https://sydney.example.com" {
		t.Errorf("accessURL is %q", got)
	}
	if got := f.env("CODER_WILDCARD_ACCESS_URL").Value; got != "*.sydney.example.com" {
		t.Errorf("CODER_WILDCARD_ACCESS_URL is %q", got)
	}
}

// TestTheAccessURLOfEnvFromStaysUnknown checks that a pass that does not read the environment sets no other access URL.
func TestTheAccessURLOfEnvFromStaysUnknown(t *testing.T) {
	settings := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: "team"}, Data: map[string]string{"CODER_ACCESS_URL": "https://x"},
	}
	f := newFixture(t, newProxy(func(p *coderv1alpha1.CoderWorkspaceProxy) {
		p.Spec.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: settings.Name},
		}}}
	}), settings)
	f.run()
	cp := &coderv1alpha1.CoderControlPlane{}
	f.Get("dev", cp)
	cp.Status.Image = ""
	f.UpdateStatus(cp)
	f.run()
	if got := f.Object().Status.AccessURL; got != "" {
		t.Errorf("the access URL is %q, and the ConfigMap has another one", got)
	}
}

func TestANameWithADotIsToldAndNothingElse(t *testing.T) {
	proxy := newProxy(func(p *coderv1alpha1.CoderWorkspaceProxy) { p.Name = "a.b" })
	f := newFixture(t, proxy)
	for range 2 {
		if _, err := f.Try("a.b"); err != nil {
			t.Fatal(err)
		}
	}
	got := &coderv1alpha1.CoderWorkspaceProxy{}
	f.Get("a.b", got)
	if len(got.Status.Conditions) == 0 || got.Status.Conditions[0].Reason != coderv1alpha1.ReasonInvalidName || len(f.coder.Proxies()) != 0 {
		t.Errorf("conditions %+v", got.Status.Conditions)
	}
}

// An operator that has a new default must not replace the pods of an earlier version.
func TestRunningPodsGetNoNewDefault(t *testing.T) {
	f := newFixture(t, newProxy())
	f.run()
	d := f.Deployment()
	d.Spec.Template.Spec.Containers[0].SecurityContext.Capabilities = nil
	f.Update(d)
	f.restart()
	f.settle()
	if got := f.Deployment().Spec.Template.Spec.Containers[0].SecurityContext.Capabilities; got != nil {
		t.Errorf("the running pods got the capabilities %+v", got)
	}
}

// The step that describes the pods waits for the control plane. The NetworkPolicy does not wait.
func TestAnAdoptedProxyKeepsItsPortWhileItWaits(t *testing.T) {
	chart := map[string]string{"app.kubernetes.io/name": "coder-workspace-proxy"}
	adopted := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: deploymentName,
			Annotations: map[string]string{coderv1alpha1.AnnotationAdopt: "CoderWorkspaceProxy/sydney"},
		},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: chart},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: chart},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "coder", Image: "coder:1", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
				}}},
			},
		},
	}
	f := newFixture(t, newProxy(func(p *coderv1alpha1.CoderWorkspaceProxy) {
		p.Spec.ControlPlaneRef.Name = "missing"
		p.Spec.NetworkPolicy = &coderv1alpha1.NetworkPolicySpec{}
	}), adopted)
	f.settle()
	policy := &networkingv1.NetworkPolicy{}
	f.Get(deploymentName, policy)
	for _, rule := range policy.Spec.Ingress {
		if got := rule.Ports[0].Port.IntValue(); got != 8080 {
			t.Errorf("the policy allows port %d, but the pods listen on 8080", got)
		}
	}
}

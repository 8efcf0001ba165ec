package controlplane

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// scenario is a user's action on a control plane that is at rest.
type scenario struct {
	spec func(*coderv1alpha1.CoderControlPlane)
	// fresh starts with a control plane that was never reconciled.
	fresh bool
	act   func(f *licensedFixture)
	// unready is true if nothing runs in the end, because no pod is wanted. reverted is true if an upgrade
	// was taken back in the end.
	unready, reverted bool
}

// licensedFixture is a fixture with the names of licenses by their text.
type licensedFixture struct {
	*fixture
	licenses map[string]string
}

func scenarios() map[string]scenario {
	edit := func(change func(*coderv1alpha1.CoderControlPlane)) func(f *licensedFixture) {
		return func(f *licensedFixture) { f.Edit(change) }
	}
	disabled := func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.OperatorAccess.Disabled = true }
	return map[string]scenario{
		"create":                           {fresh: true, act: func(*licensedFixture) {}},
		"create everything":                {fresh: true, spec: everything, act: func(*licensedFixture) {}},
		"create with a token of one's own": {fresh: true, spec: withTokenOfOnesOwn, act: func(*licensedFixture) {}},
		"change everything": {spec: everything, act: func(f *licensedFixture) {
			f.license("second")
			f.Edit(everythingElse)
		}},
		"TLS off, one thing less each": {spec: everythingElse, act: func(f *licensedFixture) {
			f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
				cp.Spec.TLS.SecretNames, cp.Spec.Expose, cp.Spec.LicenseSecretRef = nil, nil, nil
				cp.Spec.PodDisruptionBudget, cp.Spec.NetworkPolicy, cp.Spec.Metrics = nil, nil, coderv1alpha1.MetricsSpec{}
				cp.Spec.RBAC = coderv1alpha1.RBACSpec{}
			})
		}},
		"license replaced":     {spec: withLicense, act: func(f *licensedFixture) { f.license("second") }},
		"access disabled":      {act: edit(disabled)},
		"access enabled again": {spec: disabled, act: edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.OperatorAccess.Disabled = false })},
		"own token instead": {act: func(f *licensedFixture) {
			f.addToken()
			f.Edit(withTokenOfOnesOwn)
		}},
		"token Secret deleted": {act: func(f *licensedFixture) {
			token := &corev1.Secret{}
			f.Get("coder-operator-token", token)
			f.Remove(token)
		}},
		"scaled to zero": {unready: true, act: edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Replicas = ptr.To[int32](0) })},
		"another minor version": {act: func(f *licensedFixture) {
			f.Create(schedule())
			f.provisioners()
			f.wants(image236)
		}},
		"an upgrade that is taken back": {reverted: true, act: func(f *licensedFixture) {
			f.Create(schedule())
			f.wants(imageMissing)
		}},
		"delete":                 {act: func(f *licensedFixture) { f.Delete() }},
		"delete everything":      {spec: everything, act: func(f *licensedFixture) { f.Delete() }},
		"delete with access off": {spec: disabled, act: func(f *licensedFixture) { f.Delete() }},
	}
}

// everything makes the spec ask for an object of each kind.
func everything(cp *coderv1alpha1.CoderControlPlane) {
	withLicense(cp)
	withWorkspaceNamespace(cp)
	cp.Spec.Expose = &coderv1alpha1.ExposeSpec{Ingress: &coderv1alpha1.IngressSpec{Host: "coder.example.com", WildcardHost: "*-apps.example.com"}}
	cp.Spec.PodDisruptionBudget = &coderv1alpha1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1))}
	cp.Spec.NetworkPolicy = &coderv1alpha1.NetworkPolicySpec{}
	cp.Spec.Metrics = coderv1alpha1.MetricsSpec{Enabled: true, ServiceMonitor: &coderv1alpha1.ServiceMonitorSpec{}}
}

// everythingElse makes the spec ask for different objects of each kind.
func everythingElse(cp *coderv1alpha1.CoderControlPlane) {
	everything(cp)
	cp.Spec.ServiceAccount.Name, cp.Spec.Replicas = "terraform", ptr.To[int32](2)
	cp.Spec.TLS.SecretNames = []string{"tls"}
	cp.Spec.Expose = &coderv1alpha1.ExposeSpec{Gateway: &coderv1alpha1.GatewaySpec{
		Host: "coder.example.org", ParentRefs: []coderv1alpha1.GatewayParentReference{{Name: "gateway"}},
	}}
	cp.Spec.RBAC = coderv1alpha1.RBACSpec{
		Namespaces: []coderv1alpha1.NamespaceRBAC{{Name: "other", EnableDeployments: ptr.To(false)}},
		ExtraRules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get"}}},
	}
}

func withTokenOfOnesOwn(cp *coderv1alpha1.CoderControlPlane) {
	cp.Spec.OperatorAccess.TokenSecretRef = &coderv1alpha1.TokenSecretReference{Name: "own", Key: "token"}
}

// TestCrashEverywhere kills the process at each single write to the cluster or to Coder, and starts
// a new process. The result must be that of an undisturbed run, without duplicates. The write
// succeeds, but its response is lost. A write that does not arrive needs no test: it leaves the
// same state as the previous write with a lost response.
func TestCrashEverywhere(t *testing.T) {
	t.Parallel()
	for name, s := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			undisturbed := s.play(t, 0)
			want := undisturbed.picture(undisturbed.licenses)
			undisturbed.mustBeTidy()
			kubetest.EachStep(t, 2, func(at int) bool {
				f := s.play(t, at)
				if diff := cmp.Diff(want, f.picture(f.licenses)); diff != "" {
					t.Fatalf("crash at write %d (-undisturbed +crashed):\n%s", at, diff)
				}
				return f.crashed
			})
		})
	}
}

// mustBeTidy checks that the operator has at most one account and one token, and that no login
// session is left. A session that a crash leaves behind expires within a day.
func (f *licensedFixture) mustBeTidy() {
	f.T.Helper()
	operators, tokens := 0, 0
	for _, user := range f.coder.Usernames() {
		if n := f.coder.Sessions(user); n > 0 {
			f.T.Errorf("%d logins of %s are left", n, user)
		}
		if strings.HasPrefix(user, coderv1alpha1.OperatorUsername) {
			operators++
			tokens += len(f.coder.TokenNames(user))
		}
	}
	if operators > 1 || tokens > 1 {
		f.T.Errorf("the operator has %d accounts and %d tokens", operators, tokens)
	}
}

type playedScene struct {
	*licensedFixture
	crashed bool
}

// play runs the scenario with a crash at one write, or without a crash if at is 0.
func (s scenario) play(t *testing.T, at int) playedScene {
	t.Helper()
	f := s.stage(t)
	f.Fault.Set(at, true)
	f.live()
	crashed := f.Fault.Struck()
	f.Fault.Set(0, false)
	f.restart()
	if !f.Gone() {
		f.live()
	}
	s.mustEnd(f)
	return playedScene{f, crashed}
}

// mustEnd checks that the result is the intended one, because two runs can be wrong in the same
// way.
func (s scenario) mustEnd(f *licensedFixture) {
	f.T.Helper()
	switch {
	case f.Gone():
	case s.reverted:
		f.mustBeIn(coderv1alpha1.UpgradeReverted)
		f.mustHavePods(image230, 1)
	case s.unready:
		f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonScaledToZero)
	default:
		f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	}
}

// stage returns the state in which the scenario begins.
func (s scenario) stage(t *testing.T) *licensedFixture {
	t.Helper()
	cp := newControlPlane()
	if s.spec != nil {
		s.spec(cp)
	}
	f := newScene(t, cp)
	if cp.Spec.OperatorAccess.TokenSecretRef != nil {
		// A user has already set up this Coder.
		f.addToken()
	}
	if !s.fresh {
		f.live()
	}
	s.act(f)
	f.restart()
	return f
}

// newScene returns a cluster with all kinds and a Coder that accepts licenses, before the first
// pass.
func newScene(t *testing.T, cp *coderv1alpha1.CoderControlPlane) *licensedFixture {
	t.Helper()
	f := &licensedFixture{newFixture(t, cp, databaseSecret(), secretOf("tls", map[string]string{"tls.crt": "c", "tls.key": "k"})), map[string]string{}}
	f.coder = coderdtest.New(t, coderdtest.WithLicensing(), coderdtest.WithClock(f.Clock))
	f.gatewayAndMonitoring()
	f.license("first")
	return f
}

// license writes a new license to the Secret.
func (f *licensedFixture) license(name string) {
	f.T.Helper()
	text := f.licenseFor(100)
	f.licenses[text] = name
	f.putLicense(text)
}

// addToken creates a Secret with a token that a user created.
func (f *licensedFixture) addToken() {
	f.T.Helper()
	f.Create(secretOf("own", map[string]string{"token": f.coder.AddUser("somebody", "owner")}))
}

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// scenario is a scenario: one Coder with all its objects in a namespace, and
// workspaces in another one.
type scenario struct {
	ns, workspaces string
	coder          *coderdtest.Server
	process        *process
	pods           *standIn
	secrets        *secretSearch
	cp             *coderv1alpha1.CoderControlPlane
}

// TestScenarioOfAllKinds: the real program with its shipped permissions creates
// everything that the three kinds can request, changes it, and removes it. Kinds
// that are installed later are used without a restart. No request is refused, and
// no secret is leaked.
func TestScenarioOfAllKinds(t *testing.T) {
	names, proxy := startCoders(t)
	metrics := kubetest.FreePort(t)
	p := startProcess(t, proxy, "--app=controller", "--leader-elect=false", "--log-level=debug", "--metrics-bind-address=127.0.0.1:"+metrics)
	p.ready(t)
	s := &scenario{ns: namespace(t), workspaces: namespace(t), process: p}
	s.coder = coderdtest.New(t, coderdtest.WithLicensing())
	names.add(t, s.ns, "coder", s.coder)
	s.pods = startStandIn(t, s.ns)
	s.secrets = newSecretSearch(s.ns)

	s.controlPlaneWithIngress(t)
	s.switchesToGateway(t)
	installLater(t)
	runner := s.provisionerWithRotation(t)
	near := s.proxyThatIsRenamed(t)
	s.kindsAppear(t)
	isReady(t, s.cp, runner, near)
	s.secrets.collect(t)
	s.secrets.search(t, p.logs.String(), metricsOf(t, metrics))

	s.deletesAll(t, runner, near)
	s.secrets.search(t, p.logs.String(), metricsOf(t, metrics))
}

func (s *scenario) controlPlaneWithIngress(t *testing.T) {
	t.Helper()
	license := coderdtest.NewLicense(coderdtest.License{FeatureSet: "premium"})
	s.secrets.add("the license", license)
	s.secrets.add("the signature of the license", license[strings.LastIndex(license, ".")+1:])
	s.secrets.add("the password of the database", "correct-horse-battery")
	s.cp = controlPlane(s.ns, "coder", func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.Database = &coderv1alpha1.DatabaseSpec{SecretRef: &coderv1alpha1.DatabaseSecretReference{Name: "db"}}
		cp.Spec.LicenseSecretRef = &coderv1alpha1.SecretKeyReference{Name: "license"}
		cp.Spec.Expose = &coderv1alpha1.ExposeSpec{Ingress: &coderv1alpha1.IngressSpec{
			Host: "coder.example.com", WildcardHost: "*.coder.example.com", TLS: &coderv1alpha1.IngressTLSSpec{SecretName: "coder-tls"},
		}}
		cp.Spec.PodDisruptionBudget = &coderv1alpha1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1))}
		cp.Spec.NetworkPolicy = &coderv1alpha1.NetworkPolicySpec{}
		cp.Spec.Metrics = coderv1alpha1.MetricsSpec{Enabled: true, ServiceMonitor: &coderv1alpha1.ServiceMonitorSpec{}}
		cp.Spec.RBAC.WorkspaceNamespaces = []string{s.workspaces}
	})
	s.pods.hold("coder", true) // Without its Secret no pod starts.
	create(t, s.cp)
	is(t, s.cp, coderv1alpha1.ConditionDeploymentAvailable, metav1.ConditionFalse, coderv1alpha1.ReasonDatabaseSecretMissing)
	create(t, secret(s.ns, "db", map[string]string{"url": "postgres://coder:correct-horse-battery@db.invalid/coder"}))
	s.pods.hold("coder", false)
	is(t, s.cp, coderv1alpha1.ConditionLicenseApplied, metav1.ConditionFalse, coderv1alpha1.ReasonSecretMissing)
	create(t, secret(s.ns, "license", map[string]string{"license": license}))
	isReady(t, s.cp)
	is(t, s.cp, coderv1alpha1.ConditionExposed, metav1.ConditionTrue, "")
	is(t, s.cp, coderv1alpha1.ConditionLicenseApplied, metav1.ConditionTrue, "")
	is(t, s.cp, coderv1alpha1.ConditionWorkspaceAccess, metav1.ConditionTrue, "")
	is(t, s.cp, coderv1alpha1.ConditionMetricsExported, metav1.ConditionFalse, coderv1alpha1.ReasonKindMissing)
	if licenses := s.coder.Licenses(); len(licenses) != 1 || licenses[0].Text != license {
		t.Errorf("Coder has %d licenses, not the one of the Secret", len(licenses))
	}
	if s.cp.Status.LicenseTier != "premium" || s.cp.Status.LicenseExpiresAt == nil || s.cp.Status.AccessURL != "https://coder.example.com" {
		t.Errorf("the status does not tell of license and address: %+v", s.cp.Status)
	}
	for _, child := range []client.Object{
		&appsv1.Deployment{}, &corev1.Service{}, &corev1.ServiceAccount{}, &networkingv1.Ingress{}, &networkingv1.NetworkPolicy{}, &policyv1.PodDisruptionBudget{},
	} {
		read(t, child, s.ns, "coder")
	}
	read(t, &corev1.Service{}, s.ns, "coder-metrics")
	if n := s.rightsOf(t); n != 1 {
		t.Errorf("the namespace of the workspaces has %d roles, not one", n)
	}
}

// rightsOf counts the control plane's roles in the namespace of its workspaces.
func (s *scenario) rightsOf(t *testing.T) int {
	t.Helper()
	roles, bindings := &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}
	for _, list := range []client.ObjectList{roles, bindings} {
		if err := environment.client.List(t.Context(), list, client.InNamespace(s.workspaces)); err != nil {
			t.Fatal(err)
		}
	}
	if len(roles.Items) != len(bindings.Items) {
		t.Errorf("%d roles and %d bindings", len(roles.Items), len(bindings.Items))
	}
	return len(roles.Items)
}

// switchesToGateway tests a cluster that does not have HTTPRoute yet.
func (s *scenario) switchesToGateway(t *testing.T) {
	t.Helper()
	patch(t, s.cp, "kubectl", `{"spec":{"expose":{"ingress":null,"gateway":{"host":"coder.example.com","parentRefs":[{"name":"public"}]}}}}`)
	is(t, s.cp, coderv1alpha1.ConditionExposed, metav1.ConditionFalse, coderv1alpha1.ReasonKindMissing)
	exists(t, &networkingv1.Ingress{}, s.ns, "coder", true)
}

// kindsAppear waits until the operator has found the kinds that installLater
// brought.
func (s *scenario) kindsAppear(t *testing.T) {
	t.Helper()
	is(t, s.cp, coderv1alpha1.ConditionExposed, metav1.ConditionTrue, "")
	is(t, s.cp, coderv1alpha1.ConditionMetricsExported, metav1.ConditionTrue, "")
	read(t, &gatewayv1.HTTPRoute{}, s.ns, "coder")
	read(t, &monitoringv1.ServiceMonitor{}, s.ns, "coder")
	// The new kinds are watched, too.
	for _, child := range []client.Object{&gatewayv1.HTTPRoute{}, &monitoringv1.ServiceMonitor{}} {
		child.SetNamespace(s.ns)
		child.SetName("coder")
		if err := environment.client.Delete(t.Context(), child); err != nil {
			t.Fatal(err)
		}
		exists(t, child, s.ns, "coder", false)
	}
}

// keysAre waits until Coder has exactly the keys of these names.
func (s *scenario) keysAre(t *testing.T, names ...string) {
	t.Helper()
	polltest.Eventually(t, fmt.Sprintf("Coder has the keys %v", names), func(context.Context) error {
		var found []string
		for _, key := range s.coder.ProvisionerKeys("coder") {
			s.secrets.add("provisioner key "+key.Name, key.Text)
			found = append(found, key.Name)
		}
		if fmt.Sprint(found) != fmt.Sprint(names) {
			return fmt.Errorf("it has %v", found)
		}
		return nil
	})
}

func (s *scenario) provisionerWithRotation(t *testing.T) *coderv1alpha1.CoderProvisioner {
	t.Helper()
	runner := provisioner(s.ns, "runner")
	runner.Spec.Tags = map[string]string{"size": "large"}
	create(t, runner)
	isReady(t, runner)
	s.keysAre(t, "runner")
	first := runner.Status.ProvisionerKeyID
	deployment := read(t, &appsv1.Deployment{}, s.ns, "provisioner-runner")
	if got := deployment.Spec.Template.Annotations[coderv1alpha1.AnnotationProvisionerKeyID]; got != first || first == "" {
		t.Errorf("the pods have the key %q, the status tells of %q", got, first)
	}

	// Until the pods with the new key are ready, both keys exist.
	s.pods.hold("provisioner-runner", true)
	keySecret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "runner-provisioner-key"}}
	if err := environment.client.Delete(t.Context(), keySecret); err != nil {
		t.Fatal(err)
	}
	s.keysAre(t, "runner", "runner-2")
	polltest.Eventually(t, "the pods are to get the new key", func(ctx context.Context) error {
		if err := environment.client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil {
			return err
		}
		if got := deployment.Spec.Template.Annotations[coderv1alpha1.AnnotationProvisionerKeyID]; got == first {
			return fmt.Errorf("they are to have %q", got)
		}
		return nil
	})
	is(t, runner, coderv1alpha1.ConditionDeploymentAvailable, metav1.ConditionFalse, "")
	s.keysAre(t, "runner", "runner-2")
	s.pods.hold("provisioner-runner", false)
	s.keysAre(t, "runner-2")
	isReady(t, runner)
	return runner
}

func (s *scenario) proxyThatIsRenamed(t *testing.T) *coderv1alpha1.CoderWorkspaceProxy {
	t.Helper()
	near := workspaceProxy(s.ns, "near")
	near.Spec.Bootstrap.DisplayName = "Near"
	create(t, near)
	isReady(t, near)
	s.proxyIs(t, "Near")
	patch(t, near, "kubectl", `{"spec":{"bootstrap":{"displayName":"Very near","icon":"/emojis/1f30d.png"}}}`)
	isReady(t, near)
	s.proxyIs(t, "Very near")
	return near
}

func (s *scenario) proxyIs(t *testing.T, displayName string) {
	t.Helper()
	proxies := s.coder.Proxies()
	if len(proxies) != 1 || proxies[0].Name != "near" || proxies[0].DisplayName != displayName {
		t.Fatalf("Coder has other proxies than one that is displayed as %q: %d", displayName, len(proxies))
	}
	s.secrets.add("the token of the proxy", proxies[0].Token)
}

func (s *scenario) deletesAll(t *testing.T, runner *coderv1alpha1.CoderProvisioner, near *coderv1alpha1.CoderWorkspaceProxy) {
	t.Helper()
	remove(t, runner)
	s.keysAre(t)
	remove(t, near)
	if proxies := s.coder.Proxies(); len(proxies) != 0 {
		t.Errorf("Coder still has %d proxies", len(proxies))
	}
	remove(t, s.cp)
	if tokens := s.coder.TokenNames(operatorUser); len(tokens) != 0 {
		t.Errorf("the operator still has the tokens %v", tokens)
	}
	if n := s.rightsOf(t); n != 0 {
		t.Errorf("%d roles are left in the namespace of the workspaces", n)
	}
}

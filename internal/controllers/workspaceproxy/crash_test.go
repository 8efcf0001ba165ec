package workspaceproxy

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// scenario is a user's action on a proxy that is at rest.
type scenario struct {
	// fresh starts with a proxy that was never reconciled.
	fresh bool
	act   func(f *fixture)
}

func scenarios() map[string]scenario {
	return map[string]scenario{
		"create": {fresh: true, act: func(*fixture) {}},
		"change": {act: func(f *fixture) {
			f.edit(func(s *coderv1alpha1.CoderWorkspaceProxySpec) {
				s.DerpOnly, s.Bootstrap.ProxyName, s.Bootstrap.Icon = true, "oceania", "/emojis/1f30f.png"
				s.Expose = &coderv1alpha1.ExposeSpec{Ingress: &coderv1alpha1.IngressSpec{Host: "sydney.example.com"}}
			})
		}},
		"lost Secret": {act: func(f *fixture) { f.Remove(f.secretNamed(tokenSecret)) }},
		"delete":      {act: func(f *fixture) { f.Delete() }},
	}
}

// TestCrash kills the process at every single write and request, once before the server receives it
// and once after, and continues with a new process. The cluster and Coder must end as after an
// undisturbed run.
func TestCrash(t *testing.T) {
	for name, s := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := runScenario(t, s, 0, false).picture()
			for _, lost := range []bool{false, true} {
				kubetest.EachStep(t, 3, func(at int) bool {
					f := runScenario(t, s, at, lost)
					if diff := cmp.Diff(want, f.picture()); diff != "" {
						t.Fatalf("crash at step %d, answer lost %t (-undisturbed +crashed):\n%s", at, lost, diff)
					}
					return f.crashed
				})
			}
		})
	}
}

// crashedFixture is a fixture with the information whether the process was killed.
type crashedFixture struct {
	*fixture
	crashed bool
}

func runScenario(t *testing.T, s scenario, at int, lost bool) crashedFixture {
	t.Helper()
	f := newFixture(t, newProxy())
	if !s.fresh {
		f.run()
	}
	s.act(f)
	f.restart()
	f.Fault.Set(at, lost)
	for range 8 {
		if _, err := f.Try(); err != nil && f.Fault.Struck() {
			break
		}
		if f.Gone() {
			break
		}
		if f.Has(deploymentName, &appsv1.Deployment{}) {
			f.podsReady()
		}
	}
	crashed := f.Fault.Struck()
	f.restart()
	if f.Gone() {
		return crashedFixture{f, crashed}
	}
	if f.Object().DeletionTimestamp != nil {
		f.Reconcile()
		return crashedFixture{f, crashed}
	}
	f.run()
	return crashedFixture{f, crashed}
}

var generated = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{64}`)

// picture returns all objects in the cluster and in the Coders without values that differ in each
// run.
func (f *fixture) picture() string {
	f.T.Helper()
	var out strings.Builder
	for _, list := range []client.ObjectList{
		&coderv1alpha1.CoderWorkspaceProxyList{}, &appsv1.DeploymentList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{},
		&corev1.SecretList{}, &networkingv1.IngressList{}, &networkingv1.NetworkPolicyList{}, &policyv1.PodDisruptionBudgetList{},
	} {
		f.List(list)
		f.Must(forget(list))
		text, err := yaml.Marshal(list)
		f.Must(err)
		out.Write(text)
	}
	tokens := map[string]bool{}
	secrets := &corev1.SecretList{}
	f.List(secrets)
	for _, secret := range secrets.Items {
		tokens[string(secret.Data["token"])] = true
	}
	for _, p := range f.coder.Proxies() {
		fmt.Fprintf(&out, "Coder has %q %q %q, and its token is stored: %t\n", p.Name, p.DisplayName, p.Icon, tokens[p.Token])
	}
	for _, p := range f.next.Proxies() {
		fmt.Fprintf(&out, "the next Coder has %q %q %q, and its token is stored: %t\n", p.Name, p.DisplayName, p.Icon, tokens[p.Token])
	}
	return generated.ReplaceAllString(out.String(), "…")
}

// forget removes values from objects that differ from run to run.
func forget(list client.ObjectList) error {
	return meta.EachListItem(list, func(item runtime.Object) error {
		obj, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("%T is no object", item)
		}
		obj.SetUID("")
		obj.SetResourceVersion("")
		obj.SetManagedFields(nil)
		obj.SetGeneration(0)
		obj.SetCreationTimestamp(metav1.Time{})
		switch typed := obj.(type) {
		case *corev1.Secret:
			// The content of tokens does not matter, only whether Coder knows them.
			typed.Data = nil
		case *appsv1.Deployment:
			// The generation counts the writes of the spec.
			typed.Status.ObservedGeneration = 0
		case *coderv1alpha1.CoderWorkspaceProxy:
			typed.SetDeletionTimestamp(nil)
		}
		return nil
	})
}

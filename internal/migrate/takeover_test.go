package migrate

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	recordsv1alpha1 "github.com/coder-k8s/coder-k8s/api/records/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/provisioner"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workspaceproxy"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// namespaces is the number of namespaces that the tests use: one for each case.
const namespaces = 8

// TestTakeover runs all cases with one kube-apiserver.
func TestTakeover(t *testing.T) {
	server := newServer(t)
	t.Run("a running release is taken over", func(t *testing.T) { testARunningReleaseIsTakenOver(t, server) })
	t.Run("what replaces pods is named", func(t *testing.T) { testWhatReplacesPodsIsNamed(t, server) })
	t.Run("of someone else", func(t *testing.T) { testOfSomeoneElse(t, server) })
	t.Run("refusals", func(t *testing.T) { testRefusals(t, server) })
}

// Objects that cannot be taken over, and secrets that would get into a manifest, are reported
// before any change.
func testRefusals(t *testing.T, server *server) {
	for want, change := range map[string]func(t *testing.T, n *namespace){
		"holds a credential, which is not copied into a manifest": func(t *testing.T, n *namespace) {
			d := n.deployment(t, "coder")
			d.Spec.Template.Spec.Containers[0].Args = append(d.Spec.Template.Spec.Containers[0].Args, "--postgres-url=postgres://coder:hunter2@db/coder")
			n.update(t, d)
		},
		`Service "coder" belongs to ConfigMap "theirs"`: func(t *testing.T, n *namespace) {
			theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: n.name, Name: "theirs"}}
			if err := n.client.Create(t.Context(), theirs); err != nil {
				t.Fatal(err)
			}
			service := &corev1.Service{}
			if err := n.client.Get(t.Context(), client.ObjectKey{Namespace: n.name, Name: "coder"}, service); err != nil {
				t.Fatal(err)
			}
			service.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "theirs", UID: theirs.UID, Controller: ptr.To(true)}}
			n.update(t, service)
		},
		"is not made of matchLabels alone": func(t *testing.T, n *namespace) {
			d := n.deployment(t, "coder")
			if err := n.client.Delete(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			d.ResourceVersion, d.UID = "", ""
			d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "canary", Operator: metav1.LabelSelectorOpDoesNotExist}}
			if err := n.client.Create(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		},
	} {
		n := server.namespace(t)
		n.install(t, "coder-rendered.yaml", "coder")
		n.secrets(t)
		change(t, n)
		manifest, _ := Convert(Source{
			Chart: ChartCoder, Release: "coder", Namespace: n.name, Values: valuesOf(t, "coder-values.yaml"),
		})
		over := &takeover{Client: server.client, Manifest: manifest, Release: "coder", Deployment: "coder"}
		if _, err := over.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func (n *namespace) update(t *testing.T, obj client.Object) {
	t.Helper()
	if err := n.client.Update(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
}

// A release of the real chart, rendered by Helm, is taken over on a real kube-apiserver with the
// real controllers: no object is recreated, and the pod template is unchanged.
func testARunningReleaseIsTakenOver(t *testing.T, server *server) {
	for name, c := range map[string]struct {
		file, chart, release, kind, deployment string
		// handedOver are the objects in addition to the Deployment.
		handedOver []client.Object
	}{
		"control plane": {
			"coder", ChartCoder, "coder", KindControlPlane, "coder",
			[]client.Object{named(&corev1.Service{}, "coder"), named(&corev1.ServiceAccount{}, "coder"), named(&networkingv1.Ingress{}, "coder")},
		},
		"workspace proxy": {
			"proxy", ChartCoder, "sydney", KindWorkspaceProxy, "coder",
			[]client.Object{named(&corev1.Service{}, "coder"), named(&corev1.ServiceAccount{}, "coder")},
		},
		"provisioner": {
			"provisioner", ChartProvisioner, "builders", KindProvisioner, "coder-provisioner",
			[]client.Object{named(&corev1.ServiceAccount{}, "coder-provisioner")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := server.namespace(t)
			n.install(t, c.file+"-rendered.yaml", c.release)
			n.secrets(t)
			before := n.deployment(t, c.deployment)
			uids := n.uids(t, c.handedOver)

			manifest, _ := Convert(Source{
				Chart: c.chart, Release: c.release, Namespace: n.name, Values: valuesOf(t, c.file+"-values.yaml"),
			})
			over := &takeover{Client: server.client, Manifest: manifest, Release: c.release, Deployment: c.deployment}
			plan, err := over.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(plan.Differences) > 0 || len(plan.Objects) != len(c.handedOver)+1 {
				t.Fatalf("the plan is to hand over %v, and pods are replaced because of\n%s", plan.Objects, strings.Join(plan.Differences, "\n"))
			}
			if diff := cmp.Diff(before, n.deployment(t, c.deployment)); diff != "" {
				t.Fatalf("a plan changes the Deployment:\n%s", diff)
			}
			if err := over.Run(t.Context(), plan, polltest.Timeout()); err != nil {
				t.Fatal(err)
			}
			after := n.deployment(t, c.deployment)
			if after.UID != before.UID || metav1.GetControllerOf(after).Kind != c.kind {
				t.Errorf("the Deployment is another one, or not the operator's: %+v", after.ObjectMeta)
			}
			if diff := cmp.Diff(before.Spec.Template, after.Spec.Template); diff != "" {
				t.Errorf("the pods are replaced:\n%s", diff)
			}
			n.owned(t, c.handedOver, uids)
			n.settled(t, c.kind, c.release, c.deployment, after)
			n.notOwnedByHelm(t, c.deployment)
		})
	}
}

// settled checks that the operator does not change the pods, and reports their labels.
func (n *namespace) settled(t *testing.T, kind, name, deployment string, taken *appsv1.Deployment) {
	t.Helper()
	if kind == KindControlPlane {
		name = deployment
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(coderv1alpha1.GroupVersion.WithKind(kind))
	polltest.Eventually(t, kind+" "+name+" reports the selector", func() error {
		if err := n.client.Get(t.Context(), client.ObjectKey{Namespace: n.name, Name: name}, obj); err != nil {
			return err
		}
		selector, _, _ := unstructured.NestedString(obj.Object, "status", "selector")
		if want := metav1.FormatLabelSelector(taken.Spec.Selector); selector != want {
			return errors.New("the status tells the selector " + selector + ", want " + want)
		}
		return nil
	})
	if d := n.deployment(t, deployment); !cmp.Equal(d.Spec.Template, taken.Spec.Template) {
		t.Errorf("a later pass replaces the pods:\n%s", cmp.Diff(taken.Spec.Template, d.Spec.Template))
	}
}

func (n *namespace) notOwnedByHelm(t *testing.T, deployment string) {
	t.Helper()
	for _, entry := range n.deployment(t, deployment).ManagedFields {
		if strings.HasPrefix(entry.Manager, "helm") {
			t.Errorf("Helm still owns fields of the Deployment: what the operator drops would stay")
		}
	}
}

// A manual change of the pods is reported, without the value of a variable.
func testWhatReplacesPodsIsNamed(t *testing.T, server *server) {
	n := server.namespace(t)
	n.install(t, "coder-rendered.yaml", "coder")
	d := n.deployment(t, "coder")
	d.Spec.Template.Spec.Containers[0].Env = append(d.Spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: "SECRET", Value: "hunter2"})
	d.Spec.Template.Spec.DNSPolicy = corev1.DNSDefault
	if err := n.client.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	manifest, _ := Convert(Source{
		Chart: ChartCoder, Release: "coder", Namespace: n.name, Values: valuesOf(t, "coder-values.yaml"),
	})
	over := &takeover{Client: n.client, Manifest: manifest, Release: "coder", Deployment: "coder"}
	plan, err := over.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	differences := strings.Join(plan.Differences, "\n")
	for _, want := range []string{`spec.dnsPolicy: "Default" → "ClusterFirst"`, `SECRET].name: "SECRET" → nothing`, `SECRET].value: a value → nothing`} {
		if !strings.Contains(differences, want) {
			t.Errorf("%s is not listed:\n%s", want, differences)
		}
	}
	if strings.Contains(differences, "hunter2") {
		t.Errorf("a value is listed:\n%s", differences)
	}
}

func testOfSomeoneElse(t *testing.T, server *server) {
	n := server.namespace(t)
	n.install(t, "coder-rendered.yaml", "another")
	manifest, _ := Convert(Source{
		Chart: ChartCoder, Release: "coder", Namespace: n.name, Values: valuesOf(t, "coder-values.yaml"),
	})
	over := &takeover{Client: n.client, Manifest: manifest, Release: "coder", Deployment: "coder"}
	if _, err := over.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), "meta.helm.sh/release-name=coder") {
		t.Errorf("error %v, although the Deployment is of another release", err)
	}
}

type server struct {
	client client.Client
	// unused are the unused namespaces that the controllers watch.
	unused []string
}

type namespace struct {
	*server
	name string
}

func newServer(t *testing.T) *server {
	t.Helper()
	cfg := kubetest.Shared(t, filepath.Join("..", "..", "charts", "coder-k8s", "files", "crds"))
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), coderv1alpha1.AddToScheme(scheme), recordsv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{client: c}
	watched := map[string]cache.Config{}
	for range namespaces {
		name := kubetest.Namespace(t, cfg)
		s.unused = append(s.unused, name)
		watched[name] = cache.Config{}
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:      cache.Options{ByObject: framework.CacheOptions().ByObject, DefaultNamespaces: watched},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, mgr)
	return s
}

// run starts the controllers as internal/app does.
func run(t *testing.T, mgr ctrl.Manager) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	kit, err := framework.New(mgr, framework.Options{CheckAuthor: kubetest.AnyAuthor})
	if err != nil {
		t.Fatal(err)
	}
	planes := controlplane.New(kit)
	daemons, proxies := provisioner.New(kit, planes.Refused), workspaceproxy.New(kit, planes.Refused)
	err = errors.Join(
		planes.SetupWithManager(ctx, mgr), daemons.SetupWithManager(ctx, mgr), proxies.SetupWithManager(ctx, mgr))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (s *server) namespace(t *testing.T) *namespace {
	t.Helper()
	if len(s.unused) == 0 {
		t.Fatalf("the tests use more than the %d namespaces that the controllers watch", namespaces)
	}
	n := &namespace{server: s, name: s.unused[0]}
	s.unused = s.unused[1:]
	return n
}

// install creates the objects that Helm rendered, with Helm's annotations and field manager.
func (n *namespace) install(t *testing.T, file, release string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := kubetest.Objects(bytes.ReplaceAll(raw, []byte("namespace: coder"), []byte("namespace: "+n.name)))
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range objects {
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations["meta.helm.sh/release-name"], annotations["meta.helm.sh/release-namespace"] = release, n.name
		obj.SetAnnotations(annotations)
		if err := n.client.Create(t.Context(), obj, client.FieldOwner("helm")); err != nil {
			t.Fatal(err)
		}
	}
}

// secrets creates the Secrets that the pods refer to: their checksum must not replace the pods.
func (n *namespace) secrets(t *testing.T) {
	t.Helper()
	for name, key := range map[string]string{
		"coder-db-url": "url", "coder-psk": "psk", "corporate-ca": "ca.crt", "coder-tls": "tls.crt", "proxy-token": "token", "provisioner-key": "key",
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: n.name, Name: name}, StringData: map[string]string{key: "content"}}
		if err := n.client.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
}

func (n *namespace) deployment(t *testing.T, name string) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	if err := n.client.Get(t.Context(), client.ObjectKey{Namespace: n.name, Name: name}, d); err != nil {
		t.Fatal(err)
	}
	return d
}

func named(obj client.Object, name string) client.Object {
	obj.SetName(name)
	return obj
}

func (n *namespace) uids(t *testing.T, objects []client.Object) []string {
	t.Helper()
	var all []string
	for _, obj := range objects {
		if err := n.client.Get(t.Context(), client.ObjectKey{Namespace: n.name, Name: obj.GetName()}, obj); err != nil {
			t.Fatal(err)
		}
		all = append(all, string(obj.GetUID()))
	}
	return all
}

// owned waits until the operator owns the objects, and checks that they were not recreated.
func (n *namespace) owned(t *testing.T, objects []client.Object, uids []string) {
	t.Helper()
	polltest.Eventually(t, "the objects are the operator's", func() error {
		now := n.uids(t, objects)
		for i, obj := range objects {
			if now[i] != uids[i] {
				t.Fatalf("%T %s is another one", obj, obj.GetName())
			}
			if metav1.GetControllerOf(obj) == nil || obj.GetLabels()[coderv1alpha1.LabelManagedBy] != coderv1alpha1.ManagedBy {
				return errors.New(obj.GetName() + " is not the operator's")
			}
		}
		return nil
	})
}

func valuesOf(t *testing.T, file string) Values {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	set, err := ParseValues(file, raw)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

package resources

import (
	"context"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// A real kube-apiserver accepts all objects of every workload, also if they replace those of any
// other workload of the same name. The result does not depend on the previous objects.
func TestTheAPIServerTakesEveryObjectOverEveryOther(t *testing.T) {
	c := apiServer(t)
	all := ofOneName()
	for _, to := range slices.Sorted(maps.Keys(all)) {
		fresh := newCluster(t, c)
		fresh.apply(t, all[to])
		want := fresh.objects(t)
		fresh.clear(t)
		for _, from := range slices.Sorted(maps.Keys(all)) {
			t.Run(from+" to "+to, func(t *testing.T) {
				cluster := newCluster(t, c)
				defer cluster.clear(t)
				cluster.apply(t, all[from])
				cluster.prune(t, all[to])
				cluster.apply(t, all[to])
				if diff := cmp.Diff(want, cluster.objects(t)); diff != "" {
					t.Errorf("objects (-from scratch +after %s):\n%s", from, diff)
				}
			})
		}
	}
}

// ofOneName returns workloads that can replace each other.
func ofOneName() map[string]Workload {
	plain := proxy()
	plain.Spec.ExtraEnv = []corev1.EnvVar{{Name: envPodIP, Value: "192.0.2.1"}, FromSecret(EnvAccessURL, "addresses", "public")}
	plain.Spec.Deployment.Strategy = &coderv1alpha1.DeploymentStrategy{Type: "RollingUpdate"}
	plain.Spec.PodTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: plain.Container, ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			Exec: &corev1.ExecAction{Command: []string{"true"}},
		}},
	}}}}
	behindGateway := gateway()
	behindGateway.KeepReplicas = false
	behindGateway.Serving.Spec.LivenessProbe.SuccessThreshold = nil
	everything := full()
	everything.Rights = nil
	return map[string]Workload{
		"secret": sourced(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "a"}},
			corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}}),
		"configMap": sourced(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "a"},
		}}, corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}),
		"projected": sourced(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		}}}, corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 8080}}),
		"minimal": proxy(), "plain": plain, "full": everything, "gateway": behindGateway, "unreachable": unreachable(),
	}
}

// sourced returns a workload with one volume and one probe. The API server adds defaults to both,
// and those fields have no field owner.
func sourced(volume corev1.VolumeSource, ask corev1.ProbeHandler) Workload {
	w := proxy()
	w.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: volume}}
	w.Spec.VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
	w.Spec.PodTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: w.Container, StartupProbe: &corev1.Probe{ProbeHandler: ask},
	}}}}
	return w
}

func apiServer(t *testing.T) client.Client {
	t.Helper()
	module, err := filepath.Abs(moduleDir(t, "sigs.k8s.io/gateway-api"))
	if err != nil {
		t.Fatal(err)
	}
	config := kubetest.Shared(t, filepath.Join(module, "config", "crd", "standard", "gateway.networking.k8s.io_httproutes.yaml"))
	config.QPS = -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, gatewayv1.Install} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	awaitAddresses(t, c)
	return c
}

// awaitAddresses waits until the API server assigns addresses to Services. It learns the address
// ranges from its own informers, and rejects every Service before that. When it has created its own
// Service, it can assign addresses to others.
func awaitAddresses(t *testing.T, c client.Client) {
	t.Helper()
	polltest.Eventually(t, "the API server makes its own Service", func(ctx context.Context) error {
		return c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, &corev1.Service{})
	})
}

// cluster is one namespace of an API server. It contains one workload.
type cluster struct {
	client    client.Client
	applier   *apply.Applier
	namespace string
	made      map[string]client.Object
}

func newCluster(t *testing.T, c client.Client) *cluster {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return &cluster{
		client: c, applier: &apply.Applier{Client: c, Live: c, FieldOwner: "test"}, namespace: ns.Name,
		made: map[string]client.Object{},
	}
}

func (c *cluster) wanted(t *testing.T, w Workload) map[string]client.Object {
	t.Helper()
	w.Namespace = c.namespace
	all := map[string]client.Object{}
	for kind, obj := range objects(t, w) {
		if kind != "servicemonitor" {
			all[kind] = obj.(client.Object)
		}
	}
	return all
}

func (c *cluster) apply(t *testing.T, w Workload) {
	t.Helper()
	claim := apply.MarkedWith(nil, map[string]string{"test": "owner"})
	for kind, obj := range c.wanted(t, w) {
		if _, err := c.applier.Apply(t.Context(), claim, obj); err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		c.made[kind] = obj
	}
}

func (c *cluster) prune(t *testing.T, w Workload) {
	t.Helper()
	wanted := c.wanted(t, w)
	for kind, obj := range c.made {
		if wanted[kind] != nil {
			continue
		}
		if err := c.client.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
		delete(c.made, kind)
	}
}

// clear deletes the objects before the next workload, because node ports are shared by the whole
// cluster.
func (c *cluster) clear(t *testing.T) {
	t.Helper()
	for _, obj := range c.made {
		if err := c.client.Delete(t.Context(), obj); err != nil {
			t.Errorf("deleting: %v", err)
		}
	}
}

// objects returns the objects of the API server without the values that it chose.
func (c *cluster) objects(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for kind, obj := range c.made {
		live := obj.DeepCopyObject().(client.Object)
		if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(obj), live); err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if service, ok := live.(*corev1.Service); ok {
			chosen(service)
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
		if err != nil {
			t.Fatal(err)
		}
		text, err := yaml.Marshal([]any{live.GetLabels(), live.GetAnnotations(), content["spec"]})
		if err != nil {
			t.Fatal(err)
		}
		all[kind] = strings.ReplaceAll(string(text), c.namespace, "test")
	}
	return all
}

// chosen removes the addresses and ports that the API server chose.
func chosen(service *corev1.Service) {
	service.Spec.ClusterIP, service.Spec.ClusterIPs, service.Spec.HealthCheckNodePort = "", nil, 0
	for i := range service.Spec.Ports {
		service.Spec.Ports[i].NodePort = 0
	}
}

// moduleDir returns the directory with the sources of a dependency. They contain the CRDs of its
// kinds.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("asking for the sources of %s: %v", module, err)
	}
	return strings.TrimSpace(string(out))
}

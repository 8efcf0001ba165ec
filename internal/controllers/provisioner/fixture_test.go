package provisioner

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

const (
	namespace = "coder"
	name      = "gpu"
	coderURL  = "http://coder.coder.svc.cluster.local"
	feature   = coderd.FeatureExternalProvisioners
)

// fixture runs the controller against a fake cluster and a fake Coder with a license.
type fixture struct {
	*controllertest.Fixture[*coderv1alpha1.CoderProvisioner]
	coder   *coderdtest.Server
	token   string
	r       *Reconciler
	refused []types.NamespacedName

	// everyRequest makes the fault count each request to Coder, and not only those that write.
	everyRequest bool
	// behind contains the versions of Secrets that the stale cache still has.
	behind map[string]string
	// slow pods end only when the test ends them.
	slow bool
}

func newFixture(t testing.TB, objects ...client.Object) *fixture {
	t.Helper()
	f := &fixture{
		Fixture: controllertest.New(t, controllertest.Options[*coderv1alpha1.CoderProvisioner]{
			Name: types.NamespacedName{Namespace: namespace, Name: name}, Deployment: "provisioner-gpu",
			Status: func(cr *coderv1alpha1.CoderProvisioner) *coderv1alpha1.WorkloadStatus {
				return &cr.Status.WorkloadStatus
			},
			Further: func(b *fake.ClientBuilder) {
				b.WithIndex(&coderv1alpha1.CoderProvisioner{}, framework.IndexControlPlane, framework.IndexByControlPlane(controlPlaneOf))
			},
		}),
		behind: map[string]string{},
	}
	f.World = f.roll
	f.coder = coderdtest.New(t, coderdtest.WithClock(f.Clock), coderdtest.WithLicensing())
	f.coder.SetFeature(feature, "entitled")
	f.token = f.coder.AddUser("operator", "owner")
	f.Build(append(objects, controllertest.Secret(namespace, "coder-operator-token", map[string]string{"token": f.token}))...)
	f.restart()
	return f
}

// restart creates a new controller with empty state, like a new process.
func (f *fixture) restart() {
	f.Fault.Set(0, false)
	kit := framework.NewWith(f.Cluster, f.Cluster, f.Events, framework.Options{
		Clock: f.Clock, Metadata: bareMetadata{f.Cluster, f.behind}, CheckAuthor: kubetest.AnyAuthor,
		NewClient: func(cfg coderd.Config) (*coderd.Client, error) {
			if cfg.URL != coderURL {
				return nil, fmt.Errorf("the controller calls %q, want %q", cfg.URL, coderURL)
			}
			cfg.URL, cfg.Transport = f.coder.URL, f.Fault.Writes()
			if f.everyRequest {
				cfg.Transport = f.Fault
			}
			return coderd.New(cfg)
		},
	})
	f.r = New(kit, func(key types.NamespacedName) { f.refused = append(f.refused, key) })
	f.Reconciler = f.r
}

// bareMetadata is a cache of metadata without annotations, like the manager's. It may be stale.
type bareMetadata struct {
	client.Reader
	versions map[string]string
}

func (b bareMetadata) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := b.Reader.Get(ctx, key, obj, opts...)
	obj.SetAnnotations(nil)
	if version, behind := b.versions[key.Name]; behind {
		obj.SetResourceVersion(version)
	}
	return err
}

func (b bareMetadata) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := b.Reader.List(ctx, list, opts...)
	if partial, ok := list.(*metav1.PartialObjectMetadataList); ok {
		for i := range partial.Items {
			partial.Items[i].Annotations = nil
		}
	}
	return err
}

// roll does the work of the Deployment controller, the garbage collector and the kubelet: it
// creates new pods immediately and deletes old ones, unless they are slow. It reports whether it
// changed something.
func (f *fixture) roll() bool {
	f.T.Helper()
	d := &appsv1.Deployment{}
	wanted, template := int32(0), ""
	exists := f.Has(resources.ProvisionerDeploymentName(name), d)
	if exists {
		wanted = ptr.Deref(d.Spec.Replicas, 1)
		raw, err := json.Marshal(d.Spec.Template)
		f.Must(err)
		template = string(raw)
	}
	did, fresh := false, int32(0)
	for _, pod := range f.pods() {
		switch {
		case pod.Annotations["template"] == template && fresh < wanted && pod.DeletionTimestamp == nil:
			fresh++
		case f.slow && pod.DeletionTimestamp != nil:
		case f.slow:
			// It is terminating while its job continues.
			pod.Finalizers = []string{"test/job"}
			f.Update(&pod)
			f.Remove(&pod)
			did = true
		case pod.DeletionTimestamp != nil:
			pod.Finalizers = nil
			f.Update(&pod)
			did = true
		default:
			f.Remove(&pod)
			did = true
		}
	}
	for ; fresh < wanted; fresh++ {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			GenerateName: "pod-", Namespace: namespace, Labels: d.Spec.Template.Labels, Annotations: map[string]string{"template": template},
		}}
		pod.Annotations[coderv1alpha1.AnnotationProvisionerKeyID] = d.Spec.Template.Annotations[coderv1alpha1.AnnotationProvisionerKeyID]
		f.Create(pod)
		did = true
	}
	if !exists {
		return did
	}
	return f.PodsReady(wanted) || did
}

func (f *fixture) pods() []corev1.Pod {
	f.T.Helper()
	list := &corev1.PodList{}
	f.Must(f.Cluster.List(f.T.Context(), list, client.InNamespace(namespace)))
	return list.Items
}

func (f *fixture) editControlPlane(change func(cp *coderv1alpha1.CoderControlPlane)) {
	f.T.Helper()
	cp := &coderv1alpha1.CoderControlPlane{}
	f.Get("coder", cp)
	change(cp)
	status := cp.DeepCopy()
	f.Update(cp)
	status.ResourceVersion = cp.ResourceVersion
	f.UpdateStatus(status)
}

func (f *fixture) keyNames() string {
	var names []string
	for _, k := range f.coder.ProvisionerKeys("coder") {
		names = append(names, k.Name)
	}
	return strings.Join(names, " ")
}

// mustNotLeak checks that the status, the Deployment and the Events do not contain keys or the
// token.
func (f *fixture) mustNotLeak() {
	f.T.Helper()
	secrets := []string{f.token}
	for _, k := range f.coder.ProvisionerKeys("coder") {
		secrets = append(secrets, k.Text)
	}
	f.MustNotExpose(secrets, f.Deployment())
}

func newProvisioner(changes ...func(*coderv1alpha1.CoderProvisioner)) *coderv1alpha1.CoderProvisioner {
	cr := &coderv1alpha1.CoderProvisioner{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, UID: "cr-uid", Generation: 1,
			CreationTimestamp: metav1.NewTime(time.Date(2026, 11, 21, 11, 0, 0, 0, time.UTC)),
		},
		Spec: coderv1alpha1.CoderProvisionerSpec{
			ControlPlaneRef: &coderv1alpha1.ControlPlaneReference{Name: "coder"}, OrganizationName: "default",
			Tags: map[string]string{"zone": "a"}, WorkloadSpec: coderv1alpha1.WorkloadSpec{Replicas: ptr.To[int32](2)},
		},
	}
	for _, change := range changes {
		change(cr)
	}
	return cr
}

func newControlPlane() *coderv1alpha1.CoderControlPlane {
	return &coderv1alpha1.CoderControlPlane{
		ObjectMeta: metav1.ObjectMeta{Name: "coder", Namespace: namespace, UID: "cp-uid", Generation: 1},
		Spec:       coderv1alpha1.CoderControlPlaneSpec{Image: "registry.example.com/coder:v2.30.0"},
		Status: coderv1alpha1.CoderControlPlaneStatus{
			URL: coderURL, Image: "registry.example.com/coder:v2.30.0", OperatorAccessReady: true,
			OperatorTokenSecretRef: &coderv1alpha1.TokenSecretReference{Name: "coder-operator-token", Key: "token"},
		},
	}
}

// readyFixture returns a fixture whose provisioner is Ready.
func readyFixture(t testing.TB, changes ...func(*coderv1alpha1.CoderProvisioner)) *fixture {
	t.Helper()
	f := newFixture(t, newProvisioner(changes...), newControlPlane())
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	return f
}

func eachItem(list client.ObjectList, do func(client.Object)) error {
	return meta.EachListItem(list, func(item runtime.Object) error {
		if obj, ok := item.(client.Object); ok {
			do(obj)
		}
		return nil
	})
}

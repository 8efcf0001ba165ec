package apply_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	recordsv1alpha1 "github.com/coder-k8s/coder-k8s/api/records/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// examples returns an object of some built-in kinds and of a kind with a CRD.
func examples(namespace string) map[string]client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "web"}
	labels := map[string]string{"app": "web"}
	deployment := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "a:1"}}},
		},
	}}
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Selector: labels, Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
	}}
	return map[string]client.Object{
		"Deployment": deployment, "Service": service, "ServiceAccount": &corev1.ServiceAccount{ObjectMeta: meta},
		"Role":             &rbacv1.Role{ObjectMeta: meta},
		"CoderMirrorState": &recordsv1alpha1.CoderMirrorState{ObjectMeta: meta, Spec: recordsv1alpha1.MirrorStateSpec{State: "Ready"}},
	}
}

// TestAgainstAnAPIServer checks that a real kube-apiserver creates an object without a read before,
// and rejects the same request if the object exists.
func TestAgainstAnAPIServer(t *testing.T) {
	t.Parallel()
	config := kubetest.Shared(t, filepath.Join("..", "..", "..", "charts", "coder-k8s", "files", "crds"))
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	scheme.AddKnownTypes(recordsv1alpha1.GroupVersion, &recordsv1alpha1.CoderMirrorState{})
	metav1.AddToGroupVersion(scheme, recordsv1alpha1.GroupVersion)
	cluster, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	namespace := kubetest.Namespace(t, config)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "owner"}}
	stranger := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "stranger"}}
	for _, obj := range []client.Object{owner, stranger} {
		if err := cluster.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	for kind, example := range examples(namespace) {
		t.Run(kind, func(t *testing.T) {
			gvk, err := cluster.GroupVersionKindFor(example)
			if err != nil {
				t.Fatal(err)
			}
			example.GetObjectKind().SetGroupVersionKind(gvk)
			fresh := func() client.Object { return example.DeepCopyObject().(client.Object) }
			claim := apply.ControlledBy(owner, scheme)
			strangers := newBlind(cluster)
			if changed, err := strangers.Apply(t.Context(), apply.ControlledBy(stranger, scheme), fresh()); !changed || err != nil {
				t.Fatalf("an object that does not exist: changed %v, error %v", changed, err)
			}
			theirs := fresh()
			mustRead(t, cluster, theirs)
			if fields := theirs.GetManagedFields(); len(fields) != 1 || fields[0].Operation != metav1.ManagedFieldsOperationApply {
				t.Errorf("managed fields %+v, want those of one apply", fields)
			}
			if strangers.reads != 0 {
				t.Errorf("%d reads to create an object, want none", strangers.reads)
			}

			var refused *apply.NotOwnedError
			if _, err := newBlind(cluster).Apply(t.Context(), claim, fresh()); !errors.As(err, &refused) {
				t.Errorf("an object of another owner: error %v, want a NotOwnedError", err)
			}
			mustBeUnchanged(t, cluster, theirs)

			// The object is its own, and another process applied it.
			again := newBlind(cluster)
			if changed, err := again.Apply(t.Context(), apply.ControlledBy(stranger, scheme), fresh()); changed || err != nil || again.reads != 1 {
				t.Errorf("its own object: changed %v, error %v, %d reads", changed, err, again.reads)
			}
			mustBeUnchanged(t, cluster, theirs)
		})
	}
}

// blind is an Applier whose cache contains nothing. It counts the reads from the API server.
type blind struct {
	*apply.Applier
	reads int
}

func newBlind(cluster client.WithWatch) *blind {
	b := &blind{}
	b.Applier = &apply.Applier{
		FieldOwner: "test-operator",
		Client: interceptor.NewClient(cluster, interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, "web")
			},
		}),
		Live: interceptor.NewClient(cluster, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				b.reads++
				return c.Get(ctx, key, obj, opts...)
			},
		}),
	}
	return b
}

func mustRead(t *testing.T, cluster client.Client, obj client.Object) {
	t.Helper()
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		t.Fatal(err)
	}
}

func mustBeUnchanged(t *testing.T, cluster client.Client, before client.Object) {
	t.Helper()
	after := before.DeepCopyObject().(client.Object)
	mustRead(t, cluster, after)
	if after.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("the object was changed: %+v", after)
	}
}

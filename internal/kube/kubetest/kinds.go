package kubetest

import (
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Kinds are the kinds that the fake clusters of a package serve. Registering them takes longer than
// most tests. So a package registers them once, for its first cluster, and all its tests share
// them.
type Kinds struct {
	add       []func(*runtime.Scheme) error
	build     sync.Once
	failed    error
	scheme    *runtime.Scheme
	converter managedfields.TypeConverter
	// alone contains for each kind a scheme with only that kind and its list.
	alone map[schema.GroupVersionResource]*runtime.Scheme
}

// KindsOf returns the kinds that the functions register.
func KindsOf(add ...func(*runtime.Scheme) error) *Kinds { return &Kinds{add: add} }

// Scheme returns the scheme with the kinds.
func (k *Kinds) Scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	k.build.Do(func() { k.failed = k.register() })
	if k.failed != nil {
		t.Fatal(k.failed)
	}
	return k.scheme
}

// Cluster returns a builder for a new fake cluster.
func (k *Kinds) Cluster(t testing.TB) *fake.ClientBuilder {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(k.Scheme(t)).
		WithObjectTracker(&tracker{kinds: k, of: map[schema.GroupVersionResource]clienttesting.ObjectTracker{}})
}

func (k *Kinds) register() error {
	k.scheme, k.alone = runtime.NewScheme(), map[schema.GroupVersionResource]*runtime.Scheme{}
	for _, register := range k.add {
		if err := register(k.scheme); err != nil {
			return err
		}
	}
	var err error
	if k.converter, err = newConverter(); err != nil {
		return err
	}
	for kind := range k.scheme.AllKnownTypes() {
		list := kind.GroupVersion().WithKind(kind.Kind + "List")
		if !k.scheme.Recognizes(list) {
			continue
		}
		alone := runtime.NewScheme()
		for _, known := range []schema.GroupVersionKind{kind, list} {
			object, err := k.scheme.New(known)
			if err != nil {
				return err
			}
			alone.AddKnownTypeWithName(known, object)
		}
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		k.alone[resource] = alone
	}
	return nil
}

// tracker stores the objects of a cluster. The library's tracker iterates over all its kinds at
// each write, so each kind has a tracker of its own here.
type tracker struct {
	kinds *Kinds

	mu sync.Mutex
	of map[schema.GroupVersionResource]clienttesting.ObjectTracker
}

func (t *tracker) trackerOf(resource schema.GroupVersionResource) clienttesting.ObjectTracker {
	t.mu.Lock()
	defer t.mu.Unlock()
	if found, ok := t.of[resource]; ok {
		return found
	}
	scheme, ok := t.kinds.alone[resource]
	if !ok {
		scheme = t.kinds.scheme
	}
	made := clienttesting.NewFieldManagedObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder(), t.kinds.converter)
	t.of[resource] = made
	return made
}

// Add implements testing.ObjectTracker.
func (t *tracker) Add(obj runtime.Object) error {
	kinds, _, err := t.kinds.scheme.ObjectKinds(obj)
	if err != nil {
		return err
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	if meta.IsListType(obj) {
		kind := kinds[0].GroupVersion().WithKind(strings.TrimSuffix(kinds[0].Kind, "List"))
		resource, _ = meta.UnsafeGuessKindToResource(kind)
	}
	return t.trackerOf(resource).Add(obj)
}

// Get implements testing.ObjectTracker.
func (t *tracker) Get(resource schema.GroupVersionResource, namespace, name string, opts ...metav1.GetOptions) (runtime.Object, error) {
	return t.trackerOf(resource).Get(resource, namespace, name, opts...)
}

// List implements testing.ObjectTracker.
func (t *tracker) List(resource schema.GroupVersionResource, kind schema.GroupVersionKind, namespace string, opts ...metav1.ListOptions) (runtime.Object, error) {
	return t.trackerOf(resource).List(resource, kind, namespace, opts...)
}

// Watch implements testing.ObjectTracker.
func (t *tracker) Watch(resource schema.GroupVersionResource, namespace string, opts ...metav1.ListOptions) (watch.Interface, error) {
	return t.trackerOf(resource).Watch(resource, namespace, opts...)
}

// Create implements testing.ObjectTracker.
func (t *tracker) Create(resource schema.GroupVersionResource, obj runtime.Object, namespace string, opts ...metav1.CreateOptions) error {
	return t.trackerOf(resource).Create(resource, obj, namespace, opts...)
}

// Update implements testing.ObjectTracker.
func (t *tracker) Update(resource schema.GroupVersionResource, obj runtime.Object, namespace string, opts ...metav1.UpdateOptions) error {
	return t.trackerOf(resource).Update(resource, obj, namespace, opts...)
}

// Patch implements testing.ObjectTracker.
func (t *tracker) Patch(resource schema.GroupVersionResource, obj runtime.Object, namespace string, opts ...metav1.PatchOptions) error {
	return t.trackerOf(resource).Patch(resource, obj, namespace, opts...)
}

// Apply implements testing.ObjectTracker.
func (t *tracker) Apply(resource schema.GroupVersionResource, obj runtime.Object, namespace string, opts ...metav1.PatchOptions) error {
	return t.trackerOf(resource).Apply(resource, obj, namespace, opts...)
}

// Delete implements testing.ObjectTracker.
func (t *tracker) Delete(resource schema.GroupVersionResource, namespace, name string, opts ...metav1.DeleteOptions) error {
	return t.trackerOf(resource).Delete(resource, namespace, name, opts...)
}

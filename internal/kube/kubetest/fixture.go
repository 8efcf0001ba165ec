package kubetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/coder-k8s/coder-k8s/internal/kube/author"
)

// Fixture is a fake cluster, a clock, and a process whose writes may fail. Packages that support tests
// extend it.
type Fixture struct {
	T testing.TB
	// Namespace is the namespace of most objects.
	Namespace string
	Cluster   client.WithWatch
	Clock     *clocktesting.FakePassiveClock
	// Fault disturbs the writes of the process.
	Fault *Fault
	// RejectApply makes an apply fail. It may be nil.
	RejectApply func(client.Object) error
	// AfterWrite is called after each write. It may be nil.
	AfterWrite func()

	mu     sync.Mutex
	writes []string
	uids   int
}

// NewFixture returns a fixture without a cluster. Build creates it.
func NewFixture(t testing.TB, namespace string, now time.Time) *Fixture {
	return &Fixture{T: t, Namespace: namespace, Clock: clocktesting.NewFakePassiveClock(now), Fault: &Fault{}}
}

// Build creates the cluster.
func (f *Fixture) Build(builder *fake.ClientBuilder) {
	f.Cluster = builder.WithInterceptorFuncs(f.interceptors()).Build()
}

// interceptors returns interceptors that record every write and apply the fault to it.
func (f *Fixture) interceptors() interceptor.Funcs {
	write := func(verb string, obj client.Object, do func() error) error {
		return f.record(verb, obj, f.Fault.Around(do))
	}
	return interceptor.Funcs{
		// client-go sends no request for a name that is invalid in a path.
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if strings.Contains(key.Name, "/") {
				return fmt.Errorf("invalid resource name %q", key.Name)
			}
			return c.Get(ctx, key, obj, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if self, ok := obj.(*authenticationv1.SelfSubjectReview); ok {
				self.Status.UserInfo = authenticationv1.UserInfo{Username: "operator", Groups: []string{"system:serviceaccounts"}}
				return nil
			}
			f.giveUID(obj)
			return write("create", obj, func() error { return c.Create(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return write("update", obj, func() error { return c.Update(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return f.record("delete", obj, f.Fault.AroundDeletion(func() error { return c.Delete(ctx, obj, opts...) }, opts...))
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return write("patch", obj, func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return write("patch "+sub, obj, func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, applied runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			obj, ok := applied.(client.Object)
			if !ok {
				return fmt.Errorf("%T is not an object", applied)
			}
			if f.RejectApply != nil {
				if err := f.RejectApply(obj); err != nil {
					return err
				}
			}
			return write("apply", obj, func() error { return Apply(ctx, c, applied, opts...) })
		},
	}
}

// record records a write as "verb Kind namespace/name". It returns the error of the write.
func (f *Fixture) record(verb string, obj client.Object, err error) error {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if known, err := apiutil.GVKForObject(obj, f.Cluster.Scheme()); err == nil {
		kind = known.Kind
	}
	if f.AfterWrite != nil {
		f.AfterWrite()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes = append(f.writes, fmt.Sprintf("%s %s %s/%s", verb, kind, obj.GetNamespace(), obj.GetName()))
	return err
}

// giveUID sets the uid of a new object like an API server.
func (f *Fixture) giveUID(obj client.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if obj.GetUID() == "" {
		f.uids++
		obj.SetUID(types.UID(fmt.Sprintf("uid-%d", f.uids)))
	}
}

// TakeWrites returns the writes since the last call.
func (f *Fixture) TakeWrites() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	writes := f.writes
	f.writes = nil
	return writes
}

// Writes returns the number of writes since the last call of TakeWrites.
func (f *Fixture) Writes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.writes)
}

// Forward advances the clock.
func (f *Fixture) Forward(d time.Duration) { f.Clock.SetTime(f.Clock.Now().Add(d)) }

// Must fails the test if there is an error.
func (f *Fixture) Must(err error) {
	f.T.Helper()
	if err != nil {
		f.T.Fatal(err)
	}
}

// Find reads an object, and reports whether it exists.
func (f *Fixture) Find(namespace, name string, obj client.Object) bool {
	f.T.Helper()
	err := f.Cluster.Get(f.T.Context(), types.NamespacedName{Namespace: namespace, Name: name}, obj)
	f.Must(client.IgnoreNotFound(err))
	return !apierrors.IsNotFound(err)
}

// Has is Find in the namespace of the fixture.
func (f *Fixture) Has(name string, obj client.Object) bool {
	f.T.Helper()
	return f.Find(f.Namespace, name, obj)
}

// Get reads an object that exists, in the namespace of the fixture.
func (f *Fixture) Get(name string, obj client.Object) {
	f.T.Helper()
	f.GetIn(f.Namespace, name, obj)
}

// GetIn is Get in any namespace.
func (f *Fixture) GetIn(namespace, name string, obj client.Object) {
	f.T.Helper()
	if !f.Find(namespace, name, obj) {
		f.T.Fatalf("%T %s/%s does not exist", obj, namespace, name)
	}
}

// List reads all objects of a kind.
func (f *Fixture) List(list client.ObjectList) {
	f.T.Helper()
	f.Must(f.Cluster.List(f.T.Context(), list))
}

// Create creates an object like a user.
func (f *Fixture) Create(obj client.Object) {
	f.T.Helper()
	f.Fault.Without(func() { f.Must(f.Cluster.Create(f.T.Context(), obj)) })
}

// Update updates an object like a user.
func (f *Fixture) Update(obj client.Object) {
	f.T.Helper()
	f.Fault.Without(func() { f.Must(f.Cluster.Update(f.T.Context(), obj)) })
}

// Remove deletes an object like a user.
func (f *Fixture) Remove(obj client.Object) {
	f.T.Helper()
	f.Fault.Without(func() { f.Must(f.Cluster.Delete(f.T.Context(), obj)) })
}

// UpdateStatus updates the status of an object like its controller.
func (f *Fixture) UpdateStatus(obj client.Object) {
	f.T.Helper()
	f.Fault.Without(func() { f.Must(f.Cluster.SubResource("status").Update(f.T.Context(), obj)) })
}

// AnyAuthor allows every author to grant everything. It is for tests without the admission policy
// that records authors.
func AnyAuthor(context.Context, client.Object, author.Grant) error { return nil }

// noVersion is the resource version with which package apply creates objects. That package's own
// tests import this one, so the constant is repeated here.
const noVersion = "9223372036854775807"

// Apply applies an object like kube-apiserver if the object has noVersion: a conflict if the object
// exists, and otherwise the object is created with its first version. The fake client would create
// it with noVersion. Interceptors of Apply call this function.
func Apply(ctx context.Context, c client.Client, applied runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	object, ok := applied.(client.Object)
	if !ok || object.GetResourceVersion() != noVersion {
		return c.Apply(ctx, applied, opts...)
	}
	kind := object.GetObjectKind().GroupVersionKind()
	existing := &metav1.PartialObjectMetadata{}
	existing.SetGroupVersionKind(kind)
	switch err := c.Get(ctx, client.ObjectKeyFromObject(object), existing); {
	case err == nil:
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		return apierrors.NewConflict(schema.GroupResource{Group: kind.Group, Resource: resource.Resource}, object.GetName(),
			errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("looking for %s %s: %w", kind.Kind, object.GetName(), err)
	}
	object.SetResourceVersion("")
	return c.Apply(ctx, applied, opts...)
}

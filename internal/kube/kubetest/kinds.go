package kubetest

import (
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	clientgoapplyconfigurations "k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Kinds are the kinds that the fake clusters of a package serve. Registering them takes longer than
// most tests. So a package registers them once, for its first cluster, and all its tests share
// them.
type Kinds struct {
	register func() (*runtime.Scheme, error)
}

// KindsOf returns the kinds that the functions register.
func KindsOf(add ...func(*runtime.Scheme) error) *Kinds {
	return &Kinds{register: sync.OnceValues(func() (*runtime.Scheme, error) {
		scheme := runtime.NewScheme()
		return scheme, (*runtime.SchemeBuilder)(&add).AddToScheme(scheme)
	})}
}

// Scheme returns the scheme with the kinds.
func (k *Kinds) Scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme, err := k.register()
	if err != nil {
		t.Fatal(err)
	}
	return scheme
}

// Cluster returns a builder for a new fake cluster.
func (k *Kinds) Cluster(t testing.TB) *fake.ClientBuilder {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(k.Scheme(t)).WithTypeConverters(kubernetesTypes(), managedfields.NewDeducedTypeConverter())
}

// kubernetesTypes returns a converter like that of the fake client's builder, which rejects each
// NetworkPolicy: the fake adds an empty status to the applied object, and NetworkPolicy has no
// status.
var kubernetesTypes = sync.OnceValue(func() managedfields.TypeConverter {
	return withoutEmptyStatus{clientgoapplyconfigurations.NewTypeConverter(clientgoscheme.Scheme)}
})

type withoutEmptyStatus struct{ managedfields.TypeConverter }

// ObjectToTyped implements managedfields.TypeConverter.
func (c withoutEmptyStatus) ObjectToTyped(obj runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	if content, ok := obj.(*unstructured.Unstructured); ok {
		if status, found := content.Object["status"]; found && status == nil {
			delete(content.Object, "status")
		}
	}
	return c.TypeConverter.ObjectToTyped(obj, options...)
}

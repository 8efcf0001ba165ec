package applytest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	clientgoapplyconfigurations "k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Converters are for WithTypeConverters of the fake client's builder. Its own refuse
// each NetworkPolicy: the fake puts an empty status into what is applied, and that
// kind has none.
func Converters() ([]managedfields.TypeConverter, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("building the scheme of Kubernetes: %w", err)
	}
	return []managedfields.TypeConverter{
		withoutEmptyStatus{clientgoapplyconfigurations.NewTypeConverter(scheme)},
		managedfields.NewDeducedTypeConverter(),
	}, nil
}

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

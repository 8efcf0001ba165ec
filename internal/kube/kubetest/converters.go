package kubetest

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	clientgoapplyconfigurations "k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// newConverter returns a converter like that of the fake client's builder, which rejects each
// NetworkPolicy: the fake adds an empty status to the applied object, and NetworkPolicy has no
// status.
func newConverter() (managedfields.TypeConverter, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("building the scheme of Kubernetes: %w", err)
	}
	return firstOf{
		withoutEmptyStatus{clientgoapplyconfigurations.NewTypeConverter(scheme)},
		managedfields.NewDeducedTypeConverter(),
	}, nil
}

// firstOf uses the first converter that supports the type.
type firstOf []managedfields.TypeConverter

// ObjectToTyped implements managedfields.TypeConverter.
func (c firstOf) ObjectToTyped(obj runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	var failed []error
	for _, converter := range c {
		value, err := converter.ObjectToTyped(obj, options...)
		if err == nil {
			return value, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

// TypedToObject implements managedfields.TypeConverter.
func (c firstOf) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	var failed []error
	for _, converter := range c {
		obj, err := converter.TypedToObject(value)
		if err == nil {
			return obj, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
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

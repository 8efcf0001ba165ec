package registry

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// NewScheme returns the scheme and its codecs. Each kind adds its own registrations. The served types
// are their own internal version, so there are no conversions that could lose a field.
func NewScheme(kinds ...func(*runtime.Scheme) error) (*runtime.Scheme, serializer.CodecFactory) {
	s := runtime.NewScheme()
	utilruntime.Must(aggregationv1alpha1.AddToScheme(s))
	internal := schema.GroupVersion{Group: aggregationv1alpha1.GroupVersion.Group, Version: runtime.APIVersionInternal}
	s.AddKnownTypes(internal, aggregationv1alpha1.Types()...)
	for _, add := range kinds {
		utilruntime.Must(add(s))
	}
	utilruntime.Must(s.SetVersionPriority(aggregationv1alpha1.GroupVersion))

	// Options and errors of every API are in the core group.
	core := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(s, core)
	s.AddUnversionedTypes(core, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return s, serializer.NewCodecFactory(s)
}

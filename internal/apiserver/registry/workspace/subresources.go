package workspace

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// Store is what the subresources stand on.
type Store interface {
	rest.Getter
	Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
		updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error)
}

// Subresources are the storages below coderworkspaces, by name.
func (k *Kind) Subresources(store Store) map[string]rest.Storage {
	return map[string]rest.Storage{
		"scale":   &scaleREST{store: store},
		"start":   &actionREST{store: store, action: actionStart},
		"stop":    &actionREST{store: store, action: actionStop},
		"restart": &actionREST{store: store, action: actionRestart},
		"log":     &logREST{store: store, kind: k},
	}
}

// AddToScheme registers what clients may ask of workspaces beyond the types: the
// fields of selectors, the query of the log, and the Scale.
func AddToScheme(s *runtime.Scheme) error {
	gvk := aggregationv1alpha1.GroupVersion.WithKind(kindName)
	if err := s.AddFieldLabelConversionFunc(gvk, FieldLabel); err != nil {
		return err
	}
	scale := autoscalingv1.SchemeGroupVersion
	s.AddKnownTypes(scale, &autoscalingv1.Scale{})
	s.AddKnownTypes(schema.GroupVersion{Group: scale.Group, Version: runtime.APIVersionInternal}, &autoscalingv1.Scale{})
	metav1.AddToGroupVersion(s, scale)
	return s.AddConversionFunc((*url.Values)(nil), (*aggregationv1alpha1.CoderWorkspaceLogOptions)(nil),
		func(query, options any, _ conversion.Scope) error {
			return readLogOptions(*query.(*url.Values), options.(*aggregationv1alpha1.CoderWorkspaceLogOptions))
		})
}

// readLogOptions reads the query of a log.
func readLogOptions(query url.Values, options *aggregationv1alpha1.CoderWorkspaceLogOptions) error {
	read := func(name string, parse func(text string) error) error {
		text := query.Get(name)
		if text == "" {
			return nil
		}
		if err := parse(text); err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("the query parameter %s=%s cannot be read: %v", name, text, err))
		}
		return nil
	}
	if err := read("follow", func(text string) (err error) {
		options.Follow, err = strconv.ParseBool(text)
		return err
	}); err != nil {
		return err
	}
	if err := read("build", func(text string) error {
		number, err := strconv.ParseInt(text, 10, 32)
		options.Build = int32(number)
		return err
	}); err != nil {
		return err
	}
	return read("after", func(text string) (err error) {
		options.After, err = strconv.ParseInt(text, 10, 64)
		return err
	})
}

// changeOf is an update that changes the workspace that is there.
type changeOf struct {
	preconditions func() *metav1.Preconditions
	change        func(ctx context.Context, ws *aggregationv1alpha1.CoderWorkspace) error
}

var _ rest.UpdatedObjectInfo = changeOf{}

// Preconditions implements rest.UpdatedObjectInfo.
func (c changeOf) Preconditions() *metav1.Preconditions {
	if c.preconditions == nil {
		return nil
	}
	return c.preconditions()
}

// UpdatedObject implements rest.UpdatedObjectInfo.
func (c changeOf) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	ws, ok := old.DeepCopyObject().(*aggregationv1alpha1.CoderWorkspace)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("%T is no CoderWorkspace", old))
	}
	return ws, c.change(ctx, ws)
}

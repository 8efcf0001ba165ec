package installation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// asking is a client that checks its permission before each read. So a missing permission
// does not cause a forbidden request in the cluster's audit log, which would look like a
// misconfiguration.
type asking struct{ client.Client }

// Get implements client.Reader.
func (a asking) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	if err := a.may(ctx, "get", key, obj); err != nil {
		return err
	}
	return a.Client.Get(ctx, key, obj, options...)
}

// List implements client.Reader.
func (a asking) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	var given client.ListOptions
	given.ApplyOptions(options)
	if err := a.may(ctx, "list", client.ObjectKey{Namespace: given.Namespace}, list); err != nil {
		return err
	}
	return a.Client.List(ctx, list, options...)
}

// may returns the same error as kube-apiserver if the caller has no permission.
func (a asking) may(ctx context.Context, verb string, key client.ObjectKey, obj runtime.Object) error {
	kind, err := a.GroupVersionKindFor(obj)
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", obj, err)
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	mapping, err := a.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		// The request itself returns the error for a kind that the cluster does not serve.
		return nil
	}
	if err != nil {
		return fmt.Errorf("finding the resource of %s: %w", kind, err)
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: key.Namespace, Name: key.Name, Verb: verb,
			Group: mapping.Resource.Group, Version: mapping.Resource.Version, Resource: mapping.Resource.Resource,
		},
	}}
	if err := a.Create(ctx, review); err != nil || review.Status.Allowed {
		// If the permission cannot be checked, send the request.
		return nil //nolint:nilerr // The question is a courtesy.
	}
	return apierrors.NewForbidden(mapping.Resource.GroupResource(), key.Name, errors.New("the right was asked for and is not there"))
}

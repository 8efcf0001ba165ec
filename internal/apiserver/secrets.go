package apiserver

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
)

// readSecret returns a function that reads one key of a Secret, for a template's variable or a
// user's password. The value must not be shown to any client.
func readSecret(client kubernetes.Interface) func(ctx context.Context, namespace, name, key string) (string, error) {
	return func(ctx context.Context, namespace, name, key string) (string, error) {
		secret, err := client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		value, ok := secret.Data[key]
		if !ok {
			return "", apierrors.NewNotFound(corev1.Resource("secrets"), fmt.Sprintf("%s, key %s", name, key))
		}
		return string(value), nil
	}
}

// mayReadSecret returns a function that checks whether a user may read a Secret. Otherwise the user
// could read its content with a template.
func mayReadSecret(client kubernetes.Interface) func(ctx context.Context, who user.Info, namespace, name string) error {
	return func(ctx context.Context, who user.Info, namespace, name string) error {
		extra := make(map[string]authorizationv1.ExtraValue, len(who.GetExtra()))
		for key, values := range who.GetExtra() {
			extra[key] = values
		}
		review, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(), Extra: extra,
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: namespace, Verb: "get", Version: "v1", Resource: "secrets", Name: name,
				},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return coderfault.Unavailable(fmt.Sprintf("it cannot be checked now whether %q may get Secret %q: %v", who.GetName(), name, err), retryAfter)
		}
		if !review.Status.Allowed {
			return apierrors.NewForbidden(corev1.Resource("secrets"), name,
				fmt.Errorf("%q may not get this Secret in namespace %q, so it cannot be used here", who.GetName(), namespace))
		}
		return nil
	}
}

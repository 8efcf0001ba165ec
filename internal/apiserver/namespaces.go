package apiserver

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
)

// namespaces implements registry.Namespaces. It shares the informer cache of the admission plugin
// NamespaceLifecycle.
type namespaces struct {
	cache  corev1listers.NamespaceLister
	client kubernetes.Interface
}

// Released implements registry.Namespaces. A namespace that is not in the cache does not count as
// released, because the cache may lag behind.
func (n *namespaces) Released(name string) bool {
	namespace, err := n.cache.Get(name)
	return err == nil && namespace.DeletionTimestamp != nil
}

// ReleasedNow implements registry.Namespaces. If the namespace cannot be read, it returns an error,
// so that nothing is deleted.
func (n *namespaces) ReleasedNow(ctx context.Context, name string) (bool, error) {
	namespace, err := n.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, coderfault.Unavailable(fmt.Sprintf(
			"nothing is deleted, because it cannot be checked whether namespace %q itself is being deleted: %v", name, err), 0)
	default:
		return namespace.DeletionTimestamp != nil, nil
	}
}

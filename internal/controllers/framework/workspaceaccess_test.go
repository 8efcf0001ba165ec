package framework

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// In a namespace that is being deleted the operator's permissions may be gone before the namespace.
func TestADeletionWaitsAMinuteForAForbiddenNamespace(t *testing.T) {
	for name, c := range map[string]struct {
		watched   []string
		forbidden string
		gone      bool
	}{
		"another namespace":      {[]string{"coder", "deleted", "work"}, "deleted", true},
		"its own namespace":      {[]string{"coder", "work"}, "coder", false},
		"all namespaces at once": {nil, metav1.NamespaceAll, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, newControlPlane(func(cp *coderv1alpha1.CoderControlPlane) {
				cp.Spec.RBAC.WorkspaceNamespaces = []string{"work"}
			}))
			f.options.Namespaces = c.watched
			f.restart()
			f.Settle()
			f.kit.Live = interceptor.NewClient(f.Cluster, interceptor.Funcs{
				List: func(ctx context.Context, cluster client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					options := client.ListOptions{}
					if options.ApplyOptions(opts); options.Namespace == c.forbidden {
						return apierrors.NewForbidden(rbacv1.Resource("roles"), "", errors.New("no RoleBinding in "+c.forbidden))
					}
					return cluster.List(ctx, list, opts...)
				},
			})
			f.Delete()
			f.Forward(59 * time.Second)
			if _, err := f.Try(); !apierrors.IsForbidden(err) {
				t.Errorf("before the limit the error is %v", err)
			}
			ready := f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonDeleting)
			if !strings.Contains(ready.Message, "no RoleBinding in "+c.forbidden) {
				t.Errorf("message %q does not say what the deletion waits for", ready.Message)
			}
			if f.Find("work", resources.WorkspaceRoleName(f.last.Workload, "work"), &rbacv1.Role{}) && c.watched != nil {
				t.Error("the Role in another namespace waits too")
			}
			f.Forward(time.Second)
			_, err := f.Try()
			if f.Gone() != c.gone || (err == nil) != c.gone {
				t.Errorf("after the limit: gone %t, error %v", f.Gone(), err)
			}
			if events := f.Events.Count("Warning GrantsLeftBehind"); (events == 2) != c.gone {
				t.Errorf("Events: %q", f.Events.All())
			}
		})
	}
}

package integration

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// TestATenantGetsNoRightsThroughTheOperator: a tenant who may create control planes,
// Roles and RoleBindings requests a Role that reads Secrets. A change of another field
// by an administrator does not grant it; a change of spec.rbac by an administrator
// does.
func TestATenantGetsNoRightsThroughTheOperator(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	_, proxy := startCoders(t)
	p := startProcess(t, proxy, "--app=controller", "--leader-elect=false", "--watch-namespaces="+ns)
	p.ready(t)
	const tenant = "mallory"
	create(t,
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: tenant}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"coder.com"}, Resources: []string{"codercontrolplanes"}, Verbs: []string{"*"}},
			{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"}, Verbs: []string{"create"}},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: tenant},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: tenant},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: tenant}},
		})
	config := rest.CopyConfig(environment.config)
	config.Impersonate.UserName = tenant
	cp := controlPlane(ns, "coder", func(cp *coderv1alpha1.CoderControlPlane) {
		withDatabase(cp)
		cp.Annotations = map[string]string{coderv1alpha1.AnnotationRBACAuthor: "boss\nsystem:masters"}
		cp.Spec.RBAC.ExtraRules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}
	})
	if err := as(t, config).Create(t.Context(), cp); err != nil {
		t.Fatal(err)
	}
	refused := func() {
		t.Helper()
		is(t, cp, coderv1alpha1.ConditionWorkspaceAccess, metav1.ConditionFalse, coderv1alpha1.ReasonAuthorForbidden)
		roles := &rbacv1.RoleList{}
		if err := environment.client.List(t.Context(), roles, client.InNamespace(ns)); err != nil || len(roles.Items) != 1 {
			t.Errorf("the Roles are %+v, error %v: only the tenant's own should be there", roles.Items, err)
		}
	}
	refused()
	patch := func(content string) {
		t.Helper()
		if err := environment.client.Patch(t.Context(), cp, client.RawPatch("application/merge-patch+json", []byte(content))); err != nil {
			t.Fatal(err)
		}
	}
	patch(`{"spec":{"replicas":2}}`)
	if author := cp.Annotations[coderv1alpha1.AnnotationRBACAuthor]; !strings.HasPrefix(author, tenant+"\n") || ptr.Deref(cp.Spec.Replicas, 0) != 2 {
		t.Errorf("after a change of an administrator the author is %q", author)
	}
	refused()
	patch(`{"metadata":{"annotations":{"coder.com/rbac-author":"me"}}}`)
	is(t, cp, coderv1alpha1.ConditionWorkspaceAccess, metav1.ConditionTrue, coderv1alpha1.ReasonGranted)
}

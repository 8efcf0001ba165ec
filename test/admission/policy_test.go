package admission

import (
	"context"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// TestNobodyGetsIntoOtherNamespaces: the operator grants rights in the namespaces that
// an object names, with its own rights; so who names one must be allowed to grant there.
func TestNobodyGetsIntoOtherNamespaces(t *testing.T) {
	for _, o := range built(t, "policy") {
		if err := environment.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := environment.client.Delete(context.WithoutCancel(t.Context()), o); err != nil {
				t.Error(err)
			}
		})
	}
	mine, theirs := namespace(t), namespace(t)
	permit(t, mine, rbacv1.PolicyRule{APIGroups: []string{"coder.com"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	known(t, mine)
	me := as(t, "tenant")
	for _, kind := range []string{controlPlane, provisioner} {
		for _, spec := range []string{"{rbac: {workspaceNamespaces: [" + theirs + "]}}", "{rbac: {namespaces: [{name: " + theirs + "}]}}"} {
			// A new policy takes a moment to be in force.
			var err error
			polltest.Eventually(t, kind+" with "+spec+" is refused", func() error {
				if err = me.Create(t.Context(), object(t, kind, mine, "mine", spec), client.DryRunAll); !apierrors.IsForbidden(err) {
					return fmt.Errorf("the answer is %w", err)
				}
				return nil
			})
			if !strings.Contains(err.Error(), "spec.rbac: grants rights in namespace "+theirs+", where you may not create RoleBindings yourself; ask who administers it") {
				t.Errorf("%s with %s: the answer is %v, not Forbidden with namespace and remedy", kind, spec, err)
			}
		}
		own := object(t, kind, mine, "own", "{rbac: {workspaceNamespaces: ["+mine+"], workspacePerms: false}}")
		if err := me.Create(t.Context(), own); err != nil {
			t.Errorf("%s with rights in its own namespace: %v", kind, err)
		}
		// What an administrator granted stays, and everything else may change.
		granted := object(t, kind, mine, "granted", "{rbac: {workspaceNamespaces: ["+theirs+"]}}")
		if err := environment.client.Create(t.Context(), granted); err != nil {
			t.Fatal(err)
		}
		change := func(patch string) error {
			return me.Patch(t.Context(), granted.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)), client.DryRunAll)
		}
		if err := change(`{"spec":{"replicas":2},"metadata":{"finalizers":["coder.com/test"]}}`); err != nil {
			t.Errorf("%s: a change of something else is refused: %v", kind, err)
		}
		if err := change(`{"spec":{"rbac":{"extraRules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]}}}`); !apierrors.IsForbidden(err) {
			t.Errorf("%s: more rights in the other namespace: the answer is %v, not Forbidden", kind, err)
		}
	}
	// As many as are asked about one by one, and the last of them is not mine.
	var many []string
	for range 7 {
		many = append(many, namespace(t))
		permit(t, many[len(many)-1], rolebindings)
	}
	// The authorizer learns of RoleBindings a moment later.
	known(t, mine)
	eight := "{rbac: {workspaceNamespaces: [" + strings.Join(append(many, theirs), ", ") + "]}}"
	if err := me.Create(t.Context(), object(t, controlPlane, mine, "mine", eight), client.DryRunAll); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), theirs) {
		t.Errorf("seven that are mine and one that is not: the answer is %v", err)
	}
	nine := "{rbac: {workspaceNamespaces: [" + strings.Join(append(many, theirs, "ninth"), ", ") + "]}}"
	if err := me.Create(t.Context(), object(t, controlPlane, mine, "mine", nine), client.DryRunAll); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "more than 8 other namespaces") {
		t.Errorf("more than are asked about: the answer is %v", err)
	}
	if err := environment.client.Create(t.Context(), object(t, controlPlane, mine, "mine", nine), client.DryRunAll); err != nil {
		t.Errorf("an administrator of the cluster is refused: %v", err)
	}
	permit(t, theirs, rolebindings)
	known(t, mine)
	if err := me.Create(t.Context(), object(t, controlPlane, mine, "mine", eight), client.DryRunAll); err != nil {
		t.Errorf("who may grant in all of them is refused: %v", err)
	}
}

var rolebindings = rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"rolebindings"}, Verbs: []string{"create"}}

// permit gives the user tenant rights in a namespace.
func permit(t *testing.T, ns string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "tenant"}, Rules: rules}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "tenant"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "tenant"}},
	}
	for _, o := range []client.Object{role, binding} {
		if err := environment.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

func as(t *testing.T, user string) client.Client {
	t.Helper()
	config := rest.CopyConfig(environment.config)
	config.Impersonate.UserName = user
	c, err := client.New(config, client.Options{Scheme: environment.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

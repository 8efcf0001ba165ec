package resources

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// TestRightsElsewhereAreNotPruned checks the labels. Argo CD prunes an object without an owner
// reference whose label app.kubernetes.io/instance names its application. In other namespaces the
// operator's objects have no owner reference, so they must not have the label. In the workload's
// own namespace they must have it.
func TestRightsElsewhereAreNotPruned(t *testing.T) {
	w := daemons()
	for namespace, want := range map[string]bool{w.Namespace: true, "elsewhere": false} {
		for kind, labels := range map[string]map[string]string{
			"Role": WorkspaceRole(w, namespace).Labels, "RoleBinding": WorkspaceRoleBinding(w, namespace).Labels,
		} {
			if _, got := labels[coderv1alpha1.LabelInstance]; got != want {
				t.Errorf("%s in namespace %s: the labels are %v", kind, namespace, labels)
			}
			if labels[coderv1alpha1.LabelManagedBy] == "" {
				t.Errorf("%s in namespace %s says not whose it is: %v", kind, namespace, labels)
			}
		}
	}
}

func TestWorkspaceRights(t *testing.T) {
	extra := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}}
	secrets := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}
	for name, c := range map[string]struct {
		spec coderv1alpha1.RBACSpec
		// want contains the resources of the rules in each namespace, in order.
		want []string
	}{
		"unset": {coderv1alpha1.RBACSpec{}, []string{"platform: pods persistentvolumeclaims deployments"}},
		"off":   {coderv1alpha1.RBACSpec{WorkspacePerms: ptr.To(false), WorkspaceNamespaces: []string{"a"}, ExtraRules: extra}, nil},
		"more namespaces": {
			coderv1alpha1.RBACSpec{WorkspaceNamespaces: []string{"b", " a ", "platform", "b", ""}, EnableDeployments: ptr.To(false), ExtraRules: extra},
			[]string{
				"platform: pods persistentvolumeclaims configmaps", "b: pods persistentvolumeclaims configmaps",
				"a: pods persistentvolumeclaims configmaps",
			},
		},
		"something else in one": {
			coderv1alpha1.RBACSpec{ExtraRules: extra, Namespaces: []coderv1alpha1.NamespaceRBAC{
				{Name: "a", EnableDeployments: ptr.To(false)}, {Name: "b", ExtraRules: secrets}, {Name: "c", ExtraRules: []rbacv1.PolicyRule{}},
			}},
			[]string{
				"platform: pods persistentvolumeclaims deployments configmaps", "a: pods persistentvolumeclaims configmaps",
				"b: pods persistentvolumeclaims deployments secrets", "c: pods persistentvolumeclaims deployments",
			},
		},
		"off in one, and in the own": {
			coderv1alpha1.RBACSpec{WorkspaceNamespaces: []string{"a", "b"}, Namespaces: []coderv1alpha1.NamespaceRBAC{
				{Name: "b", WorkspacePerms: ptr.To(false)}, {Name: "platform", WorkspacePerms: ptr.To(false)},
			}},
			[]string{"a: pods persistentvolumeclaims deployments"},
		},
		"on in one alone": {
			coderv1alpha1.RBACSpec{WorkspacePerms: ptr.To(false), Namespaces: []coderv1alpha1.NamespaceRBAC{{Name: "b", WorkspacePerms: ptr.To(true)}}},
			[]string{"b: pods persistentvolumeclaims deployments"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := daemons()
			w.Rights.Spec = &c.spec
			var got []string
			for _, namespace := range WorkspaceNamespaces(w) {
				var resources []string
				for _, rule := range WorkspaceRole(w, namespace).Rules {
					resources = append(resources, rule.Resources...)
				}
				got = append(got, namespace+": "+strings.Join(resources, " "))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("rights (-want +got):\n%s", diff)
			}
		})
	}
	w := daemons()
	w.Rights = nil
	if got := WorkspaceNamespaces(w); got != nil {
		t.Errorf("a workload without rights has some in %v", got)
	}
}

func TestARoleBindingNamesTheRoleBesideIt(t *testing.T) {
	w := daemons()
	for namespace, want := range map[string]string{"platform": "provisioner-build", "work": "provisioner-build-0a1b2c3d"} {
		role, binding := WorkspaceRole(w, namespace), WorkspaceRoleBinding(w, namespace)
		if role.Name != want || binding.Name != want || binding.RoleRef.Name != role.Name || role.Namespace != namespace || binding.Namespace != namespace {
			t.Errorf("in %q the binding %q is of role %q, and the role is %q; want %q", namespace, binding.Name, binding.RoleRef.Name, role.Name, want)
		}
		subject := binding.Subjects[0]
		if subject.Name != w.ServiceAccountName || subject.Namespace != w.Namespace {
			t.Errorf("in %q the rights are given to %+v", namespace, subject)
		}
	}
}

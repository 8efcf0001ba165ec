package admission

import (
	"errors"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const operator = "system:serviceaccount:coder-system:coder-k8s"

// TestNamespacedInstallation checks that with the installation for some namespaces the operator has all permissions of its
// generated roles in the watched namespace, those for cluster-scoped objects, and none in another
// namespace.
func TestNamespacedInstallation(t *testing.T) {
	other := namespace(t)
	if err := environment.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "coder"}}); err != nil {
		t.Fatal(err)
	}
	objects, err := kubetest.Installation(t.Context(), "namespaced")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		var options []client.CreateOption
		switch o.GetKind() {
		case "CustomResourceDefinition":
			continue // Exists from the start.
		case "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding":
		default:
			options = append(options, client.DryRunAll)
		}
		if err := environment.client.Create(t.Context(), o, append(options, client.FieldValidation(metav1.FieldValidationStrict))...); err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
	known(t, other)
	namespaced := scopes(t)
	asked := 0
	for _, o := range objects {
		if o.GetKind() != "ClusterRole" || (o.GetName() != "coder-k8s-controller" && o.GetName() != "coder-k8s-apiserver") {
			continue
		}
		role := &rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
			t.Fatal(err)
		}
		for _, access := range accesses(role.Rules) {
			asked++
			inside, known := namespaced[access.Group+"/"+access.Resource]
			if known && !inside {
				if !allowed(t, operator, access) {
					t.Errorf("%s: may not %s, which is in no namespace; add it to ClusterRole coder-k8s-apiserver-cluster in rbac.yaml of the chart", role.Name, describe(access))
				}
				continue
			}
			// Admission watches the quotas of all namespaces, and one watch over all namespaces
			// returns the changes of records in order.
			everywhere := access.Resource == "resourcequotas" && access.Subresource == "" || access.Group == "internal.coder.com"
			for ns, want := range map[string]bool{"coder": true, other: everywhere, "": everywhere} {
				access.Namespace = ns
				if got := allowed(t, operator, access); got != want {
					t.Errorf("%s: may %s in namespace %q: %t, not %t", role.Name, describe(access), ns, got, want)
				}
			}
		}
	}
	if asked < 50 {
		t.Errorf("only %d rights were asked for: the roles were not found", asked)
	}
}

// TestRolesOfPeople checks which user roles can read, scale and change objects.
func TestRolesOfPeople(t *testing.T) {
	ns := namespace(t)
	for _, o := range environment.installation {
		if o.GetKind() != "ClusterRole" || !strings.HasPrefix(o.GetName(), "coder-k8s-") {
			continue
		}
		// With other names than those of the other test.
		o = o.DeepCopy()
		o.SetName("people-" + o.GetName())
		if err := environment.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	// kube-controller-manager aggregates them like this.
	for user, roles := range map[string][]string{"viewer": {"view"}, "editor": {"view", "edit"}, "admin": {"view", "edit", "admin"}} {
		for _, role := range roles {
			binding := &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: user + "-" + role},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "people-coder-k8s-" + role},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
			}
			if err := environment.client.Create(t.Context(), binding); err != nil {
				t.Fatal(err)
			}
		}
	}
	known(t, ns)
	for _, kind := range allKinds {
		for _, test := range []struct {
			subresource           string
			verbs                 []string
			viewer, editor, admin bool
		}{
			{"", []string{"get", "list", "watch"}, true, true, true},
			{"", []string{"create", "update", "patch", "delete", "deletecollection"}, false, false, true},
			{"scale", []string{"get"}, true, true, true},
			{"scale", []string{"update", "patch"}, false, true, true},
			{"status", []string{"get"}, true, true, true},
			{"status", []string{"update", "patch"}, false, false, false},
		} {
			for _, verb := range test.verbs {
				for user, want := range map[string]bool{"viewer": test.viewer, "editor": test.editor, "admin": test.admin} {
					access := authorizationv1.ResourceAttributes{Namespace: ns, Group: "coder.com", Resource: plural(kind), Subresource: test.subresource, Verb: verb}
					if got := allowed(t, user, access); got != want {
						t.Errorf("%s may %s: %t, not %t", user, describe(access), got, want)
					}
				}
			}
		}
	}
}

// accesses returns the single permissions of rules.
func accesses(rules []rbacv1.PolicyRule) []authorizationv1.ResourceAttributes {
	var found []authorizationv1.ResourceAttributes
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				resource, subresource, _ := strings.Cut(resource, "/")
				for _, verb := range rule.Verbs {
					for _, name := range names {
						found = append(found, authorizationv1.ResourceAttributes{
							Group: group, Resource: resource, Subresource: subresource, Verb: verb, Name: name,
						})
					}
				}
			}
		}
	}
	return found
}

func describe(access authorizationv1.ResourceAttributes) string {
	text := access.Verb + " " + access.Resource
	if access.Subresource != "" {
		text += "/" + access.Subresource
	}
	return strings.TrimSuffix(text+"."+access.Group, ".")
}

// known waits until kube-apiserver has seen all roles and bindings that exist now: it sees the
// objects of each kind in the order of their creation.
func known(t *testing.T, ns string) {
	t.Helper()
	const everywhere, inside = "last-everywhere", "last-inside"
	name := metav1.ObjectMeta{Name: "last-" + string(uuid.NewUUID())}
	there := *name.DeepCopy()
	there.Namespace = ns
	read := func(resource string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get"}}}
	}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name.Name}}
	for _, o := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: name, Rules: read(everywhere)},
		&rbacv1.ClusterRoleBinding{ObjectMeta: name, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name}},
		&rbacv1.Role{ObjectMeta: there, Rules: read(inside)},
		&rbacv1.RoleBinding{ObjectMeta: there, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name}},
	} {
		if err := environment.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	polltest.Eventually(t, "the rights are known", func() error {
		for _, resource := range []string{everywhere, inside} {
			if !allowed(t, name.Name, authorizationv1.ResourceAttributes{Namespace: ns, Resource: resource, Verb: "get"}) {
				return errors.New(resource + " is not known")
			}
		}
		return nil
	})
}

func allowed(t *testing.T, user string, access authorizationv1.ResourceAttributes) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &access}}
	if err := environment.client.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// scopes returns for each served resource whether it is namespaced.
func scopes(t *testing.T) map[string]bool {
	t.Helper()
	disco, err := discovery.NewDiscoveryClientForConfig(environment.config)
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := disco.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, list := range lists {
		group, _, ok := strings.Cut(list.GroupVersion, "/")
		if !ok {
			group = ""
		}
		for _, resource := range list.APIResources {
			found[group+"/"+resource.Name] = resource.Namespaced
		}
	}
	return found
}

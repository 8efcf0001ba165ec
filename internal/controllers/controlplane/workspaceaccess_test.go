package controlplane

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/author"
)

func withWorkspaceNamespace(cp *coderv1alpha1.CoderControlPlane) {
	cp.Spec.RBAC.WorkspaceNamespaces = []string{"work"}
}

func TestWorkspaceTroubleStopsNothingElse(t *testing.T) {
	roles := schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "roles"}
	for name, c := range map[string]struct {
		err             error
		reason, message string
	}{
		"escalation": {
			apierrors.NewForbidden(roles, "coder-x", errors.New("user \"op\" is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\"]}")),
			coderv1alpha1.ReasonGrantForbidden, `Resources:["nodes"]`,
		},
		"no namespace": {
			apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "work"),
			coderv1alpha1.ReasonNamespaceMissing, `namespace "work" does not exist`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, newControlPlane(withWorkspaceNamespace), databaseSecret())
			f.RejectApply = func(obj client.Object) error {
				if obj.GetNamespace() == "work" {
					return c.err
				}
				return nil
			}
			f.Settle()
			f.PodsReady(1)
			result := f.Settle()

			condition := f.MustHave(coderv1alpha1.ConditionWorkspaceAccess, metav1.ConditionFalse, c.reason)
			if !strings.Contains(condition.Message, c.message) {
				t.Errorf("message %q does not say %q", condition.Message, c.message)
			}
			f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
			f.Get(roleName(f.Object()), &rbacv1.Role{})
			f.granted("coder")
			if f.Events.Count("Warning "+c.reason) != 1 {
				t.Errorf("Events: %q", f.Events.All())
			}
			if result.RequeueAfter == 0 {
				t.Error("nobody looks again, and no watch tells when that is mended")
			}

			f.RejectApply = nil
			f.Settle()
			f.MustHave(coderv1alpha1.ConditionWorkspaceAccess, metav1.ConditionTrue, coderv1alpha1.ReasonGranted)
			f.granted("coder", "work")
		})
	}
}

// granted checks the namespaces in the status.
func (f *fixture) granted(want ...string) {
	f.T.Helper()
	if got := f.Object().Status.WorkspaceNamespaces; !slices.Equal(got, want) {
		f.T.Errorf("permissions are granted in %q, want %q", got, want)
	}
}

// authorTest refuses every grant, or every grant that has a rule for Secrets.
type authorTest struct {
	refused author.RefusedError
	all     bool
	asked   []author.Grant
}

func (a *authorTest) Check(_ context.Context, _ client.Object, grant author.Grant) error {
	a.asked = append(a.asked, grant)
	for _, rule := range grant.Rules {
		if a.all || slices.Contains(rule.Resources, "secrets") {
			return &a.refused
		}
	}
	return nil
}

// TestNothingIsGrantedThatItsAuthorMayNotGrant checks that earlier grants stay, without the refused
// rules.
func TestNothingIsGrantedThatItsAuthorMayNotGrant(t *testing.T) {
	for reason, unknown := range map[string]bool{coderv1alpha1.ReasonAuthorForbidden: false, coderv1alpha1.ReasonAuthorUnknown: true} {
		t.Run(reason, func(t *testing.T) {
			f := newFixture(t, newControlPlane(withWorkspaceNamespace), databaseSecret())
			authors := &authorTest{refused: author.RefusedError{Unknown: unknown, Message: "tenant does not hold get secrets"}}
			f.checkAuthor = authors.Check
			f.restart()
			f.Settle()
			if len(authors.asked) == 0 || authors.asked[0].Granted != nil {
				t.Fatalf("the first grant was checked as %+v", authors.asked)
			}
			cp := f.Object()
			before := &rbacv1.Role{}
			f.GetIn("work", roleName(cp), before)

			cp.Spec.RBAC.ExtraRules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}
			f.Update(cp)
			result := f.Settle()
			condition := f.MustHave(coderv1alpha1.ConditionWorkspaceAccess, metav1.ConditionFalse, reason)
			if !strings.Contains(condition.Message, "does not hold get secrets") || result.RequeueAfter == 0 {
				t.Errorf("message %q, next pass after %s", condition.Message, result.RequeueAfter)
			}
			f.granted("coder", "work")
			for _, namespace := range []string{"coder", "work"} {
				role := &rbacv1.Role{}
				f.GetIn(namespace, roleName(cp), role)
				if !reflect.DeepEqual(role.Rules, before.Rules) {
					t.Errorf("in namespace %s is granted %+v", namespace, role.Rules)
				}
			}
			if last := authors.asked[len(authors.asked)-1]; !reflect.DeepEqual(last.Granted, before.Rules) {
				t.Errorf("granted already is %+v", last.Granted)
			}
		})
	}
}

// TestRightsStayUntilOthersReplaceThem checks that a new name of the ServiceAccount, and so of the Role,
// takes no permissions from the pods if the author may not grant them under the new name.
func TestRightsStayUntilOthersReplaceThem(t *testing.T) {
	f := newFixture(t, newControlPlane(withWorkspaceNamespace), databaseSecret())
	f.Settle()
	cp := f.Object()
	role, binding := roleName(cp), bindingName(cp)
	f.checkAuthor = (&authorTest{refused: author.RefusedError{Message: "tenant left"}, all: true}).Check
	f.restart()
	cp.Spec.ServiceAccount.Name = "terraform"
	f.Update(cp)
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionWorkspaceAccess, metav1.ConditionFalse, coderv1alpha1.ReasonAuthorForbidden)
	for _, namespace := range []string{"coder", "work"} {
		f.GetIn(namespace, role, &rbacv1.Role{})
		f.GetIn(namespace, binding, &rbacv1.RoleBinding{})
	}
	f.granted("coder", "work")
	cp = f.Object()
	cp.Spec.RBAC.WorkspaceNamespaces = nil
	f.Update(cp)
	f.Settle()
	if f.Find("work", role, &rbacv1.Role{}) || f.Find("work", binding, &rbacv1.RoleBinding{}) {
		t.Error("the rights in a namespace that the spec no longer names are still there")
	}
	f.granted("coder")
}

// TestOnlyWhatIsInForceIsGranted checks that rules count as granted only if they are in force. A
// Role without its RoleBinding, or with a RoleBinding for another subject, grants the pods nothing,
// so its rules are checked.
func TestOnlyWhatIsInForceIsGranted(t *testing.T) {
	f := newFixture(t, newControlPlane(), databaseSecret())
	authors := &authorTest{}
	f.checkAuthor = authors.Check
	f.restart()
	f.Settle()
	binding := &rbacv1.RoleBinding{}
	f.Get(bindingName(f.Object()), binding)
	binding.Subjects[0].Name = "another"
	f.Update(binding)
	authors.asked = nil
	f.Settle()
	if len(authors.asked) == 0 || authors.asked[0].Granted != nil {
		t.Errorf("with a binding for another subject the grant was checked as %+v", authors.asked)
	}
}

func TestRightsThatAreNotMeantAnyMoreGo(t *testing.T) {
	foreign := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{
		Name: "theirs", Namespace: "work", Labels: resources.ControlPlane(newControlPlane(), resources.Cluster{}).Rights.OwnerLabels,
		Annotations: map[string]string{coderv1alpha1.AnnotationOwnerUID: "an-earlier-control-plane"},
	}}
	f := newFixture(t, newControlPlane(withWorkspaceNamespace), databaseSecret(), foreign)
	f.Settle()
	cp := f.Object()
	role, binding := roleName(cp), bindingName(cp)
	f.GetIn("work", role, &rbacv1.Role{})
	f.GetIn("work", binding, &rbacv1.RoleBinding{})

	cp.Spec.RBAC.WorkspaceNamespaces = nil
	f.Update(cp)
	f.Settle()
	if f.Find("work", role, &rbacv1.Role{}) || f.Find("work", binding, &rbacv1.RoleBinding{}) {
		t.Error("the rights in a namespace that the spec no longer names are still there")
	}
	f.Get(role, &rbacv1.Role{})
	f.GetIn("work", "theirs", &rbacv1.Role{})
	f.granted("coder")

	cp = f.Object()
	cp.Spec.RBAC.WorkspacePerms = ptr.To(false)
	f.Update(cp)
	f.Settle()
	if f.Has(role, &rbacv1.Role{}) || f.Has(binding, &rbacv1.RoleBinding{}) {
		t.Error("the rights are still there although spec.rbac.workspacePerms is false")
	}
	f.granted()
}

func TestOwnerByLabels(t *testing.T) {
	role := resources.WorkspaceRole(resources.ControlPlane(newControlPlane(), resources.Cluster{}), "work")
	requests := framework.OwnerByLabels(kind())(t.Context(), role)
	if len(requests) != 1 || requests[0].String() != "coder/coder" {
		t.Errorf("a change of the Role reconciles %v, want coder/coder", requests)
	}
	if got := framework.OwnerByLabels(kind())(t.Context(), &rbacv1.Role{}); got != nil {
		t.Errorf("a Role without labels reconciles %v", got)
	}
}

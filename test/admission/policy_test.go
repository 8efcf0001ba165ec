package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/author"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// probeAuthor is the author that the operator's probe names.
const probeAuthor = "coder-k8s:policy-probe"

// policies applies the admission policies of the installation, without some kinds, and waits until it is in force.
func policies(t *testing.T, without string) {
	t.Helper()
	forged := noPolicies(t)
	apply(t, without, nil)
	// A new policy takes a moment to be in force.
	polltest.Eventually(t, "the policies are in force", func() error {
		trial := forged.DeepCopy()
		err := environment.client.Create(t.Context(), trial, client.DryRunAll)
		if (without == "" && err != nil) || (err == nil && authorOf(trial) == "nobody") {
			return fmt.Errorf("the author is %q, error %w", authorOf(trial), err)
		}
		// The author of the operator's probe reaches the validating policy.
		trial = forged.DeepCopy()
		trial.SetAnnotations(map[string]string{coderv1alpha1.AnnotationRBACAuthor: probeAuthor})
		if err := environment.client.Create(t.Context(), trial, client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a forged author: the answer is %w, not Forbidden", err)
		}
		return nil
	})
}

// apply applies the admission policies of the installation, without some kinds and with changes, until the test ends.
func apply(t *testing.T, without string, change func(*unstructured.Unstructured)) {
	t.Helper()
	for _, o := range environment.installation {
		if !strings.Contains(o.GetKind(), "AdmissionPolicy") {
			continue
		}
		o = o.DeepCopy()
		if without != "" && strings.HasPrefix(o.GetKind(), without) {
			continue
		}
		if change != nil {
			change(o)
		}
		untilEnd(t, o)
	}
}

// untilEnd creates an object that is deleted when the test ends, if it still exists then.
func untilEnd(t *testing.T, o client.Object) {
	t.Helper()
	if err := environment.client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.client.Delete(context.WithoutCancel(t.Context()), o); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}

// noPolicies waits until the policies of another test are no longer in force. It returns
// an object with an author.
func noPolicies(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	forged := object(t, controlPlane, namespace(t), "forged", "{}")
	forged.SetAnnotations(map[string]string{coderv1alpha1.AnnotationRBACAuthor: "nobody"})
	polltest.Eventually(t, "no policies are in force", func() error {
		trial := forged.DeepCopy()
		if err := environment.client.Create(t.Context(), trial, client.DryRunAll); err != nil || authorOf(trial) != "nobody" {
			return fmt.Errorf("the author is %q, error %w", authorOf(trial), err)
		}
		return nil
	})
	return forged
}

func authorOf(o *unstructured.Unstructured) string {
	return o.GetAnnotations()[coderv1alpha1.AnnotationRBACAuthor]
}

// TestTheAuthorIsRecorded checks that the user who creates an object, changes spec.rbac
// or writes the annotation becomes its author, regardless of the written value, and that
// no other user does.
func TestTheAuthorIsRecorded(t *testing.T) {
	policies(t, "")
	const tenant, admin = "tenant\nteam\nsystem:authenticated", "boss\nsystem:masters\nsystem:authenticated"
	ns := namespace(t)
	permit(t, ns, rbacv1.PolicyRule{APIGroups: []string{"coder.com"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	known(t, ns)
	users := map[string]client.Client{tenant: as(t, "tenant", "team"), admin: as(t, "boss", "system:masters")}
	for _, kind := range []string{controlPlane, provisioner} {
		o := object(t, kind, ns, "recorded", "{}")
		o.SetAnnotations(map[string]string{coderv1alpha1.AnnotationRBACAuthor: admin})
		if err := users[tenant].Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if authorOf(o) != tenant {
			t.Errorf("%s: a tenant who names an administrator is recorded as %q", kind, authorOf(o))
		}
		var refused *author.RefusedError
		if err := check(t, o); !errors.As(err, &refused) || refused.Unknown {
			t.Errorf("%s: the policy is not recognized: %v", kind, err)
		}
		probe := object(t, kind, ns, "probe", "{}")
		probe.SetAnnotations(map[string]string{coderv1alpha1.AnnotationRBACAuthor: probeAuthor})
		if err := users[tenant].Create(t.Context(), probe, client.DryRunAll); !apierrors.IsForbidden(err) {
			t.Errorf("%s: a tenant who names the author of the probe: the answer is %v, not Forbidden", kind, err)
		}
		for _, step := range []struct{ what, by, patch, want string }{
			{"another user changes something else", admin, `{"spec":{"replicas":2},"metadata":{"finalizers":["coder.com/test"]}}`, tenant},
			{"another user removes the annotation", admin, `{"metadata":{"annotations":null}}`, tenant},
			{"the author claims to be another", tenant, `{"metadata":{"annotations":{"coder.com/rbac-author":"boss\nsystem:masters\nsystem:authenticated"}}}`, tenant},
			{"another user changes spec.rbac", admin, `{"spec":{"rbac":{"enableDeployments":false}}}`, admin},
			{"another user keeps spec.rbac", tenant, `{"spec":{"replicas":1,"rbac":{"enableDeployments":false}}}`, admin},
			{"a user changes spec.rbac and keeps the annotation", tenant, `{"spec":{"rbac":{"workspaceNamespaces":["kube-system"]}},"metadata":{"annotations":{"coder.com/rbac-author":"boss\nsystem:masters\nsystem:authenticated"}}}`, tenant},
			{"an administrator takes it over", admin, `{"metadata":{"annotations":{"coder.com/rbac-author":"me"}}}`, admin},
			{"a user removes spec.rbac", tenant, `{"spec":{"rbac":null}}`, tenant},
		} {
			if err := users[step.by].Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(step.patch))); err != nil {
				t.Fatalf("%s: %s: %v", kind, step.what, err)
			}
			if authorOf(o) != step.want {
				t.Errorf("%s: %s: the author is %q, not %q", kind, step.what, authorOf(o), step.want)
			}
		}
		// Like kubectl replace with a file that has no such annotation.
		o.SetAnnotations(nil)
		if err := users[admin].Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if authorOf(o) != tenant {
			t.Errorf("%s: replaced by somebody else, the author is %q", kind, authorOf(o))
		}
		o.SetFinalizers(nil)
		if err := users[admin].Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTheAuthorIsGuardedOnOlderClusters checks that without MutatingAdmissionPolicies
// authors must write the annotation themselves, and can only write their own name.
func TestTheAuthorIsGuardedOnOlderClusters(t *testing.T) {
	policies(t, "Mutating")
	ns := namespace(t)
	permit(t, ns, rbacv1.PolicyRule{APIGroups: []string{"coder.com"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	known(t, ns)
	me := as(t, "tenant")
	o := object(t, controlPlane, ns, "guarded", "{}")
	o.SetAnnotations(map[string]string{coderv1alpha1.AnnotationRBACAuthor: "boss\nsystem:masters"})
	err := me.Create(t.Context(), o.DeepCopy())
	if want := `set it to "tenant\nsystem:authenticated"`; !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("a forged author: the answer is %v, not Forbidden with %s", err, want)
	}
	o.SetAnnotations(map[string]string{coderv1alpha1.AnnotationRBACAuthor: "tenant\nsystem:authenticated"})
	if err := me.Create(t.Context(), o); err != nil {
		t.Errorf("the right author is refused: %v", err)
	}
	change := func(c client.Client, patch string) error {
		return c.Patch(t.Context(), o.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)), client.DryRunAll)
	}
	if err := change(environment.client, `{"spec":{"replicas":2}}`); err != nil {
		t.Errorf("a change of something else by another user is refused: %v", err)
	}
	if err := change(environment.client, `{"spec":{"rbac":{"enableDeployments":false}}}`); !apierrors.IsForbidden(err) {
		t.Errorf("a change of spec.rbac in the name of another: the answer is %v, not Forbidden", err)
	}
	if err := (author.Checker{Client: environment.client}).Check(t.Context(), o, grantOf(t, o, ns)); err == nil || !strings.Contains(err.Error(), `"tenant", who wrote spec.rbac, does not hold`) {
		t.Errorf("a recorded author without rights: %v", err)
	}
}

// TestWithoutPoliciesNothingIsGranted: without the policies anyone could write the
// annotation.
func TestWithoutPoliciesNothingIsGranted(t *testing.T) {
	o := noPolicies(t)
	ns := o.GetNamespace()
	for _, annotations := range []map[string]string{nil, {coderv1alpha1.AnnotationRBACAuthor: "boss\nsystem:masters"}} {
		o.SetAnnotations(annotations)
		o.SetResourceVersion("")
		if err := environment.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		var refused *author.RefusedError
		err := (author.Checker{Client: environment.client}).Check(t.Context(), o, grantOf(t, o, ns))
		if !errors.As(err, &refused) || !refused.Unknown || !strings.Contains(err.Error(), "install.yaml") {
			t.Errorf("with the annotations %v: %v", annotations, err)
		}
		if err := environment.client.Delete(t.Context(), o.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
}

// permit grants the user tenant permissions in a namespace.
func permit(t *testing.T, ns string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	grantTo(t, ns, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "tenant"}, rules...)
}

func grantTo(t *testing.T, ns string, subject rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	t.Helper()
	name := strings.ReplaceAll(subject.Name, ":", ".")
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Rules: rules}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{subject},
	}
	for _, o := range []client.Object{role, binding} {
		if err := environment.client.Create(t.Context(), o); err != nil {
			t.Fatal(fmt.Errorf("granting in %s: %w", ns, err))
		}
	}
}

func as(t *testing.T, user string, groups ...string) client.Client {
	t.Helper()
	config := rest.CopyConfig(environment.config)
	config.Impersonate.UserName, config.Impersonate.Groups = user, groups
	c, err := client.New(config, client.Options{Scheme: environment.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

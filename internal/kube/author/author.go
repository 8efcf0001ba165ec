package author

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// PolicyName is the name of the admission policies that record the author and reject any other
// author, and of their bindings. It is the name of the policy of earlier versions, so that an
// upgrade replaces that one.
const PolicyName = "coder-k8s-workspace-namespaces"

// applyPolicy is the remedy if the author cannot be known.
const applyPolicy = "apply the manifests of this version (kubectl apply -f install.yaml, or your variant of it), or upgrade the Helm release"

// Grant describes permissions that the operator uses for an author: a Role that will be granted to a workload's
// ServiceAccount, or what the operator does itself.
type Grant struct {
	// Field is the field of which the author is known. Empty means spec.rbac.
	Field string
	// Namespace and Role are the namespace and the name of the Role, which is empty if there is none.
	Namespace, Role string
	// Rules are the rules that the Role will have.
	Rules []rbacv1.PolicyRule
	// Granted are the rules that the Role already has. They are not checked again.
	Granted []rbacv1.PolicyRule
}

// RefusedError reports that permissions are not granted because of the author.
type RefusedError struct {
	// Unknown is true if the author is not known for certain.
	Unknown bool
	// Message names the missing permissions and their namespace, and describes what to do.
	Message string
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Message }

// Checker compares grants with the permissions of their authors.
type Checker struct {
	// Client creates SubjectAccessReviews and, in dry runs, the probe of the policy.
	Client client.Client
}

// Check returns nil if the recorded author of an object may grant the permissions. The author must
// be allowed to create Roles and RoleBindings in a namespace other than the object's, and must
// either have each permission there or be allowed to escalate and bind the Role. Otherwise Check
// returns a RefusedError.
func (c Checker) Check(ctx context.Context, obj client.Object, grant Grant) error {
	wanted, bounded := newRights(grant)
	if bounded && len(wanted) == 0 {
		return nil
	}
	grant.Field = cmp.Or(grant.Field, "spec.rbac")
	author, err := c.authorOf(ctx, obj, grant.Field)
	if err != nil {
		return err
	}
	if obj.GetNamespace() != grant.Namespace {
		if err := c.mayWrite(ctx, author, grant); err != nil {
			return err
		}
	}
	if free, err := c.mayEscalate(ctx, author, grant); free || err != nil {
		return err
	}
	if !bounded {
		return &RefusedError{Message: fmt.Sprintf(
			"in namespace %q %[3]s lists more than %[2]d single rights, which are not checked one by one; shorten the rules, or let someone "+
				"who may escalate and bind roles there write %[3]s", grant.Namespace, maxRights, grant.Field)}
	}
	return c.holds(ctx, author, grant, wanted)
}

// user is a recorded author.
type user struct {
	name   string
	groups []string
}

// authorOf returns the author that the policy recorded.
func (c Checker) authorOf(ctx context.Context, obj client.Object, field string) (user, error) {
	lines := strings.Split(obj.GetAnnotations()[coderv1alpha1.AnnotationRBACAuthor], "\n")
	if lines[0] == "" {
		return user{}, &RefusedError{Unknown: true, Message: fmt.Sprintf(
			"it is not known who wrote %[3]s, so nothing is granted: there is no annotation %[1]s; %[2]s, and then record yourself as "+
				"the author (kubectl annotate --overwrite … %[1]s=me)", coderv1alpha1.AnnotationRBACAuthor, applyPolicy, field)}
	}
	if err := c.guarded(ctx, obj); err != nil {
		return user{}, err
	}
	return user{name: lines[0], groups: lines[1:]}, nil
}

package author

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-helpers/auth/rbac/validation"
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
	Rules           []rbacv1.PolicyRule
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
	lines := strings.Split(obj.GetAnnotations()[coderv1alpha1.AnnotationRBACAuthor], "\n")
	if lines[0] == "" {
		return &RefusedError{Unknown: true, Message: fmt.Sprintf(
			"it is not known who wrote %[3]s, so nothing is granted: there is no annotation %[1]s; %[2]s, and then record yourself as "+
				"the author (kubectl annotate --overwrite … %[1]s=me)", coderv1alpha1.AnnotationRBACAuthor, applyPolicy, grant.Field)}
	}
	if err := c.guarded(ctx, obj); err != nil {
		return err
	}
	author := user{name: lines[0], groups: lines[1:]}
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

const (
	// probeName is the name of the probe, which exists only in dry runs.
	probeName = "coder-k8s-policy-probe"
	// probeAuthor is the forged author of the probe. The mutating policy does not replace it, so that
	// the validating policy has to deny it.
	probeAuthor = "coder-k8s:policy-probe"
	// denial is the beginning of the message of the validating policy.
	denial = "the annotation " + coderv1alpha1.AnnotationRBACAuthor + " names the user"
	// maxAnswer is the maximum number of characters of an answer to a probe that an error quotes.
	maxAnswer = 500
)

// guarded returns nil if the policy protects the annotation in the namespace of obj now. It creates
// an object with a forged author in a dry run, and requires that the policy denies it. The users of
// the namespace must not be able to influence the answer, so only kind and namespace of the probe
// are those of obj. Any other answer is a RefusedError, also one that denies the probe: a quota or a
// webhook does not protect the annotation. The result is not cached, because the policy may be
// deleted at any time.
func (c Checker) guarded(ctx context.Context, obj client.Object) error {
	kind, err := c.Client.GroupVersionKindFor(obj)
	if err != nil {
		return fmt.Errorf("bug: %w", err)
	}
	if kind.Kind == "CoderBackupSchedule" {
		kind.Kind = "CoderBackup" // The operator creates no schedules, and the same rule of the policy is for both.
	}
	err = c.Client.Create(ctx, probe(kind, obj.GetNamespace()), client.DryRunAll)
	var answer apierrors.APIStatus
	switch {
	case err == nil:
		return &RefusedError{Unknown: true, Message: fmt.Sprintf(
			"anyone may write the annotation %s in namespace %q, because the admission policy %s is not in force there, so nothing is granted; %s",
			coderv1alpha1.AnnotationRBACAuthor, obj.GetNamespace(), PolicyName, applyPolicy)}
	case !errors.As(err, &answer), answer.Status().Code >= http.StatusInternalServerError, answer.Status().Code == http.StatusTooManyRequests:
		// A later attempt may have another result although nothing was changed.
		return fmt.Errorf("testing the admission policy %s: %w", PolicyName, err)
	case denied(kind, answer.Status()):
		return nil
	}
	return &RefusedError{Unknown: true, Message: fmt.Sprintf(
		"it is not known whether the admission policy %s protects the annotation %s in namespace %q, so nothing is granted: the dry run "+
			"that creates %s %q with a forged author must be denied by that policy, but failed with: %.*s; allow the operator to create it, and %s",
		PolicyName, coderv1alpha1.AnnotationRBACAuthor, obj.GetNamespace(), kind.Kind, probeName,
		maxAnswer, strings.Join(strings.Fields(err.Error()), " "), applyPolicy)}
}

// probe returns an object that is valid but for its author.
func probe(kind schema.GroupVersionKind, namespace string) *unstructured.Unstructured {
	spec := map[string]any{}
	if kind.Kind != "CoderControlPlane" {
		spec["controlPlaneRef"] = map[string]any{"name": probeName}
	}
	if kind.Kind == "CoderBackup" {
		spec["destination"] = map[string]any{"persistentVolumeClaim": map[string]any{"claimName": probeName}}
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(namespace)
	o.SetName(probeName)
	o.SetAnnotations(map[string]string{coderv1alpha1.AnnotationRBACAuthor: probeAuthor})
	return o
}

// denied reports whether the validating policy denied the probe because of its author. The message is
// compared from its beginning: kube-apiserver writes words of its own before those of a quota or a
// webhook. A webhook chooses all other fields of the status.
func denied(kind schema.GroupVersionKind, status metav1.Status) bool {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return status.Reason == metav1.StatusReasonForbidden && strings.HasPrefix(status.Message, fmt.Sprintf(
		"%[1]s %[2]q is forbidden: ValidatingAdmissionPolicy '%[3]s' with binding '%[3]s' denied request: %[4]s",
		resource.GroupResource(), probeName, PolicyName, denial))
}

const (
	// maxRights is the maximum number of single permissions in one namespace that are checked.
	maxRights = 1000
	// maxNamed is the maximum number of missing permissions in a message.
	maxNamed = 5
)

// newRights returns the single permissions of a grant that are not granted already. It returns
// false if there are too many: each rule is the product of its lists.
func newRights(grant Grant) ([]rbacv1.PolicyRule, bool) {
	if size(grant.Rules) > maxRights || size(grant.Granted) > maxRights {
		return nil, false
	}
	var wanted []rbacv1.PolicyRule
	for _, rule := range grant.Rules {
		for _, single := range validation.BreakdownRule(rule) {
			if covered, _ := validation.Covers(grant.Granted, []rbacv1.PolicyRule{single}); !covered {
				wanted = append(wanted, single)
			}
		}
	}
	return wanted, true
}

// size returns the number of single permissions of rules, or any number above maxRights.
func size(rules []rbacv1.PolicyRule) int {
	total := 0
	for _, rule := range rules {
		product := len(rule.Verbs)
		for _, factor := range []int{len(rule.APIGroups), len(rule.Resources), max(1, len(rule.ResourceNames))} {
			if product *= factor; product > maxRights {
				return product
			}
		}
		if total += product + len(rule.Verbs)*len(rule.NonResourceURLs); total > maxRights {
			return total
		}
	}
	return total
}

// mayWrite returns an error unless the author may create Roles and RoleBindings.
func (c Checker) mayWrite(ctx context.Context, author user, grant Grant) error {
	for _, resource := range []string{"roles", "rolebindings"} {
		allowed, err := c.allowed(ctx, author, grant.Field, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: grant.Namespace, Verb: "create", Group: rbacv1.GroupName, Resource: resource,
		}})
		if err != nil {
			return err
		}
		if !allowed {
			return &RefusedError{Message: fmt.Sprintf(
				"in namespace %q user %q, who wrote %[4]s, may not create %[3]s; let someone who may do that write %[4]s, or remove "+
					"the namespace", grant.Namespace, author.name, resource, grant.Field)}
		}
	}
	return nil
}

// mayEscalate reports whether the author may grant permissions without having them.
func (c Checker) mayEscalate(ctx context.Context, author user, grant Grant) (bool, error) {
	for _, verb := range []string{"escalate", "bind"} {
		allowed, err := c.allowed(ctx, author, grant.Field, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: grant.Namespace, Verb: verb, Group: rbacv1.GroupName, Resource: "roles", Name: grant.Role,
		}})
		if !allowed || err != nil {
			return false, err
		}
	}
	return true, nil
}

// holds returns an error that names permissions which the author does not have.
func (c Checker) holds(ctx context.Context, author user, grant Grant, wanted []rbacv1.PolicyRule) error {
	var missing []string
	for _, single := range wanted {
		allowed, err := c.allowed(ctx, author, grant.Field, question(grant.Namespace, single))
		if err != nil {
			return err
		}
		if !allowed {
			missing = append(missing, describe(single))
		}
		if len(missing) == maxNamed {
			break
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &RefusedError{Message: fmt.Sprintf(
		"in namespace %q user %q, who wrote %[4]s, does not hold what it grants: %[3]s; let someone who holds these rights there, or may "+
			"escalate and bind roles, write %[4]s, or change it", grant.Namespace, author.name, strings.Join(missing, ", "), grant.Field)}
}

func question(namespace string, single rbacv1.PolicyRule) authorizationv1.SubjectAccessReviewSpec {
	if len(single.NonResourceURLs) > 0 {
		return authorizationv1.SubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{
			Path: single.NonResourceURLs[0], Verb: single.Verbs[0],
		}}
	}
	resource, subresource, _ := strings.Cut(single.Resources[0], "/")
	attributes := &authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: single.Verbs[0], Group: single.APIGroups[0], Resource: resource, Subresource: subresource,
	}
	if len(single.ResourceNames) > 0 {
		attributes.Name = single.ResourceNames[0]
	}
	return authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: attributes}
}

// describe returns a text such as: get secrets "db", or list deployments.apps.
func describe(single rbacv1.PolicyRule) string {
	if len(single.NonResourceURLs) > 0 {
		return single.Verbs[0] + " " + single.NonResourceURLs[0]
	}
	text := strings.TrimSuffix(single.Verbs[0]+" "+single.Resources[0]+"."+single.APIGroups[0], ".")
	if len(single.ResourceNames) > 0 {
		text += fmt.Sprintf(" %q", single.ResourceNames[0])
	}
	return text
}

func (c Checker) allowed(ctx context.Context, author user, field string, spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	spec.User, spec.Groups = author.name, author.groups
	review := &authorizationv1.SubjectAccessReview{Spec: spec}
	err := c.Client.Create(ctx, review)
	switch {
	case apierrors.IsForbidden(err):
		return false, &RefusedError{Unknown: true, Message: "the operator may not create SubjectAccessReviews, so the rights of the author of " +
			field + " are not known, and nothing is granted; apply the manifests of this version (kubectl apply -f install.yaml, or your variant of it), " +
			"or upgrade the Helm release"}
	case err != nil:
		return false, fmt.Errorf("asking for the rights of user %q, who wrote %s: %w", author.name, field, err)
	}
	return review.Status.Allowed, nil
}

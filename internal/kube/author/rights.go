package author

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/auth/rbac/validation"
)

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

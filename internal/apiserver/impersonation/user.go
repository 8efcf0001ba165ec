package impersonation

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// ProblemError explains why a caller cannot act as the Coder user that a rule names.
type ProblemError struct{ Message string }

// Error implements error.
func (e *ProblemError) Error() string { return e.Message }

func problem(format string, args ...any) error { return &ProblemError{fmt.Sprintf(format, args...)} }

// FindUser returns the Coder user that a decision names. It returns a ProblemError if there is no
// user that a caller can act as.
func FindUser(ctx context.Context, client *coderd.Client, d Decision) (coderd.User, error) {
	var found coderd.User
	switch {
	case d.Problem != "":
		return found, problem("%s, but %s", d.Reason, d.Problem)
	case d.Username != "":
		user, err := client.UserByName(ctx, d.Username)
		// Coder also accepts ids as names, and ignores case.
		if coderd.IsNotFound(err) || err == nil && user.Username != d.Username {
			return found, problem("%s, but there is no user %q in Coder; if the user was renamed in Coder, the rule must be changed", d.Reason, d.Username)
		}
		if err != nil {
			return found, err
		}
		found = user
	default:
		users, err := client.UsersByEmail(ctx, d.Email)
		switch {
		case err != nil:
			return found, err
		case len(users) == 0:
			return found, problem("%s, but no user in Coder has the email %q", d.Reason, d.Email)
		case len(users) > 1:
			return found, problem("%s, but %d users in Coder have the email %q; map by username instead", d.Reason, len(users), d.Email)
		}
		found = users[0]
	}
	if found.IsSuspended() {
		return found, problem("%s, but user %q is suspended in Coder", d.Reason, found.Username)
	}
	return found, nil
}

// The virtual resources for the verb impersonate, with which callers act for others. They have no
// objects.
const (
	verbImpersonate = "impersonate"
	// resourceUsers with a Coder username: change the workspaces of that user with the
	// operator's account.
	resourceUsers = "coderusers"
	// subresourceOwner with a Coder username: the same if the user is an Owner in Coder, and
	// to be mapped to that user.
	subresourceOwner = "owner"
	// subresourceOperator with the name of a control plane: change templates and, with the
	// permission for the user, users with the operator's account.
	subresourceOperator = "operator"
)

// Needed describes the permissions of an unmapped caller in messages.
const Needed = "the verb impersonate on coderusers (group aggregation.coder.com) with the username as resource name for workspaces, " +
	"also on coderusers/owner for those of an Owner, on coderusers/operator for templates, and on both coderusers and " +
	"coderusers/operator for users"

// NeededForOwner describes the permission that a caller mapped to an Owner needs besides the rule.
func NeededForOwner(username string) string {
	return fmt.Sprintf("the verb impersonate on coderusers/owner (group %s) with the name %q, because the user is an Owner in Coder",
		aggregationv1alpha1.GroupVersion.Group, strings.ToLower(username))
}

// Allowed reports whether an authorizer allows a request. The error is 503 and says that this cannot be checked now.
func Allowed(ctx context.Context, by authorizer.UnconditionalAuthorizer, attributes authorizer.Attributes) (bool, error) {
	decision, _, err := by.Authorize(ctx, attributes)
	if err != nil {
		return false, coderfault.Unavailable(fmt.Sprintf("the permissions of %q cannot be checked now: %v", attributes.GetUser().GetName(), err), 0)
	}
	return decision == authorizer.DecisionAllow, nil
}

// impersonation returns the attributes to check whether a caller may act for another user.
func impersonation(caller user.Info, namespace, subresource, name string) authorizer.Attributes {
	return authorizer.AttributesRecord{
		User: caller, Verb: verbImpersonate, Namespace: namespace, ResourceRequest: true,
		APIGroup: aggregationv1alpha1.GroupVersion.Group, APIVersion: aggregationv1alpha1.GroupVersion.Version,
		Resource: resourceUsers, Subresource: subresource, Name: strings.ToLower(name),
	}
}

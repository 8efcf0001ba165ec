package impersonation

import (
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

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
const Needed = "the verb impersonate on coderusers/<username> (group aggregation.coder.com) for workspaces, " +
	"on coderusers/owner for those of an Owner, on coderusers/operator for templates, and on both coderusers and " +
	"coderusers/operator for users"

// NeededForOwner describes the permission that a caller mapped to an Owner needs besides the rule.
func NeededForOwner(username string) string {
	return fmt.Sprintf("the verb impersonate on coderusers/owner (group %s) with the name %q, because the user is an Owner in Coder",
		aggregationv1alpha1.GroupVersion.Group, strings.ToLower(username))
}

// impersonation returns the attributes to check whether a caller may act for another user.
func impersonation(caller user.Info, namespace, subresource, name string) authorizer.Attributes {
	return authorizer.AttributesRecord{
		User: caller, Verb: verbImpersonate, Namespace: namespace, ResourceRequest: true,
		APIGroup: aggregationv1alpha1.GroupVersion.Group, APIVersion: aggregationv1alpha1.GroupVersion.Version,
		Resource: resourceUsers, Subresource: subresource, Name: strings.ToLower(name),
	}
}

package callers

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Refused says why nobody may act as this user through the server, or nothing.
// Kubernetes' own components and the group that RBAC does not bind are out of
// reach, whatever the token says: no person should hand their token to a tool,
// and impersonating them would need more rights than the server should have.
// Names that do not go through an HTTP header as they are would arrive as other
// names.
func Refused(u user.Info) string {
	if u == nil {
		return "nobody is named as the caller"
	}
	name := u.GetName()
	switch {
	case name == "":
		return "the token names no user"
	case !isPlain(name):
		return fmt.Sprintf("user %q may not use this server: Kubernetes takes on only names of plain ASCII characters without a space at the ends", name)
	case strings.HasPrefix(name, systemPrefix) && !isServiceAccount(name):
		return fmt.Sprintf("user %q belongs to Kubernetes itself and may not use this server; use the token of a person or of a service account", name)
	}
	for _, group := range u.GetGroups() {
		switch {
		case slices.Contains(refusedGroups(), group):
			return fmt.Sprintf("members of group %q may not use this server; use an account with only the rights that the tool needs", group)
		case !isPlain(group):
			return fmt.Sprintf("user %q is in group %q, and Kubernetes takes on only names of plain ASCII characters without a space at the ends", name, group)
		}
	}
	return ""
}

// systemPrefix begins the names that Kubernetes keeps for itself.
const systemPrefix = "system:"

func refusedGroups() []string {
	return []string{user.SystemPrivilegedGroup, user.NodesGroup, user.AllUnauthenticated}
}

// isServiceAccount says whether name is the user name of a service account that
// can exist.
func isServiceAccount(name string) bool {
	rest, ok := strings.CutPrefix(name, serviceaccount.ServiceAccountUsernamePrefix)
	if !ok {
		return false
	}
	namespace, account, ok := strings.Cut(rest, serviceaccount.ServiceAccountUsernameSeparator)
	return ok && len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(account)) == 0
}

// isPlain says whether a name arrives as it is when it is sent in an HTTP header.
func isPlain(name string) bool {
	for i := range len(name) {
		if name[i] < ' ' || name[i] > '~' {
			return false
		}
	}
	return name != "" && strings.TrimSpace(name) == name
}

package callers

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Refused returns why no request may impersonate this user, or "". It rejects the
// components of Kubernetes and groups such as system:masters, whatever the token says: no
// user should pass such a token to a tool, and impersonating them would need more
// permissions than the server should have. It also rejects names that would be changed in
// an HTTP header.
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

// systemPrefix is the prefix of names that are reserved for Kubernetes.
const systemPrefix = "system:"

func refusedGroups() []string {
	return []string{user.SystemPrivilegedGroup, user.NodesGroup, user.AllUnauthenticated}
}

// isServiceAccount reports whether name is a valid user name of a service account.
func isServiceAccount(name string) bool {
	rest, ok := strings.CutPrefix(name, serviceaccount.ServiceAccountUsernamePrefix)
	if !ok {
		return false
	}
	namespace, account, ok := strings.Cut(rest, serviceaccount.ServiceAccountUsernameSeparator)
	return ok && len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(account)) == 0
}

// isPlain reports whether an HTTP header transmits the name unchanged.
func isPlain(name string) bool {
	for i := range len(name) {
		if name[i] < ' ' || name[i] > '~' {
			return false
		}
	}
	return name != "" && strings.TrimSpace(name) == name
}

package callers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// errNoCaller is the error of a request without a caller in its context.
var errNoCaller = errors.New("bug: no caller in the context of the request, so nothing is sent: the server's own permissions must not be used")

// ErrReadOnly is the error of a request that does more than read, in a context of ReadOnly.
var ErrReadOnly = errors.New("this call only reads")

type readOnlyKey struct{}

// ReadOnly returns a context in which every request except GET fails, including dry runs. Tools
// that read use it, so that a mistake in one of them cannot change anything. Kube.Exec is not
// restricted, because files in workspaces are read by commands.
func ReadOnly(ctx context.Context) context.Context {
	return context.WithValue(ctx, readOnlyKey{}, true)
}

// impersonationPrefix is the prefix of all impersonation headers.
const impersonationPrefix = "Impersonate-"

// impersonator is a transport that impersonates the caller in the request's context. It
// rejects requests without a caller.
type impersonator struct {
	next http.RoundTripper
	// local is the transport for requests of Local, which use the kubeconfig's own
	// identity.
	local http.RoundTripper
	// extra contains the keys of the extra attributes that are passed on.
	extra []string
}

var _ utilnet.RoundTripperWrapper = (*impersonator)(nil)

func (i *impersonator) RoundTrip(r *http.Request) (*http.Response, error) {
	as, next, err := i.asCaller(r)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	response, err := next.RoundTrip(as)
	if response != nil {
		// Because of this header, client-go would wait and retry up to ten times. The caller
		// gets the error immediately and decides. The body of the response also contains
		// the retry delay.
		response.Header.Del("Retry-After")
	}
	return response, err
}

// asCaller returns a copy of the request that impersonates the caller in its context, and
// the transport for it.
func (i *impersonator) asCaller(r *http.Request) (*http.Request, http.RoundTripper, error) {
	u, ok := request.UserFrom(r.Context())
	if !ok || Refused(u) != "" {
		return nil, nil, errNoCaller
	}
	if r.Context().Value(readOnlyKey{}) == true && r.Method != http.MethodGet {
		return nil, nil, ErrReadOnly
	}
	r = utilnet.CloneRequest(r)
	for header := range r.Header {
		if strings.HasPrefix(http.CanonicalHeaderKey(header), impersonationPrefix) {
			delete(r.Header, header)
		}
	}
	// The same audit ID for all requests of a call, so that they can be found in the audit
	// log of Kubernetes.
	if id := tracing.RequestID(r.Context()); id != "" {
		r.Header.Set(tracing.AuditIDHeader, id)
	}
	if _, local := u.(Local); local {
		return r, i.local, nil
	}
	r.Header.Set(authenticationv1.ImpersonateUserHeader, u.GetName())
	for _, group := range Groups(u) {
		r.Header.Add(authenticationv1.ImpersonateGroupHeader, group)
	}
	return r, i.next, i.passExtra(r.Header, u)
}

// passExtra adds the extra attributes of a user. A service account is impersonated by its
// name only.
func (i *impersonator) passExtra(header http.Header, u user.Info) error {
	if isServiceAccount(u.GetName()) {
		return nil
	}
	for _, key := range i.extra {
		for _, value := range u.GetExtra()[key] {
			if !isPlain(value) {
				return fmt.Errorf("a value of the extra attribute %q of user %q cannot be passed on: Kubernetes impersonation allows only plain ASCII characters", key, u.GetName())
			}
			header.Add(authenticationv1.ImpersonateUserExtraHeaderPrefix+strings.ReplaceAll(key, "/", "%2F"), value)
		}
	}
	return nil
}

// ValidExtraKey reports whether extra attributes with this key can be sent in a header.
func ValidExtraKey(key string) bool {
	return key != "" && strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789-._/") == ""
}

// WrappedRoundTripper returns the wrapped transport, for client-go.
func (i *impersonator) WrappedRoundTripper() http.RoundTripper { return i.next }

// Groups returns the groups with which a caller is impersonated. It omits the groups that
// the API server adds: all groups of a service account (constrained impersonation rejects
// them), and system:authenticated.
func Groups(u user.Info) []string {
	if isServiceAccount(u.GetName()) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(u.GetGroups()), func(group string) bool { return group == user.AllAuthenticated })
}

// Refused returns why no request may impersonate this user, or "". It rejects the
// components of Kubernetes and groups such as system:masters, whatever the token says: no
// user should pass such a token to a tool, and impersonating them would need more
// permissions than the server should have. It also rejects names that would be changed in
// an HTTP header.
func Refused(u user.Info) string {
	if u == nil {
		return "the caller has no name"
	}
	name := u.GetName()
	switch {
	case name == "":
		return "the token names no user"
	case !isPlain(name):
		return fmt.Sprintf("user %q may not use this server: Kubernetes impersonation allows only names of plain ASCII characters without leading or trailing spaces", name)
	case strings.HasPrefix(name, systemPrefix) && !isServiceAccount(name):
		return fmt.Sprintf("user %q is a system user of Kubernetes and may not use this server; use the token of a person or of a service account", name)
	}
	for _, group := range u.GetGroups() {
		switch {
		case slices.Contains([]string{user.SystemPrivilegedGroup, user.NodesGroup, user.AllUnauthenticated}, group):
			return fmt.Sprintf("members of group %q may not use this server; use an account with only the permissions that the tool needs", group)
		case !isPlain(group):
			return fmt.Sprintf("user %q is in group %q, and Kubernetes impersonation allows only names of plain ASCII characters without leading or trailing spaces", name, group)
		}
	}
	return ""
}

// systemPrefix is the prefix of names that are reserved for Kubernetes.
const systemPrefix = "system:"

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

// Local is the caller of a server without authentication. Its requests use the identity of
// the process's kubeconfig. Only an Authenticator creates it, and only for a server on a
// loopback address. It has its own type, so that no token can claim to be it.
type Local struct{}

var _ user.Info = Local{}

// GetName implements user.Info. The name is used only in logs.
func (Local) GetName() string { return "local" }

// GetUID implements user.Info.
func (Local) GetUID() string { return "" }

// GetGroups implements user.Info.
func (Local) GetGroups() []string { return nil }

// GetExtra implements user.Info.
func (Local) GetExtra() map[string][]string { return nil }

// NameOf returns the name of the caller in the context, or "" if there is none.
func NameOf(ctx context.Context) string {
	if caller, ok := request.UserFrom(ctx); ok {
		return caller.GetName()
	}
	return ""
}

package mcpserver

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errNoCaller is what a call without a caller in its context ends with.
var errNoCaller = errors.New("no caller in the context of the request: nothing is sent with the server's own rights")

// newCallerClient makes the one client with which tools talk to Kubernetes. It
// acts as the caller of each request's context. The mapper is given, and must
// have a client of its own, because discovery does not hand the context on.
func newCallerClient(base *rest.Config, scheme *runtime.Scheme, mapper meta.RESTMapper) (client.Client, error) {
	cfg := rest.CopyConfig(base)
	cfg.Impersonate = rest.ImpersonationConfig{}
	// The API server's own fairness limits callers; client-go's limit would make
	// all of them share five requests a second.
	cfg.QPS, cfg.Burst, cfg.RateLimiter = -1, 0, nil
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &impersonator{next: next} })
	c, err := client.New(cfg, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("making the client that acts as the caller: %w", err)
	}
	return c, nil
}

// impersonator sends every request as the caller of its context.
type impersonator struct{ next http.RoundTripper }

var _ utilnet.RoundTripperWrapper = (*impersonator)(nil)

// RoundTrip implements http.RoundTripper.
func (i *impersonator) RoundTrip(r *http.Request) (*http.Response, error) {
	u, ok := request.UserFrom(r.Context())
	if !ok || u == nil || refusedIdentity(u) != "" {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, errNoCaller
	}
	r = utilnet.CloneRequest(r)
	for header := range r.Header {
		if strings.HasPrefix(http.CanonicalHeaderKey(header), "Impersonate-") {
			delete(r.Header, header)
		}
	}
	r.Header.Set(authenticationv1.ImpersonateUserHeader, u.GetName())
	for _, group := range impersonatedGroups(u) {
		r.Header.Add(authenticationv1.ImpersonateGroupHeader, group)
	}
	return i.next.RoundTrip(r)
}

// WrappedRoundTripper lets client-go find the transport below.
func (i *impersonator) WrappedRoundTripper() http.RoundTripper { return i.next }

// impersonatedGroups leaves out what the API server adds by itself: all groups
// of a service account (constrained impersonation refuses them there), and
// system:authenticated.
func impersonatedGroups(u user.Info) []string {
	if strings.HasPrefix(u.GetName(), serviceAccountPrefix) {
		return nil
	}
	var groups []string
	for _, group := range u.GetGroups() {
		if group != user.AllAuthenticated {
			groups = append(groups, group)
		}
	}
	return groups
}

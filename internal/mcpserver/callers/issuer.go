package callers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// issuerTimeout limits a request to the issuer.
const issuerTimeout = 4 * time.Second

// errNotStarted is the error before the issuer's keys have been requested.
var errNotStarted = errors.New("the keys of the OpenID Connect issuer are not loaded yet")

// issuer verifies the tokens of an OpenID Connect issuer, in the same way as
// kube-apiserver.
type issuer struct {
	url       string
	audiences []string
	options   oidc.Options
	requests  *countingTransport
	// tokens is nil before start, which must be called before the first request.
	tokens oidc.AuthenticatorTokenWithHealthCheck
}

func newIssuer(o AuthenticationOptions) (*issuer, error) {
	requests, err := newCountingTransport(o.OIDC.CAFile)
	if err != nil {
		return nil, err
	}
	audiences := o.OIDC.Audiences
	if len(audiences) == 0 {
		audiences = []string{o.PublicURL}
	}
	return &issuer{
		url:       o.OIDC.IssuerURL,
		audiences: audiences,
		requests:  requests,
		options: oidc.Options{
			JWTAuthenticator:     o.OIDC.jwtAuthenticator(audiences),
			Client:               &http.Client{Transport: requests, Timeout: issuerTimeout},
			SupportedSigningAlgs: oidc.AllValidSigningAlgorithms(),
		},
	}, nil
}

// jwtAuthenticator converts the options in the same way as kube-apiserver converts its
// flags.
func (o *OIDCOptions) jwtAuthenticator(audiences []string) apiserver.JWTAuthenticator {
	usernamePrefix := o.UsernamePrefix
	switch {
	case usernamePrefix == noPrefix:
		usernamePrefix = ""
	case usernamePrefix == "" && o.UsernameClaim != "email":
		usernamePrefix = o.IssuerURL + "#"
	}
	authenticator := apiserver.JWTAuthenticator{
		Issuer: apiserver.Issuer{
			URL:                 o.IssuerURL,
			Audiences:           audiences,
			AudienceMatchPolicy: apiserver.AudienceMatchPolicyMatchAny,
		},
		ClaimMappings: apiserver.ClaimMappings{
			Username: apiserver.PrefixedClaimOrExpression{Claim: o.UsernameClaim, Prefix: &usernamePrefix},
		},
	}
	if o.GroupsClaim != "" {
		authenticator.ClaimMappings.Groups = apiserver.PrefixedClaimOrExpression{Claim: o.GroupsClaim, Prefix: &o.GroupsPrefix}
	}
	return authenticator
}

// start begins to request the issuer's keys, every ten seconds until it succeeds or ctx ends.
func (i *issuer) start(ctx context.Context) error {
	tokens, err := oidc.New(ctx, i.options)
	if err != nil {
		return fmt.Errorf("preparing to verify the tokens of %s: %w", i.url, err)
	}
	i.tokens = tokens
	return nil
}

func (i *issuer) check(context.Context) error {
	if i.tokens == nil {
		return errNotStarted
	}
	if err := i.tokens.HealthCheck(); err != nil {
		return fmt.Errorf("the keys of the OpenID Connect issuer could not be loaded: %w", err)
	}
	return nil
}

func (i *issuer) advice() string {
	return fmt.Sprintf("get one from %s for the audience %s", i.url, strings.Join(i.audiences, " or "))
}

// refused rejects names with the prefix system: in the issuer's tokens. An issuer
// authenticates users, not service accounts and groups of the cluster.
func (i *issuer) refused(u user.Info) string {
	for _, name := range slices.Concat([]string{u.GetName()}, u.GetGroups()) {
		if strings.HasPrefix(name, "system:") {
			return fmt.Sprintf("the token claims %q, a name reserved for Kubernetes; an administrator must set a prefix for names and groups of this issuer", name)
		}
	}
	return ""
}

func (i *issuer) authenticate(ctx context.Context, token string) (tokenOwner, bool, error) {
	if err := i.check(ctx); err != nil {
		return tokenOwner{}, false, err
	}
	failures := i.requests.failures.Load()
	response, ok, err := i.tokens.AuthenticateToken(ctx, token)
	switch {
	case err != nil && (ctx.Err() != nil || i.requests.failures.Load() != failures || strings.Contains(err.Error(), keysNotLoaded)):
		return tokenOwner{}, false, errors.New("verifying a token: " + withoutToken(err, token))
	case err != nil:
		log.FromContext(ctx).V(1).Info("Refused a token", "reason", withoutToken(err, token))
		return tokenOwner{}, false, nil
	case !ok:
		log.FromContext(ctx).V(1).Info("Refused a token of another issuer")
		return tokenOwner{}, false, nil
	}
	return tokenOwner{user: response.User, expires: expiry(token)}, true, nil
}

// keysNotLoaded is in the error of github.com/coreos/go-oidc if the issuer's keys could not be
// loaded. Several tokens may share one request for the keys, so the failure may have been counted
// before the verification of a token began.
const keysNotLoaded = "fetching keys"

// countingTransport sends requests to the issuer and counts those that failed. The count
// distinguishes a token that cannot be verified now from one that is invalid, because most
// errors do not.
type countingTransport struct {
	next     http.RoundTripper
	failures atomic.Int64
}

func newCountingTransport(caFile string) (*countingTransport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("reading --mcp-oidc-ca-file: %w", err)
		}
		if config.RootCAs, err = certutil.NewPoolFromBytes(pem); err != nil {
			return nil, fmt.Errorf("reading --mcp-oidc-ca-file %s: %w", caFile, err)
		}
	}
	return &countingTransport{next: utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: config})}, nil
}

func (t *countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusOK {
		t.failures.Add(1)
	}
	return response, err
}

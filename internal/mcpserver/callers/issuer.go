package callers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
	certutil "k8s.io/client-go/util/cert"
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
	logger    logr.Logger
	// tokens is nil before start, which must be called before the first request.
	tokens oidc.AuthenticatorTokenWithHealthCheck
}

func newIssuer(o AuthenticationOptions, logger logr.Logger) (*issuer, error) {
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.OIDC.CAFile != "" {
		var err error
		if tlsConfig.RootCAs, err = certutil.NewPool(o.OIDC.CAFile); err != nil {
			return nil, fmt.Errorf("reading --mcp-oidc-ca-file: %w", err)
		}
	}
	audiences := o.OIDC.Audiences
	if len(audiences) == 0 {
		audiences = []string{o.PublicURL}
	}
	// The options mean the same as the flags of kube-apiserver.
	usernamePrefix := o.OIDC.UsernamePrefix
	switch {
	case usernamePrefix == noPrefix:
		usernamePrefix = ""
	case usernamePrefix == "" && o.OIDC.UsernameClaim != "email":
		usernamePrefix = o.OIDC.IssuerURL + "#"
	}
	jwt := apiserver.JWTAuthenticator{
		Issuer: apiserver.Issuer{
			URL:                 o.OIDC.IssuerURL,
			Audiences:           audiences,
			AudienceMatchPolicy: apiserver.AudienceMatchPolicyMatchAny,
		},
		ClaimMappings: apiserver.ClaimMappings{
			Username: apiserver.PrefixedClaimOrExpression{Claim: o.OIDC.UsernameClaim, Prefix: &usernamePrefix},
		},
	}
	if o.OIDC.GroupsClaim != "" {
		jwt.ClaimMappings.Groups = apiserver.PrefixedClaimOrExpression{Claim: o.OIDC.GroupsClaim, Prefix: &o.OIDC.GroupsPrefix}
	}
	transport := utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: tlsConfig})
	return &issuer{
		url:       o.OIDC.IssuerURL,
		audiences: audiences,
		logger:    logger,
		options: oidc.Options{
			JWTAuthenticator:     jwt,
			Client:               &http.Client{Transport: transport, Timeout: issuerTimeout},
			SupportedSigningAlgs: oidc.AllValidSigningAlgorithms(),
		},
	}, nil
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

// reserved rejects names with the prefix system: in the issuer's tokens. An issuer
// authenticates users, not service accounts and groups of the cluster.
func reserved(u user.Info) string {
	for _, name := range slices.Concat([]string{u.GetName()}, u.GetGroups()) {
		if strings.HasPrefix(name, systemPrefix) {
			return fmt.Sprintf("the token claims %q, a name reserved for Kubernetes; an administrator must set a prefix for names and groups of this issuer", name)
		}
	}
	return ""
}

// AuthenticateToken implements authenticator.Token.
func (i *issuer) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if err := i.check(ctx); err != nil {
		return nil, false, err
	}
	response, ok, err := i.tokens.AuthenticateToken(ctx, token)
	switch {
	case err != nil && cannotVerifyNow(err):
		return nil, false, errors.New("verifying a token: " + withoutToken(err, token))
	case err != nil:
		i.logger.V(1).Info("Refused a token", "reason", withoutToken(err, token))
	case !ok:
		i.logger.V(1).Info("Refused a token of another issuer")
	}
	return response, ok && err == nil, nil
}

// cannotVerifyNow reports whether an error of k8s.io/apiserver means that a token cannot be verified
// now: the issuer's keys could not be loaded (the text is from github.com/coreos/go-oidc), or the
// token is signed, but the groups that it refers to (distributed claims) could not be loaded. All
// other errors mean that the token is invalid. Only the beginning of the text is compared, because
// the rest can repeat what is in the token.
func cannotVerifyNow(err error) bool {
	return strings.HasPrefix(err.Error(), "oidc: verify token: failed to verify signature: fetching keys") ||
		strings.HasPrefix(err.Error(), "oidc: could not expand distributed claims")
}

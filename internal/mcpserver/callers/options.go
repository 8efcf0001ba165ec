package callers

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/spf13/pflag"
)

// Mode selects how callers are authenticated.
type Mode string

const (
	// ModeTokenReview checks tokens with the TokenReview API of Kubernetes.
	ModeTokenReview Mode = "tokenreview"
	// ModeOIDC verifies the tokens of an OpenID Connect issuer.
	ModeOIDC Mode = "oidc"
	// ModeNone accepts every request, with the permissions of the process's own kubeconfig.
	ModeNone Mode = "none"
)

// noPrefix disables the prefix of user names, as in kube-apiserver.
const noPrefix = "-"

// AuthenticationOptions are the user's settings. AddFlags describes the fields.
type AuthenticationOptions struct {
	Mode      Mode
	PublicURL string
	OIDC      OIDCOptions
}

// OIDCOptions configure which tokens are valid in ModeOIDC, and how they map to users. They
// have the same meaning as the flags of kube-apiserver with the same suffixes.
type OIDCOptions struct {
	IssuerURL                     string
	Audiences                     []string
	CAFile                        string
	UsernameClaim, UsernamePrefix string
	GroupsClaim, GroupsPrefix     string
}

// NewAuthenticationOptions returns the defaults.
func NewAuthenticationOptions() *AuthenticationOptions {
	return &AuthenticationOptions{Mode: ModeTokenReview, OIDC: OIDCOptions{UsernameClaim: "sub"}}
}

// AddFlags registers the options as flags.
func (o *AuthenticationOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar((*string)(&o.Mode), "mcp-auth", string(o.Mode),
		"how the MCP server authenticates callers: tokenreview sends tokens to the Kubernetes API, for the audience "+Audience+
			", oidc verifies the tokens of an issuer, none lets everyone act with the process's own kubeconfig and is accepted only on a loopback address outside of a cluster")
	fs.StringVar(&o.PublicURL, "mcp-public-url", o.PublicURL,
		"URL of the MCP endpoint as clients write it, for example https://mcp.example.com/mcp; --mcp-auth=oidc needs it")
	fs.StringVar(&o.OIDC.IssuerURL, "mcp-oidc-issuer-url", o.OIDC.IssuerURL,
		"https URL of the OpenID Connect issuer whose tokens the MCP server accepts")
	fs.StringSliceVar(&o.OIDC.Audiences, "mcp-oidc-audience", o.OIDC.Audiences,
		"audiences of which a token must have at least one (default: --mcp-public-url)")
	fs.StringVar(&o.OIDC.CAFile, "mcp-oidc-ca-file", o.OIDC.CAFile,
		"file with the PEM certificates of the authorities that the issuer's certificate is verified with; read once, at the start (default: those of the system)")
	fs.StringVar(&o.OIDC.UsernameClaim, "mcp-oidc-username-claim", o.OIDC.UsernameClaim,
		"claim that contains the name of the user")
	fs.StringVar(&o.OIDC.UsernamePrefix, "mcp-oidc-username-prefix", o.OIDC.UsernamePrefix,
		"prefix for the name of the user; - for no prefix (default: the issuer's URL and #, no prefix for the claim email)")
	fs.StringVar(&o.OIDC.GroupsClaim, "mcp-oidc-groups-claim", o.OIDC.GroupsClaim,
		"claim that contains the groups of the user (default: users have no groups)")
	fs.StringVar(&o.OIDC.GroupsPrefix, "mcp-oidc-groups-prefix", o.OIDC.GroupsPrefix,
		"prefix for the name of each group")
}

// Validate returns all errors in the options. bindAddress is the address on which the
// server will listen.
func (o *AuthenticationOptions) Validate(bindAddress string) []error {
	var errs []error
	if o.PublicURL != "" {
		errs = append(errs, validatePublicURL(o.PublicURL)...)
	}
	switch o.Mode {
	case ModeTokenReview:
	case ModeNone:
		if host, _, err := net.SplitHostPort(bindAddress); err != nil || !isLoopback(host) {
			errs = append(errs, fmt.Errorf("--mcp-auth=none lets everyone who can connect act with the process's own permissions, "+
				"so it needs a loopback address: --mcp-bind-address is %q; give --mcp-bind-address=127.0.0.1:8090, or another --mcp-auth", bindAddress))
		}
	case ModeOIDC:
		return append(errs, o.validateOIDC()...)
	default:
		errs = append(errs, fmt.Errorf("--mcp-auth=%s is not known; it is %s, %s or %s", o.Mode, ModeTokenReview, ModeOIDC, ModeNone))
	}
	for _, flag := range []struct{ name, value string }{
		{"--mcp-oidc-issuer-url", o.OIDC.IssuerURL},
		{"--mcp-oidc-audience", strings.Join(o.OIDC.Audiences, ",")},
		{"--mcp-oidc-ca-file", o.OIDC.CAFile},
		{"--mcp-oidc-username-prefix", o.OIDC.UsernamePrefix},
		{"--mcp-oidc-groups-claim", o.OIDC.GroupsClaim},
		{"--mcp-oidc-groups-prefix", o.OIDC.GroupsPrefix},
	} {
		if flag.value != "" {
			errs = append(errs, fmt.Errorf("%s has no effect without --mcp-auth=oidc", flag.name))
		}
	}
	return errs
}

func (o *AuthenticationOptions) validateOIDC() []error {
	var errs []error
	if o.PublicURL == "" {
		errs = append(errs, errors.New("--mcp-auth=oidc needs --mcp-public-url, from which clients learn where to get a token"))
	}
	u, err := url.Parse(o.OIDC.IssuerURL)
	switch {
	case o.OIDC.IssuerURL == "":
		errs = append(errs, errors.New("--mcp-auth=oidc needs --mcp-oidc-issuer-url"))
	case err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		errs = append(errs, fmt.Errorf("--mcp-oidc-issuer-url %q is not the URL of an issuer; write it like https://login.example.com, without user, query and fragment", redacted(u)))
	}
	if o.OIDC.UsernameClaim == "" {
		errs = append(errs, errors.New("--mcp-oidc-username-claim is empty: set the claim with the user name; the default is sub"))
	}
	if o.OIDC.GroupsPrefix != "" && o.OIDC.GroupsClaim == "" {
		errs = append(errs, errors.New("--mcp-oidc-groups-prefix has no effect without --mcp-oidc-groups-claim"))
	}
	for i, audience := range o.OIDC.Audiences {
		switch {
		case audience == "":
			errs = append(errs, errors.New("--mcp-oidc-audience has an empty audience, which no token is issued for"))
		case slices.Contains(o.OIDC.Audiences[:i], audience):
			errs = append(errs, fmt.Errorf("--mcp-oidc-audience has %q twice", audience))
		}
	}
	return errs
}

// validatePublicURL requires https, except on a loopback address, so that tokens are not
// sent in plain text.
func validatePublicURL(value string) []error {
	u, err := url.Parse(value)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return []error{fmt.Errorf("--mcp-public-url %q is not the URL of an endpoint; write it like https://mcp.example.com/mcp, without user, query and fragment", redacted(u))}
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return []error{fmt.Errorf("--mcp-public-url %q is not https: tokens would cross the network in the clear", value)}
	}
	return nil
}

// redacted returns a URL without its password, or "" if it could not be parsed.
func redacted(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.Redacted()
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}

// MetadataPath is the path of the metadata document of RFC 9728. Clients also request it
// with the path of the endpoint appended.
const MetadataPath = "/.well-known/oauth-protected-resource"

// Metadata returns the handler of the document in which clients find out where to get a
// token (RFC 9728). It returns nil in every mode except ModeOIDC. The document is public,
// for every web origin.
func (a *Authenticator) Metadata() http.Handler {
	if a.cfg.Options.Mode != ModeOIDC {
		return nil
	}
	return auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource:               a.cfg.Options.PublicURL,
		AuthorizationServers:   []string{a.cfg.Options.OIDC.IssuerURL},
		BearerMethodsSupported: []string{"header"},
		ResourceName:           "coder-k8s",
	})
}

// metadataURL returns the URL of the document, or "". The well-known path is inserted
// between the host and the path of the endpoint.
func (a *Authenticator) metadataURL() string {
	if a.cfg.Options.Mode != ModeOIDC {
		return ""
	}
	u, err := url.Parse(a.cfg.Options.PublicURL)
	if err != nil {
		return ""
	}
	path := u.Path
	if path == "/" {
		path = ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: MetadataPath + path}).String()
}

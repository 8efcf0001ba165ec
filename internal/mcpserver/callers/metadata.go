package callers

import (
	"net/http"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// MetadataPath is the path of the metadata document of RFC 9728. Clients also request it
// with the path of the endpoint appended.
const MetadataPath = "/.well-known/oauth-protected-resource"

// Metadata returns the handler of the document in which clients find out where to get a
// token (RFC 9728). It returns nil in every mode except ModeOIDC. The document is public,
// for every web origin.
func (a *Authenticator) Metadata() http.Handler {
	if a.options.Mode != ModeOIDC {
		return nil
	}
	return auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource:               a.options.PublicURL,
		AuthorizationServers:   []string{a.options.OIDC.IssuerURL},
		BearerMethodsSupported: []string{"header"},
		ResourceName:           "coder-k8s",
	})
}

// metadataURL returns the URL of the document, or "". The well-known path is inserted
// between the host and the path of the endpoint.
func (a *Authenticator) metadataURL() string {
	if a.options.Mode != ModeOIDC {
		return ""
	}
	u, err := url.Parse(a.options.PublicURL)
	if err != nil {
		return ""
	}
	path := u.Path
	if path == "/" {
		path = ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: MetadataPath + path}).String()
}

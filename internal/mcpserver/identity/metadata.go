package identity

import (
	"net/http"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// MetadataPath is where clients look for the metadata of RFC 9728, there and with
// the path of the endpoint behind it.
const MetadataPath = "/.well-known/oauth-protected-resource"

// Metadata serves the document from which clients learn where to get a token
// (RFC 9728). It is nil where they cannot, which is in every mode but oidc.
// Anybody may read it, from any web page.
func (id *Identity) Metadata() http.Handler {
	if id.options.Mode != ModeOIDC {
		return nil
	}
	return auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource:               id.options.PublicURL,
		AuthorizationServers:   []string{id.options.OIDC.IssuerURL},
		BearerMethodsSupported: []string{"header"},
		ResourceName:           "coder-k8s",
	})
}

// metadataURL is where clients find the document, or nothing: the well-known
// path goes between the host and the path of the endpoint.
func (id *Identity) metadataURL() string {
	if id.options.Mode != ModeOIDC {
		return ""
	}
	u, err := url.Parse(id.options.PublicURL)
	if err != nil {
		return ""
	}
	path := u.Path
	if path == "/" {
		path = ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: MetadataPath + path}).String()
}

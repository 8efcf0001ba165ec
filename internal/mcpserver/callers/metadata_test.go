package callers

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func oidcAuthenticator(t *testing.T, public string) *Authenticator {
	t.Helper()
	o := *NewAuthenticationOptions()
	o.Mode, o.PublicURL, o.OIDC.IssuerURL = ModeOIDC, public, "https://login.example.com"
	id, err := NewAuthenticator(AuthenticatorConfig{Options: o, BindAddress: ":8090"})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestMetadata(t *testing.T) {
	w := httptest.NewRecorder()
	oidcAuthenticator(t, publicURL).Metadata().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, MetadataPath, nil))
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
		t.Fatalf("the answer is %d %s: %v", w.Code, w.Body, err)
	}
	want := map[string]any{
		"resource":                 publicURL,
		"authorization_servers":    []any{"https://login.example.com"},
		"bearer_methods_supported": []any{"header"},
		"resource_name":            "coder-k8s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the document (-want +got):\n%s", diff)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("its type is %q", got)
	}
	if newDoor(t).Metadata() != nil {
		t.Error("there is such a document where no issuer is known")
	}
}

func TestMetadataURL(t *testing.T) {
	for public, want := range map[string]string{
		publicURL:                           "https://mcp.example.com/.well-known/oauth-protected-resource/mcp",
		"https://mcp.example.com":           "https://mcp.example.com/.well-known/oauth-protected-resource",
		"https://mcp.example.com/":          "https://mcp.example.com/.well-known/oauth-protected-resource",
		"https://tools.example.com:8443/x":  "https://tools.example.com:8443/.well-known/oauth-protected-resource/x",
		"http://127.0.0.1:8090/mcp":         "http://127.0.0.1:8090/.well-known/oauth-protected-resource/mcp",
		"https://mcp.example.com/a%22b/mcp": "https://mcp.example.com/.well-known/oauth-protected-resource/a%22b/mcp",
	} {
		if got := oidcAuthenticator(t, public).metadataURL(); got != want {
			t.Errorf("of %s it is %s, want %s", public, got, want)
		}
	}
}

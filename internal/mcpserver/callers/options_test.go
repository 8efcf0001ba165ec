package callers

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestOptions(t *testing.T) {
	oidc := []string{"--mcp-auth=oidc", "--mcp-public-url=" + publicURL, "--mcp-oidc-issuer-url=https://login.example.com"}
	tests := map[string]struct {
		args    []string
		address string
		// says contains a part of each error message, in order.
		says []string
	}{
		"the defaults":     {},
		"an issuer":        {args: oidc},
		"none on loopback": {args: []string{"--mcp-auth=none"}, address: "127.0.0.1:8090"},
		"an issuer with everything": {args: append([]string{"--mcp-oidc-audience=a,b", "--mcp-oidc-ca-file=x", "--mcp-oidc-username-claim=email",
			"--mcp-oidc-username-prefix=-", "--mcp-oidc-groups-claim=groups", "--mcp-oidc-groups-prefix=g:"}, oidc...)},
		"a public URL without an issuer":         {args: []string{"--mcp-public-url=" + publicURL}},
		"a public URL on the machine itself":     {args: []string{"--mcp-public-url=http://localhost:8090/mcp"}},
		"none on every address":                  {args: []string{"--mcp-auth=none"}, says: []string{"loopback"}},
		"an unknown mode":                        {args: []string{"--mcp-auth=ldap"}, says: []string{"tokenreview, oidc or none"}},
		"an issuer without anything":             {args: []string{"--mcp-auth=oidc"}, says: []string{"--mcp-public-url", "--mcp-oidc-issuer-url"}},
		"an issuer without TLS":                  {args: append(oidc, "--mcp-oidc-issuer-url=http://login.example.com"), says: []string{"--mcp-oidc-issuer-url"}},
		"an issuer with a query":                 {args: append(oidc, "--mcp-oidc-issuer-url=https://login.example.com?x"), says: []string{"--mcp-oidc-issuer-url"}},
		"an issuer that is a path":               {args: append(oidc, "--mcp-oidc-issuer-url=login"), says: []string{"--mcp-oidc-issuer-url"}},
		"an issuer that cannot be read":          {args: append(oidc, "--mcp-oidc-issuer-url=https://%zz"), says: []string{"--mcp-oidc-issuer-url"}},
		"nobody has a name":                      {args: append(oidc, "--mcp-oidc-username-claim="), says: []string{"--mcp-oidc-username-claim"}},
		"a prefix of no groups":                  {args: append(oidc, "--mcp-oidc-groups-prefix=g:"), says: []string{"--mcp-oidc-groups-claim"}},
		"audiences twice and empty":              {args: append(oidc, "--mcp-oidc-audience=a,a,"), says: []string{`"a" twice`, "empty audience"}},
		"a public URL in the clear":              {args: []string{"--mcp-public-url=http://mcp.example.com/mcp"}, says: []string{"not https"}},
		"a public URL that is a name":            {args: []string{"--mcp-public-url=mcp.example.com"}, says: []string{"--mcp-public-url"}},
		"a public URL with a password":           {args: []string{"--mcp-public-url=https://a:s3cret@mcp.example.com/mcp"}, says: []string{"--mcp-public-url"}},
		"what has no effect, and a bad URL, too": {args: []string{"--mcp-public-url=x", "--mcp-oidc-issuer-url=https://login.example.com", "--mcp-oidc-groups-claim=g"}, says: []string{"--mcp-public-url", "--mcp-oidc-issuer-url has no effect", "--mcp-oidc-groups-claim has no effect"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o, fs := NewAuthenticationOptions(), pflag.NewFlagSet("test", pflag.ContinueOnError)
			o.AddFlags(fs)
			if err := fs.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			address := tc.address
			if address == "" {
				address = ":8090"
			}
			errs := o.Validate(address)
			if len(errs) != len(tc.says) {
				t.Fatalf("there are %d mistakes, want %d: %v", len(errs), len(tc.says), errors.Join(errs...))
			}
			for i, err := range errs {
				if !strings.Contains(err.Error(), tc.says[i]) || strings.Contains(err.Error(), "s3cret") {
					t.Errorf("mistake %d is %q, want %q in it", i, err, tc.says[i])
				}
			}
		})
	}
}

func TestFlags(t *testing.T) {
	o, fs := NewAuthenticationOptions(), pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.AddFlags(fs)
	if err := fs.Parse([]string{"--mcp-auth=oidc", "--mcp-public-url=u", "--mcp-oidc-issuer-url=i", "--mcp-oidc-audience=a,b", "--mcp-oidc-audience=c", "--mcp-oidc-ca-file=f",
		"--mcp-oidc-username-claim=uc", "--mcp-oidc-username-prefix=up", "--mcp-oidc-groups-claim=gc", "--mcp-oidc-groups-prefix=gp"}); err != nil {
		t.Fatal(err)
	}
	want := &AuthenticationOptions{Mode: ModeOIDC, PublicURL: "u", OIDC: OIDCOptions{IssuerURL: "i", Audiences: []string{"a", "b", "c"}, CAFile: "f",
		UsernameClaim: "uc", UsernamePrefix: "up", GroupsClaim: "gc", GroupsPrefix: "gp"}}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("the options (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&AuthenticationOptions{Mode: ModeTokenReview, OIDC: OIDCOptions{UsernameClaim: "sub"}}, NewAuthenticationOptions()); diff != "" {
		t.Errorf("the defaults (-want +got):\n%s", diff)
	}
}

func TestNewTellsAllMistakes(t *testing.T) {
	_, err := NewAuthenticator(AuthenticatorConfig{Kube: newPeople().kube(), Options: AuthenticationOptions{Mode: ModeOIDC}, BindAddress: ":8090"})
	for _, flag := range []string{"--mcp-public-url", "--mcp-oidc-issuer-url", "--mcp-oidc-username-claim"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s is not in %v", flag, err)
		}
	}
}

func oidcAuthenticator(t *testing.T, public string) *Authenticator {
	t.Helper()
	o := *NewAuthenticationOptions()
	o.Mode, o.PublicURL, o.OIDC.IssuerURL = ModeOIDC, public, "https://login.example.com"
	id, err := NewAuthenticator(AuthenticatorConfig{Kube: newPeople().kube(), Options: o, BindAddress: ":8090"})
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

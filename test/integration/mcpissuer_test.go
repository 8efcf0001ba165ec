package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// issuer is an OpenID Connect issuer for users that are not ServiceAccounts.
type issuer struct {
	*httptest.Server
	key    *ecdsa.PrivateKey
	caFile string
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key, caFile: filepath.Join(t.TempDir(), "ca.pem")}
	mux := http.NewServeMux()
	serve := func(path string, body func() map[string]any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(body())
		})
	}
	serve("/.well-known/openid-configuration", func() map[string]any {
		return map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"}}
	})
	point, err := key.PublicKey.Bytes() // 4, then both coordinates.
	if err != nil {
		t.Fatal(err)
	}
	serve("/keys", func() map[string]any {
		return map[string]any{"keys": []any{map[string]any{
			"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "one", "x": encoded(point[1:33]), "y": encoded(point[33:]),
		}}}
	})
	i.Server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
	if err := os.WriteFile(i.caFile, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	return i
}

// token returns a token for a user with groups.
func (i *issuer) token(t *testing.T, audience, user string, groups ...string) string {
	t.Helper()
	part := func(v map[string]any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return encoded(text)
	}
	signed := part(map[string]any{"alg": "ES256", "kid": "one", "typ": "JWT"}) + "." + part(map[string]any{
		"iss": i.URL, "aud": audience, "sub": user, "groups": groups, "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(),
	})
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signed + "." + encoded(signature)
}

func encoded(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

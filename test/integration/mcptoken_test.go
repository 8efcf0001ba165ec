package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// door is an MCP server with TLS.
type door struct {
	*process
	client *http.Client
}

func newDoor(t *testing.T) *door {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for file, content := range map[string][]byte{certFile: certificate, keyFile: key} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Every request offers an administrator's client certificate.
	administrator, err := tls.X509KeyPair(environment.config.CertData, environment.config.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{administrator}}}
	t.Cleanup(transport.CloseIdleConnections)
	p := startMCP(t, "--log-level=debug", "--mcp-tls-cert-file="+certFile, "--mcp-tls-key-file="+keyFile)
	p.ready(t)
	return &door{process: p, client: &http.Client{Transport: transport}}
}

// knock lists the tools, with an Authorization header.
func (d *door) knock(ctx context.Context, authorization string) (status int, challenge, answer string, err error) {
	request, err := mcptest.Message{Method: "tools/list"}.Request(ctx, "https://127.0.0.1:"+d.mcpPort+"/mcp")
	if err != nil {
		return 0, "", "", err
	}
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response, err := d.client.Do(request)
	if err != nil {
		return 0, "", "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, response.Header.Get("WWW-Authenticate"), string(content), err
}

// TestMCPTokens checks that the MCP server accepts only tokens with its audience that
// kube-apiserver authenticates.
func TestMCPTokens(t *testing.T) {
	t.Parallel()
	d, ns := newDoor(t), namespace(t)
	good := robot(t, ns, "robot")
	tokens := map[string]string{
		"for the API server": serviceAccountToken(t, ns, "robot", ""),
		"for another server": serviceAccountToken(t, ns, "robot", "vault"),
		"of nobody":          "x.y.z",
		"without an end":     strings.TrimRight(good, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"),
	}
	for name, token := range tokens {
		status, challenge, answer, err := d.knock(t.Context(), "Bearer "+token)
		if err != nil || status != http.StatusUnauthorized || !strings.Contains(challenge, `error="invalid_token"`) || !strings.Contains(answer, "--audience=coder-k8s-mcp") {
			t.Errorf("a token %s is answered with %d, %q, %q, error %v", name, status, challenge, answer, err)
		}
	}
	for name, authorization := range map[string]string{"nothing but a certificate": "", "a password": "Basic YWRtaW46YWRtaW4="} {
		status, challenge, answer, err := d.knock(t.Context(), authorization)
		if err != nil || status != http.StatusUnauthorized || challenge != `Bearer realm="coder-k8s-mcp"` || !strings.Contains(answer, "bearer token") {
			t.Errorf("%s is answered with %d, %q, %q, error %v", name, status, challenge, answer, err)
		}
	}
	stranger := serviceAccountToken(t, ns, "stranger", mcpAudience)
	if status, _, answer, err := d.knock(t.Context(), "Bearer "+stranger); err != nil || status != http.StatusForbidden || !strings.Contains(answer, "coder-k8s-mcp-user") {
		t.Errorf("who may not enter is answered with %d, %q, error %v", status, answer, err)
	}
	opens := func(ctx context.Context) error {
		status, _, answer, err := d.knock(ctx, "Bearer "+good)
		if err == nil && (status != http.StatusOK || !strings.Contains(answer, "check_health")) {
			err = fmt.Errorf("the answer is %d: %s", status, answer)
		}
		return err
	}
	polltest.Eventually(t, "a good token opens", opens)
	d.deletedAccountIsOut(t, ns, good, opens)
	for _, token := range append([]string{good, stranger}, tokens["for the API server"], tokens["for another server"]) {
		if strings.Contains(d.logs.String(), token) {
			t.Error("a token stands in the log")
		}
	}
}

// deletedAccountIsOut checks that a token becomes invalid when its ServiceAccount is
// deleted, after up to ten seconds here and up to ten in kube-apiserver, because both
// cache authentications.
func (d *door) deletedAccountIsOut(t *testing.T, ns, token string, opens func(context.Context) error) {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(environment.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := clientset.CoreV1().ServiceAccounts(ns).Delete(t.Context(), "robot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	polltest.Eventually(t, "the token of a deleted ServiceAccount is refused", func(ctx context.Context) error {
		if opens(ctx) == nil {
			return fmt.Errorf("it still opens")
		}
		status, challenge, _, err := d.knock(ctx, "Bearer "+token)
		if err != nil || status != http.StatusUnauthorized || !strings.Contains(challenge, "invalid_token") {
			return fmt.Errorf("the answer is %d, %q, error %w", status, challenge, err)
		}
		return nil
	})
	t.Logf("refused %.1f s after its ServiceAccount was deleted", time.Since(begin).Seconds())
	// A new ServiceAccount with the same name is a different one.
	if err := environment.client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "robot"}}); err != nil {
		t.Fatal(err)
	}
	review, err := clientset.AuthenticationV1().TokenReviews().Create(t.Context(),
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{mcpAudience}}}, metav1.CreateOptions{})
	if err != nil || review.Status.Authenticated {
		t.Errorf("kube-apiserver takes the token for one of the new ServiceAccount: %+v, error %v", review.Status, err)
	}
}

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

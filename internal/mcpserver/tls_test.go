package mcpserver

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/util/cert"
)

func TestServesTLS(t *testing.T) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := running(t, func(c *Config) {
		c.Options.TLSCertFile, c.Options.TLSKeyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Post(strings.Replace(h.url, "http://", "https://", 1), "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("the answer is %d, want 401", response.StatusCode)
	}
}

func TestOptionsSayWhatIsWrong(t *testing.T) {
	tests := map[string]struct {
		change func(*Options)
		says   string
	}{
		"an address without a port":     {func(o *Options) { o.BindAddress = "localhost" }, "--mcp-bind-address"},
		"a certificate without its key": {func(o *Options) { o.TLSCertFile = "x" }, "--mcp-tls-key-file"},
		"a host that is an address":     {func(o *Options) { o.AllowedHosts = []string{"https://a"} }, "--mcp-allowed-hosts"},
		"a wildcard host":               {func(o *Options) { o.AllowedHosts = []string{"*"} }, "--mcp-allowed-hosts"},
		"an origin without a scheme":    {func(o *Options) { o.AllowedOrigins = []string{"a.example.com"} }, "--mcp-allowed-origins"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := NewOptions()
			if errs := o.Validate(); len(errs) != 0 {
				t.Fatalf("the defaults are refused: %v", errs)
			}
			tc.change(o)
			errs := o.Validate()
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), tc.says) {
				t.Errorf("Validate says %v, want one error with %q", errs, tc.says)
			}
		})
	}
}

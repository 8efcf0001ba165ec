//go:build conformance

package realserver

import (
	"io"
	"log"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
)

// withToken returns the address of a proxy in front of the server that adds the
// token to each request and changes nothing else: the official suite cannot send
// one.
func withToken(t *testing.T, address, token string) string {
	t.Helper()
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
			// The suite sends a wrong one to check that the server rejects it.
			r.Out.Host = r.In.Host
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
		// The suite closes streams before they end, which is not an error.
		ErrorLog: log.New(io.Discard, "", 0),
	})
	t.Cleanup(server.Close)
	return server.URL + target.Path
}

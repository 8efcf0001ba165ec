package mcptest

import (
	"net/http"
	"net/http/httputil"
)

// ProxyHandler returns the proxy as a handler whose responses arrive whole. Without full duplex, a
// server of HTTP/1 stops reading the body of a request when the response begins. The proxy's
// transport, which may not have seen the end of the body yet, then breaks the response off
// (https://go.dev/issue/40747).
func ProxyHandler(proxy *httputil.ReverseProxy) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			panic(err)
		}
		proxy.ServeHTTP(w, r)
	})
}

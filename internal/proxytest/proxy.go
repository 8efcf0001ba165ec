package proxytest

import (
	"net/http"
	"net/http/httputil"
)

// Handler returns the proxy as a handler. Without full duplex, a server of HTTP/1 stops
// reading the body of a request when the response begins. The proxy's transport, which
// may not have seen the end of the body yet, then breaks the response off
// (https://go.dev/issue/40747).
func Handler(proxy *httputil.ReverseProxy) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			panic(err)
		}
		proxy.ServeHTTP(w, r)
	})
}

package gate

import (
	"net/http"

	"github.com/coder-k8s/coder-k8s/internal/requestid"
)

// shareWith tells a browser that pages of the origin may read the answer, with the
// headers that a client of the protocol needs.
func shareWith(header http.Header, origin string) {
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, Retry-After, WWW-Authenticate, "+requestid.Header)
	header.Add("Vary", "Origin")
}

// isPreflight says whether a browser asks beforehand what a page may send.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// allowPreflight answers for a listed origin: its pages may send what the protocol
// has, with any header, because the token is one of them and a page cannot send it
// without having it. A browser sends no token with the question, so that this comes
// before authentication.
func allowPreflight(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Access-Control-Allow-Methods", "POST, GET, DELETE")
	w.Header().Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	w.Header().Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}

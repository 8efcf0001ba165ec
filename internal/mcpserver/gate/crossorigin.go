package gate

import (
	"net/http"

	"github.com/coder-k8s/coder-k8s/internal/requestid"
)

// shareWith sets the CORS headers with which pages of the origin may read the response,
// including the headers that an MCP client needs.
func shareWith(header http.Header, origin string) {
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, Retry-After, WWW-Authenticate, "+requestid.Header)
	header.Add("Vary", "Origin")
}

// isPreflight reports whether the request is a CORS preflight request.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// allowPreflight answers a preflight request of an allowed origin. It allows the methods of
// the protocol and any header: the token is in a header, and a page cannot send a token
// that it does not have. Browsers send preflight requests without a token, so this runs
// before authentication.
func allowPreflight(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Access-Control-Allow-Methods", "POST, GET, DELETE")
	w.Header().Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	w.Header().Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}

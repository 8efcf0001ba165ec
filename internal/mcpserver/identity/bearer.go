package identity

import (
	"net/http"
	"strings"
)

// maxTokenBytes is far above any token, also one with hundreds of groups.
const maxTokenBytes = 32 << 10

// bearerToken reads the token of a request, in the form of RFC 6750. A request
// with two Authorization headers has none, because a proxy in front may have
// looked at the other one.
func bearerToken(r *http.Request) (string, bool) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.Trim(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || !isToken(token) {
		return "", false
	}
	return token, true
}

// isToken says whether s is what RFC 6750 calls b64token. Nothing else is sent on
// to be checked, so that nobody can make the check itself fail.
func isToken(s string) bool {
	body := strings.TrimRight(s, "=")
	if body == "" || len(s) > maxTokenBytes {
		return false
	}
	for i := range len(body) {
		c := body[i]
		letter := (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
		if !letter && strings.IndexByte("-._~+/", c) < 0 {
			return false
		}
	}
	return true
}

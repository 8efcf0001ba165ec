package identity

import (
	"net/http"
	"strings"
)

// maxTokenBytes is larger than any real token, including one with hundreds of groups.
const maxTokenBytes = 32 << 10

// bearerToken returns the token of a request, in the format of RFC 6750. It returns false
// for a request with two Authorization headers, because a proxy may have checked the other
// one.
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

// isToken reports whether s is a b64token of RFC 6750. Nothing else is sent to the
// authenticator, so that malformed tokens cannot make it fail.
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

package coderd

import (
	"strings"
	"time"
)

// Call is one request that was made, as metrics want it: of few values, and
// without a name, an id or a secret.
type Call struct {
	// Method is that of HTTP.
	Method string
	// Endpoint is the class of the address, for example /api/v2/users/{}/roles.
	Endpoint string
	// Status is that of the answer, whoever gave it. It is 0 without an answer.
	Status int
	// Duration is the time until the answer began.
	Duration time.Duration
}

// endpointClass replaces everything in a path that is not a word of Coder's API.
// What follows a collection is replaced even if it is such a word, because
// somebody may have called an organization "templates".
func endpointClass(path string) string {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	collection := false
	for i, segment := range segments {
		switch {
		case isCollection(segment) && !collection:
			collection = true
		case isFixed(segment) && !collection, collection && isFixedMember(segment):
			// The tokens are a collection within the keys of a user.
			collection = segment == "tokens"
		default:
			segments[i], collection = "{}", false
		}
	}
	return "/" + strings.Join(segments, "/")
}

// isCollection says that the next segment names one of the things of that word.
func isCollection(word string) bool {
	switch word {
	case "users", "keys", "members", "organizations", "templates", "templateversions", "versions", "files",
		"workspaces", "workspace", "workspacebuilds", "licenses", "provisionerkeys", "workspaceproxies", "workspaceagents":
		return true
	}
	return false
}

// isFixedMember says that a segment after a collection is no name.
func isFixedMember(word string) bool {
	switch word {
	case "first", "login", "logout", "tokens", "tokenconfig":
		return true
	}
	return false
}

// isFixed says that a segment is a word where no name is expected.
func isFixed(word string) bool {
	switch word {
	case "api", "v2", "buildinfo", "entitlements", "roles", "builds", "ttl", "autostart",
		"autoupdates", "dormant", "parameters", "rich-parameters", "presets", "variables", "logs", "cancel", "archive",
		"provisionerdaemons", "provisionerjobs", "crypto-keys", "connection", "coordinate", "authcheck",
		"profile", "password", "status", "suspend", "activate":
		return true
	}
	return false
}

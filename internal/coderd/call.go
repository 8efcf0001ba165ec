package coderd

import (
	"strings"
	"time"
)

// Call describes one request for metrics. Its fields have few different values, and contain no
// name, id or secret.
type Call struct {
	// Method is the HTTP method.
	Method string
	// Endpoint is the class of the path, for example /api/v2/users/{}/roles.
	Endpoint string
	// Status is the HTTP status of the response, whichever server sent it. It is 0 if there was no
	// response.
	Status int
	// Duration is the time until the response headers arrived.
	Duration time.Duration
}

// endpointClass replaces every path segment that is not a fixed part of Coder's API by {}. The
// segment after a collection is replaced even if it equals such a part, because an organization may
// have the name "templates".
func endpointClass(path string) string {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	collection := false
	for i, segment := range segments {
		switch {
		case isCollection(segment) && !collection:
			collection = true
		case isFixed(segment) && !collection, collection && isFixedMember(segment):
			// The tokens are a collection within a user's keys.
			collection = segment == "tokens"
		default:
			segments[i], collection = "{}", false
		}
	}
	return "/" + strings.Join(segments, "/")
}

// isCollection reports whether the next segment is the name or id of an object.
func isCollection(word string) bool {
	switch word {
	case "users", "keys", "members", "organizations", "templates", "templateversions", "versions", "files",
		"workspaces", "workspace", "workspacebuilds", "licenses", "provisionerkeys", "workspaceproxies", "workspaceagents":
		return true
	}
	return false
}

// isFixedMember reports whether a segment after a collection is not a name or an id.
func isFixedMember(word string) bool {
	switch word {
	case "first", "login", "logout", "tokens", "tokenconfig":
		return true
	}
	return false
}

// isFixed reports whether a segment is a fixed part of the API in a position without a name.
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

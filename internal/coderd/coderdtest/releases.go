package coderdtest

import (
	"encoding/json"
	"slices"
)

// Release is a release of Coder that the server emulates.
type Release string

// The emulated releases. Each is the newest patch release of its minor version whose source was
// read; 2.30.0 is the version of the client library that this project uses, and 2.36.1 that of the
// real Coder in the end-to-end tests. The source of 2.36.1 is its Go module, which names no commit.
const (
	// ReleaseBefore is a release without scopes of tokens. Nothing else of it is emulated, so it is
	// not one of Releases.
	ReleaseBefore = Release("v2.20.0+0000000")

	Release229 Release = "v2.29.19+f8bdec5"
	Release230 Release = "v2.30.0+43e67d1"
	Release234 Release = "v2.34.8+7bd778d"
	Release236 Release = "v2.36.1+0000000"
)

// Releases returns all emulated releases, the oldest first.
func Releases() []Release { return []Release{Release229, Release230, Release234, Release236} }

// WithRelease sets the release. The default is Coder 2.30.0.
func WithRelease(release Release) Option { return func(s *Server) { s.release = release } }

// SetRelease is an upgrade or a downgrade.
func (s *Server) SetRelease(release Release) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release = release
}

// Release returns the emulated release.
func (s *Server) Release() Release { return s.release }

// difference is a behavior that not all emulated releases have.
type difference int

const (
	// partialTemplatePatch: PATCH of a template keeps fields that the body omits, and returns 200
	// if nothing changes. Other releases replace omitted numbers and booleans by zero values, and
	// return 304.
	partialTemplatePatch difference = iota
	// hidesExpiredTokens: the list of tokens contains expired tokens only with
	// include_expired=true.
	hidesExpiredTokens
	// fixedTokenLife: using a token does not extend its lifetime.
	fixedTokenLife
	// unknownUserNotFound: the response for an unknown user is 404. Other releases return 400.
	unknownUserNotFound
	// needsExternalAuth: creating a workspace returns 403 unless its owner has signed in to the
	// external providers of the template.
	needsExternalAuth
	// bombTooLarge: a zip that unpacks to more than 100 MiB returns 413. Other releases return 500.
	bombTooLarge
	// startsNoDormant: starting a dormant workspace returns 403. Other releases wake it.
	startsNoDormant
	// serviceAccounts: a license may permit service accounts, and creating another user with login type none
	// returns 400.
	serviceAccounts
	// namesIncludeDeleted: the response for a deleted workspace names the parameter include_deleted.
	// Other releases name a parameter that does not exist.
	namesIncludeDeleted
	// membersSeeKeys: members of an organization see its provisioner keys, and the response for one
	// who deletes a key is 500 with "unauthorized". Other releases hide the keys.
	membersSeeKeys
	// sharesWorkspaces: workspaces can be shared. In other releases this is an experiment: changes
	// are refused with 403, and lists do not report it.
	sharesWorkspaces
	// ignoresScopes: tokens may do all that their user may, whatever was asked for.
	ignoresScopes
)

// differences returns the emulated releases that have a behavior, and the source: pull requests and
// files of coder/coder, at the commits in the releases' names.
func differences(d difference) (releases []Release, source string) {
	switch d {
	case partialTemplatePatch:
		return []Release{Release234, Release236}, "#24984, since 2.34.0: coderd/templates_meta_update.go"
	case hidesExpiredTokens:
		return []Release{Release234, Release236}, "since 2.31, tried with the real 2.36.1: coderd/apikey.go, coderd/database/queries/apikeys.sql"
	case fixedTokenLife:
		return []Release{Release229, Release234, Release236}, "#26376, in 2.29.18, 2.32.8, 2.33.9, 2.34.3, 2.35.0: coderd/httpmw/apikey.go"
	case unknownUserNotFound:
		return []Release{Release234, Release236}, "#22069, since 2.31: coderd/httpmw/userparam.go"
	case needsExternalAuth:
		return []Release{Release234, Release236}, "#26314, in 2.33.11, 2.34.5, 2.35.0: coderd/workspaces.go"
	case startsNoDormant:
		return []Release{Release229}, "tried with the real 2.29.1"
	case serviceAccounts:
		return []Release{Release236}, "since 2.36, tried with the real, licensed 2.36.1 (make test-licensed): coderd/users.go; migration 000555 changes none of earlier users to password"
	case namesIncludeDeleted:
		return []Release{Release236}, "#25826, tried with the real 2.36.1: coderd/workspaces.go"
	case membersSeeKeys:
		return []Release{Release236}, "tried with a real, licensed 2.36.1 (make test-licensed)"
	case sharesWorkspaces:
		return []Release{Release234, Release236}, "since 2.32, tried with the real 2.36.1: coderd/coderd.go, sharedWorkspaceActors in coderd/workspaces.go"
	case ignoresScopes:
		return []Release{ReleaseBefore}, "before scopes of tokens: unknown fields of the body are ignored, coderd/httpapi/httpapi.go"
	case bombTooLarge:
		return []Release{Release229, Release234, Release236}, "in 2.29.17, 2.34.2; tried with the real 2.36.1: coderd/files.go"
	}
	return nil, ""
}

// has reports whether the emulated release has a behavior.
func (s *Server) has(d difference) bool {
	releases, _ := differences(d)
	return slices.Contains(releases, s.release)
}

// Later changes responses to what a future release of Coder may send.
type Later struct {
	// Fields adds an unknown field to each object.
	Fields bool
	// Values replaces each value of an enumeration by an unknown one.
	Values bool
}

// WithLater changes all responses except errors.
func WithLater(later Later) Option { return func(s *Server) { s.later = later } }

const (
	unknownField = "x_field_of_a_later_release"
	unknownValue = "value-of-a-later-release"
)

// enumerations returns the names of the fields whose values are enumerations.
func enumerations() []string {
	return []string{
		"status", "transition", "reason", "login_type", "provisioner", "type", "form_type", "max_port_share_level", "cors_behavior",
		"automatic_updates", "log_level", "log_source", "lifecycle_state", "health", "error_code", "entitlement", "severity",
		"sharing_level", "display_mode", "template_use_classic_parameter_flow", "job_status", "validation_monotonic", "scope",
		"connection_type", "startup_script_behavior", "open_in", "workspace_transition", "matched_provisioners_state", "stage",
	}
}

// isMap reports whether an object is a map, with keys that are data and not field names.
func isMap(key string) bool {
	return slices.Contains([]string{"tags", "features", "build_time_stats", "claims", "job_counts"}, key)
}

// change returns a body as a future release may send it.
func (l Later) change(body any) any {
	if l == (Later{}) {
		return body
	}
	return l.walk("", plain(body))
}

// plain returns a body as a client without types would decode it.
func plain(body any) (decoded any) {
	_ = json.Unmarshal(encoded(body), &decoded)
	return decoded
}

// encoded returns a value as JSON. All values of this package can be encoded.
func encoded(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return data
}

func (l Later) walk(key string, value any) any {
	switch v := value.(type) {
	case string:
		if l.Values && v != "" && slices.Contains(enumerations(), key) {
			return unknownValue
		}
	case []any:
		for i := range v {
			v[i] = l.walk(key, v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = l.walk(name, v[name])
		}
		if l.Fields && !isMap(key) {
			v[unknownField] = map[string]any{"list": []any{1, "two", nil}}
		}
	}
	return value
}

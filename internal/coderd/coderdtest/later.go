package coderdtest

import (
	"encoding/json"
	"slices"
)

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
	data, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		panic(err)
	}
	return l.walk("", plain)
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

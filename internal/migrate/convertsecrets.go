package migrate

import (
	"fmt"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// secretVariable reports whether an environment variable contains a secret.
func secretVariable(name, value string) bool {
	if value == "" || strings.HasPrefix(value, "$(") {
		return false
	}
	return redaction.HoldsSecret(value) || redaction.VariableNamesSecret(name) && !plainValue(name, value)
}

// plainValue reports whether a value is not a secret, for example a flag, or the URL of a database
// without a password.
func plainValue(name, value string) bool {
	switch strings.ToLower(value) {
	case "true", "false", "0", "1":
		return true
	}
	return strings.Contains(strings.ToUpper(name), "CONNECTION_URL") && strings.Contains(value, "://")
}

// screened returns a value without secrets: a variable with a secret becomes a reference to a key
// of a Secret, which refer returns. Any other text with a secret results in an error with its path.
// The original value is not changed.
func screened(path string, value any, refer func(path, variable string) map[string]any) (any, error) {
	switch v := value.(type) {
	case string:
		if redaction.HoldsSecret(v) {
			return nil, fmt.Errorf("%s holds a credential, which is not copied; put it into a Secret and refer to that", path)
		}
	case []any:
		clean := make([]any, 0, len(v))
		for i, entry := range v {
			below, err := screened(fmt.Sprintf("%s[%d]", path, i), entry, refer)
			if err != nil {
				return nil, err
			}
			clean = append(clean, below)
		}
		return clean, nil
	case map[string]any:
		name, named := v["name"].(string)
		text, valued := v["value"].(string)
		if named && valued && secretVariable(name, text) {
			return refer(path, name), nil
		}
		clean := map[string]any{}
		for key, entry := range v {
			if flagged, isText := entry.(string); isText && sensitiveKey(key, flagged) {
				return nil, fmt.Errorf("%s.%s looks like a secret, which is not copied; put it into a Secret and refer to that", path, key)
			}
			below, err := screened(path+"."+key, entry, refer)
			if err != nil {
				return nil, err
			}
			clean[key] = below
		}
		return clean, nil
	}
	return value, nil
}

// sensitiveKey reports whether the key of a map denotes a secret and has a value. Keys for the
// names of Secrets and of their keys do not count.
func sensitiveKey(key, value string) bool {
	switch strings.ToLower(key) {
	case "password", "passwd", "token", "apikey", "api_key", "client_secret", "clientsecret":
		return value != ""
	}
	return false
}

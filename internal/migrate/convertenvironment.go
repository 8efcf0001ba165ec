package migrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// variableField is a field of a custom resource that replaces an environment variable.
type variableField struct {
	// secret reports that the field contains a reference to a key of a Secret, and not the value
	// itself.
	secret bool
	field  string
}

// variableFields returns the fields of a kind that replace environment variables.
func variableFields(kind string) map[string]variableField {
	switch kind {
	case KindProvisioner:
		return map[string]variableField{
			"CODER_URL":                    {false, "url"},
			"CODER_PROVISIONER_DAEMON_KEY": {true, "key.secretRef"},
			"CODER_PROVISIONER_DAEMON_PSK": {true, "pskSecretRef"},
		}
	case KindWorkspaceProxy:
		return map[string]variableField{
			"CODER_PRIMARY_ACCESS_URL":  {false, "primaryAccessURL"},
			"CODER_PROXY_SESSION_TOKEN": {true, "proxySessionTokenSecretRef"},
		}
	}
	return map[string]variableField{"CODER_PG_CONNECTION_URL": {true, "database.secretRef"}}
}

// environment converts the variables one by one. If a name is repeated, the last entry applies, as
// in a pod.
func environment(c *conversion, path string, value any) error {
	entries, ok := value.([]any)
	if !ok && value != nil {
		return fmt.Errorf("is not a list of variables with a name and a value")
	}
	known, last := variableFields(c.manifest.Kind), lastOf(entries)
	var kept []any
	for i, entry := range entries {
		at := fmt.Sprintf("%s[%d]", path, i)
		variable, name, err := readVariable(entry)
		if err != nil {
			c.tell(at, "", Unreadable, err.Error())
			continue
		}
		if last[name] != i {
			c.tell(at, "", Unneeded, name+" is given again further down, and the last one counts")
			continue
		}
		if text, literal := variable["value"].(string); literal && secretVariable(name, text) {
			variable = c.refer(at, name)
		}
		if field, has := known[name]; has && c.setVariable(at, name, field, variable) {
			continue
		}
		if err := fits(c.manifest.Kind, "extraEnv", []any{variable}); err != nil {
			c.tell(at, "", Unreadable, err.Error())
			continue
		}
		kept = append(kept, variable)
		c.tell(at, "spec.extraEnv", Mapped, name)
	}
	if len(kept) > 0 {
		set(c.manifest.Spec, "extraEnv", kept)
	}
	return nil
}

func lastOf(entries []any) map[string]int {
	last := map[string]int{}
	for i, entry := range entries {
		if fields, ok := entry.(map[string]any); ok {
			if name, ok := fields["name"].(string); ok {
				last[name] = i
			}
		}
	}
	return last
}

func readVariable(entry any) (map[string]any, string, error) {
	variable, ok := entry.(map[string]any)
	name, named := variable["name"].(string)
	if !ok || !named || name == "" {
		return nil, "", fmt.Errorf("is not a variable with a name")
	}
	if value, has := variable["value"]; has {
		if _, isText := value.(string); !isText {
			return nil, "", fmt.Errorf("%s has a value that is not text; quote it", name)
		}
	}
	return variable, name, nil
}

// setVariable writes a variable to the field that replaces it. It reports whether that is possible.
func (c *conversion) setVariable(at, name string, to variableField, variable map[string]any) bool {
	value := variable["value"]
	if to.secret {
		reference, ok := get(variable, "valueFrom.secretKeyRef").(map[string]any)
		if !ok {
			return false
		}
		value = map[string]any{"name": reference["name"], "key": reference["key"]}
	}
	if empty(value) || fits(c.manifest.Kind, to.field, value) != nil {
		return false
	}
	set(c.manifest.Spec, to.field, value)
	c.tell(at, "spec."+to.field, Mapped, name)
	return true
}

// secretVariable reports whether an environment variable contains a secret.
func secretVariable(name, value string) bool {
	switch {
	case value == "" || strings.HasPrefix(value, "$("):
		return false
	case redaction.HoldsSecret(value):
		return true
	case slices.Contains([]string{"true", "false", "0", "1"}, strings.ToLower(value)):
		return false
	}
	// The URL of a database without a password is no secret.
	plainURL := strings.Contains(strings.ToUpper(name), "CONNECTION_URL") && strings.Contains(value, "://")
	return redaction.VariableNamesSecret(name) && !plainURL
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

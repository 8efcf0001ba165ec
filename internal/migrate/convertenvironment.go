package migrate

import (
	"fmt"
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

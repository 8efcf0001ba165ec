package toolset

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"k8s.io/apimachinery/pkg/api/validate/content"
)

// decode validates the arguments against the schema, applies its defaults and decodes them
// into in. It also returns the decoded arguments as canonical JSON: arguments with the same
// meaning have the same encoding.
func decode(raw json.RawMessage, schema *jsonschema.Resolved, in any) (json.RawMessage, error) {
	// Decode into a map first, because encoding/json matches the names of struct fields
	// regardless of case.
	var arguments map[string]any
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &arguments); err != nil {
			return nil, UsageError("arguments must be a JSON object")
		}
	}
	if arguments == nil {
		arguments = map[string]any{}
	}
	if err := check(arguments, schema.Schema()); err != nil {
		return nil, err
	}
	if err := schema.ApplyDefaults(&arguments); err != nil {
		return nil, fmt.Errorf("bug: the defaults of a tool: %w", err)
	}
	// check covers only the top level; Validate also covers nested values.
	if err := schema.Validate(arguments); err != nil {
		text := scrub(err.Error())
		return nil, UsageError("arguments are wrong: " + text[strings.LastIndex(text, "/properties/")+1:])
	}
	canonical, err := json.Marshal(arguments)
	if err != nil {
		return nil, fmt.Errorf("bug: encoding arguments: %w", err)
	}
	err = json.Unmarshal(canonical, in)
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) {
		return nil, UsageError(fmt.Sprintf("argument %q cannot be %s", mistyped.Field, mistyped.Value))
	}
	return canonical, err
}

// check returns a UsageError for the first invalid argument. schema.Validate finds the same
// mistakes, but its messages are about schemas.
func check(arguments map[string]any, schema *jsonschema.Schema) error {
	for _, name := range schema.Required {
		if _, ok := arguments[name]; !ok {
			return UsageError(fmt.Sprintf("argument %q is required", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		property := schema.Properties[name]
		switch {
		case property == nil && len(schema.PropertyOrder) == 0:
			return UsageError(fmt.Sprintf("there is no argument %q; this tool takes none", shorten(name)))
		case property == nil:
			return UsageError(fmt.Sprintf("there is no argument %q; there are: %s", shorten(name), strings.Join(schema.PropertyOrder, ", ")))
		}
		if wanted := wants(property, arguments[name]); wanted != "" {
			given, err := json.Marshal(arguments[name])
			if err != nil {
				return fmt.Errorf("bug: encoding an argument: %w", err)
			}
			return UsageError(fmt.Sprintf("argument %q must be %s, not %s", name, wanted, shorten(string(given))))
		}
	}
	return nil
}

// wants returns a description of the values that the property accepts, or "" if it accepts
// value.
func wants(property *jsonschema.Schema, value any) string {
	number, isNumber := value.(float64)
	text, isText := value.(string)
	switch property.Type {
	case "string":
		if !isText {
			return "a string"
		}
	case "boolean":
		if _, ok := value.(bool); !ok {
			return "true or false"
		}
	case "integer":
		if !isNumber || number != math.Trunc(number) {
			return "an integer"
		}
	case "array":
		if _, ok := value.([]any); !ok {
			return "an array"
		}
	case "object":
		if _, ok := value.(map[string]any); !ok {
			return "an object"
		}
	}
	switch {
	case property.Minimum != nil && number < *property.Minimum:
		return fmt.Sprintf("at least %v", *property.Minimum)
	case property.Maximum != nil && number > *property.Maximum:
		return fmt.Sprintf("at most %.0f", *property.Maximum)
	case len(property.Enum) > 0 && !slices.Contains(property.Enum, any(text)):
		return "one of " + strings.Trim(fmt.Sprint(property.Enum), "[]")
	default:
		return ""
	}
}

// shorten limits a client's text to 80 characters.
func shorten(s string) string {
	const most = 80
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most]) + "…"
}

// RequireObject returns a UsageError unless both arguments are set and valid in a path. A
// slash in one of them would direct the request to another object.
func RequireObject(namespace, name string) error {
	if err := RequireNamespace(namespace); err != nil {
		return err
	}
	return requireName("name", name)
}

// RequireNamespace is RequireObject for a call about all objects of a namespace.
func RequireNamespace(namespace string) error { return requireName("namespace", namespace) }

func requireName(argument, value string) error {
	if value == "" {
		return UsageError(argument + " is required")
	}
	if why := content.IsPathSegmentName(value); len(why) > 0 {
		return UsageError(fmt.Sprintf("%s cannot be %q: it %s", argument, shorten(value), strings.Join(why, ", and ")))
	}
	return nil
}

package toolset

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Models often send an argument in another JSON type than the schema has, and many clients pass
// it on unchanged. The functions of this file convert such a value if only one value of the
// wanted type can be meant. They return every other value unchanged, and check reports it.

// convertAll decodes the arguments of a call and converts them to the types of the schema. An
// optional argument that is null is removed.
func convertAll(raw json.RawMessage, schema *jsonschema.Schema) (map[string]any, error) {
	if len(raw) == 0 {
		return map[string]any{}, nil
	}
	value, err := decodeJSON(raw)
	if err != nil {
		return nil, err
	}
	if value == nil {
		return map[string]any{}, nil
	}
	arguments, isObject := convert(value, schema).(map[string]any)
	if !isObject {
		return nil, errors.New("not an object")
	}
	return arguments, nil
}

// decodeJSON decodes one JSON value. Numbers keep their text.
func decodeJSON(raw []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return value, nil
}

// convert converts a value that decodeJSON returned, and the values below it.
func convert(value any, schema *jsonschema.Schema) any {
	if text, isText := value.(string); isText {
		value = parseText(text, schema.Type)
	}
	switch v := value.(type) {
	case json.Number:
		if schema.Type == "string" {
			return v.String()
		}
		return floatOf(v)
	case bool:
		if schema.Type == "string" {
			return strconv.FormatBool(v)
		}
	case map[string]any:
		for key, below := range v {
			v[key] = convert(below, orAny(propertyOf(schema, key)))
		}
		maps.DeleteFunc(v, func(key string, below any) bool { return below == nil && isOptional(schema, key) })
	case []any:
		for i := range v {
			v[i] = convert(v[i], orAny(schema.Items))
		}
	}
	return value
}

// parseText returns the value of another type that a text contains, or the text. A text that is
// no JSON becomes a list with one entry if a list is wanted.
func parseText(text, wanted string) any {
	switch wanted {
	case "", "string":
		return text
	case "boolean":
		// Models that write Python send "True".
		lower := strings.ToLower(text)
		if lower == "true" || lower == "false" {
			return lower == "true"
		}
		return text
	}
	value, err := decodeJSON([]byte(text))
	isWanted := false
	switch value.(type) {
	case json.Number:
		isWanted = wanted == "integer" || wanted == "number"
	case map[string]any:
		isWanted = wanted == "object"
	case []any:
		isWanted = wanted == "array"
	}
	switch {
	case err == nil && isWanted:
		return value
	case wanted == "array" && !strings.HasPrefix(strings.TrimSpace(text), "["):
		return []any{text}
	}
	return text
}

// floatOf returns the number as encoding/json does without UseNumber. A number that is out of
// range stays a text, so that it is refused.
func floatOf(number json.Number) any {
	float, err := number.Float64()
	if err != nil {
		return number.String()
	}
	return float
}

// propertyOf returns the schema of a key of an object, or nil if it has none.
func propertyOf(schema *jsonschema.Schema, key string) *jsonschema.Schema {
	if property := schema.Properties[key]; property != nil {
		return property
	}
	// Not is the form of the schema "false".
	if other := schema.AdditionalProperties; other != nil && other.Not == nil {
		return other
	}
	return nil
}

func orAny(schema *jsonschema.Schema) *jsonschema.Schema {
	if schema == nil {
		return &jsonschema.Schema{}
	}
	return schema
}

// isOptional reports whether the schema has the key and does not require it.
func isOptional(schema *jsonschema.Schema, key string) bool {
	return schema.Properties[key] != nil && !slices.Contains(schema.Required, key)
}

// WaitOf returns how long a call with these arguments may wait for an object, or 0 if it does not
// wait. always is set for tools that wait without the argument wait.
func WaitOf(raw json.RawMessage, always bool) time.Duration {
	arguments, err := convertAll(raw, &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{
		"wait": {Type: "boolean"}, "timeoutSeconds": {Type: "number"},
	}})
	if wait, _ := arguments["wait"].(bool); err != nil || !wait && !always {
		return 0
	}
	if seconds, _ := arguments["timeoutSeconds"].(float64); seconds > 0 {
		return time.Duration(min(seconds, MaxTimeout.Seconds()) * float64(time.Second))
	}
	return DefaultTimeout
}

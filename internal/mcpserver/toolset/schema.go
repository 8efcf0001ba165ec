package toolset

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"k8s.io/utils/ptr"
)

// bounds are the default and the maximum of a numeric argument.
type bounds struct{ standard, most float64 }

// commonBounds are the bounds of arguments that mean the same in all tools. The tags
// default and maximum of a field take precedence. There is no minimum: 0 and negative
// numbers mean the default, as in the previous implementation.
var commonBounds = map[string]bounds{
	"limit":          {defaultLimit, maxLimit},
	"timeoutSeconds": {DefaultTimeout.Seconds(), MaxTimeout.Seconds()},
	"tailLines":      {200, 0},
	"limitBytes":     {64 << 10, 256 << 10},
}

// inputSchema returns the resolved schema of a struct of arguments.
//
// A field is required unless it is a pointer, has a default, or is tagged omitempty.
// Besides json and jsonschema (the description), these tags are supported: enum (values
// separated by commas), default, minimum, maximum, and deprecated, which hides an argument
// that is still accepted.
func inputSchema[T any](tool string) *jsonschema.Resolved {
	schema, err := jsonschema.For[T](nil)
	if err != nil {
		panic(fmt.Sprintf("bug: the arguments of %s: %v", tool, err))
	}
	plain(schema)
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		property := schema.Properties[name]
		if property == nil {
			continue
		}
		if common, ok := commonBounds[name]; ok {
			property.Default = fmt.Appendf(nil, "%.0f", common.standard)
			if common.most > 0 {
				property.Maximum = ptr.To(common.most)
			}
		}
		if values := field.Tag.Get("enum"); values != "" {
			for value := range strings.SplitSeq(values, ",") {
				property.Enum = append(property.Enum, value)
			}
		}
		property.Deprecated = field.Tag.Get("deprecated") == "true"
		if value, ok := field.Tag.Lookup("default"); ok {
			property.Default = json.RawMessage(value)
			if property.Type == "string" {
				property.Default = fmt.Appendf(nil, "%q", value)
			}
		}
		for key, bound := range map[string]**float64{"minimum": &property.Minimum, "maximum": &property.Maximum} {
			if value, ok := field.Tag.Lookup(key); ok {
				number, err := strconv.ParseFloat(value, 64)
				if err != nil {
					panic(fmt.Sprintf("bug: argument %s of %s: %v", name, tool, err))
				}
				*bound = &number
			}
		}
		if field.Type.Kind() == reflect.Pointer || property.Default != nil {
			schema.Required = slices.DeleteFunc(schema.Required, func(required string) bool { return required == name })
		}
	}
	resolved, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		panic(fmt.Sprintf("bug: the arguments of %s: %v", tool, err))
	}
	return resolved
}

// plain simplifies an inferred schema and those in it: it removes the type null, which some clients
// do not support, and the ranges of Go's integer types.
func plain(schema *jsonschema.Schema) {
	if schema == nil {
		return
	}
	if len(schema.Types) > 0 {
		schema.Types = slices.DeleteFunc(schema.Types, func(t string) bool { return t == "null" })
		schema.Type, schema.Types = schema.Types[0], nil
	}
	if schema.Minimum != nil && *schema.Minimum < 0 || schema.Maximum != nil && *schema.Maximum >= math.MaxInt16 {
		schema.Minimum, schema.Maximum = nil, nil
	}
	for _, property := range schema.Properties {
		plain(property)
	}
	plain(schema.Items)
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Not == nil {
		plain(schema.AdditionalProperties)
	}
}

// advertised returns the schema that clients get, without deprecated arguments. It omits
// additionalProperties, because a model reads the schemas of all tools before each
// conversation.
func advertised(schema *jsonschema.Schema) *jsonschema.Schema {
	shown := schema.CloneSchemas()
	shown.AdditionalProperties = nil
	shown.PropertyOrder = slices.DeleteFunc(slices.Clone(shown.PropertyOrder), func(name string) bool { return shown.Properties[name].Deprecated })
	maps.DeleteFunc(shown.Properties, func(_ string, property *jsonschema.Schema) bool { return property.Deprecated })
	return shown
}

// answerSchema returns the schema of an answer. It declares only that there is structured
// content: listing all fields of all answers would take 4 KiB, and clients see the fields
// in the answers.
func answerSchema[T any](tool string) *jsonschema.Schema {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		panic(fmt.Sprintf("bug: the answer of %s is no struct but %s", tool, t))
	}
	if path := mayBeNull(t, nil); path != "" {
		panic(fmt.Sprintf("bug: %s in the answer of %s may be null: tag it omitempty", path, tool))
	}
	return &jsonschema.Schema{Type: "object"}
}

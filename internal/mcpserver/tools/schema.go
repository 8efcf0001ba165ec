package tools

import (
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	"k8s.io/utils/ptr"
)

// schemaOf infers the schema of a struct and mends what clients stumble over:
// slices are inferred as array or null, which some refuse; and a page's limit
// gets its bounds.
//
// It panics where the type cannot be a schema, which happens at the start of the
// process or never.
func schemaOf[T any]() *jsonschema.Schema {
	schema, err := jsonschema.For[T](nil)
	if err != nil {
		panic(fmt.Sprintf("bug: the schema of a tool: %v", err))
	}
	withoutNullableArrays(schema)
	if limit := schema.Properties["limit"]; limit != nil {
		limit.Minimum, limit.Maximum = ptr.To(1.0), ptr.To(float64(maxLimit))
		limit.Default = fmt.Appendf(nil, "%d", defaultLimit)
	}
	return schema
}

func withoutNullableArrays(schema *jsonschema.Schema) {
	if schema == nil {
		return
	}
	if slices.Contains(schema.Types, "array") {
		schema.Type, schema.Types = "array", nil
	}
	for _, property := range schema.Properties {
		withoutNullableArrays(property)
	}
	withoutNullableArrays(schema.Items)
}

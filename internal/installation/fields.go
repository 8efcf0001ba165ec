package installation

import (
	"reflect"
	"strings"
)

// ownTypes is the import path prefix of the types whose fields are compared. The types of
// Kubernetes are not compared.
const ownTypes = "github.com/coder-k8s/coder-k8s/api/"

// lackingFields returns the fields of a Go type that an OpenAPI schema does not contain, as
// paths like spec.rbac.namespaces.
func lackingFields(t reflect.Type, schema map[string]any) []string {
	return lackingBelow(t, schema, "")
}

func lackingBelow(t reflect.Type, schema map[string]any, path string) []string {
	if schema == nil || schema["x-kubernetes-preserve-unknown-fields"] == true {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return lackingBelow(t.Elem(), schema, path)
	case reflect.Slice, reflect.Array:
		return lackingBelow(t.Elem(), inner(schema, "items"), path)
	case reflect.Map:
		return lackingBelow(t.Elem(), inner(schema, "additionalProperties"), path)
	case reflect.Struct:
		if strings.HasPrefix(t.PkgPath(), ownTypes) {
			return lackingOfStruct(t, schema, path)
		}
	}
	return nil
}

func lackingOfStruct(t reflect.Type, schema map[string]any, path string) []string {
	var lacking []string
	properties := inner(schema, "properties")
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
			continue
		case name == "" && (field.Anonymous || strings.Contains(options, "inline")):
			lacking = append(lacking, lackingBelow(field.Type, schema, path)...)
			continue
		}
		property := inner(properties, name)
		if property == nil {
			lacking = append(lacking, path+name)
			continue
		}
		lacking = append(lacking, lackingBelow(field.Type, property, path+name+".")...)
	}
	return lacking
}

// inner returns the schema under a key, or nil.
func inner(schema map[string]any, key string) map[string]any {
	found, ok := schema[key].(map[string]any)
	if !ok {
		return nil
	}
	return found
}

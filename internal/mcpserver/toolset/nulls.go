package toolset

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

var marshaler = reflect.TypeFor[json.Marshaler]()

// mayBeNull returns the path of a field that encoding/json can encode as null even after
// fillNulls: a pointer or an interface without omitempty. It returns "" if there is none.
func mayBeNull(t reflect.Type, above []reflect.Type) string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.Implements(marshaler) || slices.Contains(above, t) {
		return ""
	}
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !field.IsExported() || name == "-" {
			continue
		}
		kind := field.Type.Kind()
		if (kind == reflect.Pointer || kind == reflect.Interface) && !field.Anonymous && !strings.Contains(options, "omit") {
			return t.Name() + "." + field.Name
		}
		if path := mayBeNull(field.Type, append(above, t)); path != "" {
			return path
		}
	}
	return ""
}

// fillNulls replaces each nil slice and map in the value of out, at any depth, by an empty
// one, so that clients do not get null for a field whose schema says array or object.
func fillNulls(out any) { fill(reflect.ValueOf(out).Elem()) }

func fill(v reflect.Value) {
	if v.Type().Implements(marshaler) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fill(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Field(i); field.CanSet() {
				fill(field)
			}
		}
	case reflect.Slice:
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		if isLeaf(v.Type().Elem()) {
			return
		}
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		if isLeaf(v.Type().Elem()) {
			return
		}
		// Values of a map are not addressable: fill a copy and store it.
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			fill(value)
			v.SetMapIndex(key, value)
		}
	}
}

// isLeaf reports whether values of this type cannot contain nil slices or maps.
func isLeaf(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Struct, reflect.Slice, reflect.Map, reflect.Interface:
		return false
	default:
		return true
	}
}

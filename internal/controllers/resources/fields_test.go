package resources

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// particular fields are read elsewhere: each kind decides the name of the ServiceAccount.
var particular = []string{"Spec.ServiceAccount.Name"}

// Every field of the shared specs changes an object of at least one workload. A field that no
// builder reads would have no effect.
func TestEveryFieldHasASay(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range workloads() {
		before := rendered(t, w)
		for _, f := range fieldsOf(w) {
			seen[f.path] = seen[f.path] || (!f.value.IsZero() && changes(t, w, f.value, before))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(seen)) {
		if !seen[path] && !slices.Contains(particular, path) {
			t.Errorf("no object differs without %s", path)
		}
	}
	if len(seen) < 80 {
		t.Errorf("only %d fields were found", len(seen))
	}
}

func changes(t *testing.T, w Workload, field reflect.Value, before string) bool {
	t.Helper()
	kept := reflect.New(field.Type()).Elem()
	kept.Set(field)
	defer field.Set(kept)
	field.SetZero()
	return rendered(t, w) != before
}

type field struct {
	path  string
	value reflect.Value
}

func fieldsOf(w Workload) []field {
	all := walk("Spec", reflect.ValueOf(w.Spec))
	if w.Serving != nil {
		all = append(all, walk("Serving", reflect.ValueOf(w.Serving.Spec))...)
	}
	if w.Rights != nil {
		all = append(all, walk("RBAC", reflect.ValueOf(w.Rights.Spec))...)
	}
	return all
}

// walk returns every field of a type of this API, recursively. Types of Kubernetes are treated as
// single values.
func walk(path string, v reflect.Value) []field {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || v.Type().Elem().Kind() != reflect.Struct {
			return nil
		}
		return walk(path, v.Elem())
	case reflect.Slice:
		var all []field
		for i := range v.Len() {
			all = append(all, walk(path+"[]", v.Index(i))...)
		}
		return all
	case reflect.Struct:
		if v.Type().PkgPath() != reflect.TypeOf(coderv1alpha1.WorkloadSpec{}).PkgPath() {
			return nil
		}
		var all []field
		for i := range v.NumField() {
			at := path + "." + v.Type().Field(i).Name
			all = append(all, field{at, v.Field(i)})
			all = append(all, walk(at, v.Field(i))...)
		}
		return all
	}
	return nil
}

// rendered returns all objects of a workload as one text, or the error.
func rendered(t *testing.T, w Workload) string {
	t.Helper()
	if _, err := Deployment(w); err != nil {
		return err.Error()
	}
	all := objects(t, w)
	var text strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		raw, err := yaml.Marshal(all[kind])
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(kind + "\n" + string(raw))
	}
	return text.String()
}

// The apply changes the objects that it is given. That must affect neither the spec, which comes
// from a shared cache, nor the next object.
func TestBuildersShareNothing(t *testing.T) {
	for name, w := range workloads() {
		spec, before := w.Spec.DeepCopy(), rendered(t, w)
		for _, obj := range objects(t, w) {
			scribble(reflect.ValueOf(obj))
		}
		if diff := cmp.Diff(spec, w.Spec); diff != "" {
			t.Errorf("%s: a change to the objects changed the spec:\n%s", name, diff)
		}
		if diff := cmp.Diff(before, rendered(t, w)); diff != "" {
			t.Errorf("%s: a change to the objects changed those that are made next:\n%s", name, diff)
		}
	}
}

// scribble changes everything that a value refers to.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			scribble(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				scribble(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			scribble(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if v.Type().Elem().Kind() == reflect.String {
				v.SetMapIndex(key, reflect.ValueOf("scribbled").Convert(v.Type().Elem()))
			} else {
				v.SetMapIndex(key, reflect.Value{})
			}
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString("scribbled")
		}
	case reflect.Int32, reflect.Int64:
		if v.CanSet() {
			v.SetInt(v.Int() + 1)
		}
	case reflect.Bool:
		if v.CanSet() {
			v.SetBool(!v.Bool())
		}
	}
}

package installation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namedFields is the maximum number of missing fields that are named.
const namedFields = 3

// definitionKind returns the GroupVersionKind of CustomResourceDefinitions.
func definitionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
}

// definitions checks whether the cluster serves the kinds that the expected parts need.
func (c *checker) definitions(ctx context.Context) ([]Problem, error) {
	var wanted []Definition
	switch {
	case c.want.Controllers:
		wanted = Definitions()
	case c.want.AggregatedAPI || c.want.MCP:
		wanted = []Definition{controlPlanes()}
	}
	switch {
	case c.want.AggregatedAPI:
		wanted = append(wanted, recordDefinitions()...)
	case c.want.Controllers:
		wanted = append(wanted, mirrorStates())
	}
	var problems []Problem
	var errs []error
	for _, d := range wanted {
		found, err := c.definition(ctx, d)
		if err != nil {
			errs = append(errs, err)
		}
		problems = append(problems, found...)
	}
	return problems, errors.Join(errs...)
}

// definition checks a CustomResourceDefinition, or, if the caller may not read it, the
// discovery and OpenAPI documents.
func (c *checker) definition(ctx context.Context, d Definition) ([]Problem, error) {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(definitionKind())
	err := c.kube.Get(ctx, client.ObjectKey{Name: d.Name}, crd)
	switch {
	case apierrors.IsForbidden(err):
		return c.published(d)
	case apierrors.IsNotFound(err):
		return []Problem{d.problem("is missing", true, nil)}, nil
	case err != nil:
		return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", d.Name, err)
	}
	return d.defects(crd)
}

func (d Definition) problem(what string, blocks bool, since *time.Time) Problem {
	return Problem{
		Object: "CustomResourceDefinition " + d.Name, What: what, Do: applyInstallation, Blocks: blocks, Since: since,
	}
}

// foreign returns the problem of a definition that belongs to other software.
func (d Definition) foreign(kind string) Problem {
	p := d.problem(fmt.Sprintf("belongs to other software: it defines the kind %s, not %s", kind, d.Kind), true, nil)
	p.Do = "remove the other definition, or install coder-k8s in another cluster"
	return p
}

// crdObject contains the fields of a CustomResourceDefinition that are checked.
type crdObject struct {
	Spec struct {
		Names    struct{ Kind string }
		Versions []struct {
			Name   string
			Served bool
			Schema struct{ OpenAPIV3Schema map[string]any }
		}
	}
	Status struct {
		Conditions []struct {
			Type, Status, Reason, Message string
			LastTransitionTime            time.Time
		}
	}
}

func (d Definition) defects(object *unstructured.Unstructured) ([]Problem, error) {
	raw, err := json.Marshal(object.Object)
	if err != nil {
		return nil, err
	}
	crd := &crdObject{}
	if err := json.Unmarshal(raw, crd); err != nil {
		return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", d.Name, err)
	}
	if gone := object.GetDeletionTimestamp(); gone != nil {
		p := d.problem("is being deleted, and with it every "+d.Kind, true, &gone.Time)
		p.Do = "finish the removal, or keep the Coders, as docs/how-to/uninstall.md describes; a deletion cannot be taken back"
		return []Problem{p}, nil
	}
	if kind := crd.Spec.Names.Kind; kind != d.Kind {
		return []Problem{d.foreign(kind)}, nil
	}
	for _, condition := range crd.Status.Conditions {
		switch {
		case condition.Status != "False":
		case condition.Type == "NamesAccepted":
			p := d.problem(fmt.Sprintf("shares a name with another definition (%s)", condition.Message), true, &condition.LastTransitionTime)
			p.Do = "remove the other definition: kubectl get crds lists all"
			return []Problem{p}, nil
		case condition.Type == "Established":
			return []Problem{d.problem(fmt.Sprintf("is not established (%s: %s)", condition.Reason, condition.Message),
				true, &condition.LastTransitionTime)}, nil
		}
	}
	for _, v := range crd.Spec.Versions {
		if v.Name == d.Resource.Version && v.Served {
			return d.compare(v.Schema.OpenAPIV3Schema), nil
		}
	}
	return []Problem{d.problem("does not serve version "+d.Resource.Version, true, nil)}, nil
}

func (d Definition) compare(schema map[string]any) []Problem {
	lacking := lackingFields(d.object, schema, "")
	if len(lacking) == 0 {
		return nil
	}
	more := ""
	if n := len(lacking) - namedFields; n > 0 {
		lacking, more = lacking[:namedFields], fmt.Sprintf(" and %d more", n)
	}
	return []Problem{d.problem("is of another version than this program: it has no "+strings.Join(lacking, ", ")+more, false, nil)}
}

// published checks the documents that every caller may read: the discovery document and the
// OpenAPI schema.
func (c *checker) published(d Definition) ([]Problem, error) {
	served, err := c.discovery.ServerResourcesForGroupVersion(d.Resource.GroupVersion().String())
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("asking kube-apiserver what it serves of %s: %w", d.Resource.GroupVersion(), err)
	}
	found := -1
	if err == nil {
		found = slices.IndexFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == d.Resource.Resource })
	}
	if found < 0 {
		return []Problem{d.problem("is missing or not established", true, nil)}, nil
	}
	if kind := served.APIResources[found].Kind; kind != d.Kind {
		return []Problem{d.foreign(kind)}, nil
	}
	schemas, err := c.schemas(d.Resource.GroupVersion())
	if err != nil {
		return nil, err
	}
	for _, schema := range schemas {
		kinds, _, _ := unstructured.NestedSlice(schema, "x-kubernetes-group-version-kind")
		if slices.ContainsFunc(kinds, func(entry any) bool {
			kind, ok := entry.(map[string]any)
			return ok && kind["group"] == d.Resource.Group && kind["version"] == d.Resource.Version && kind["kind"] == d.Kind
		}) {
			return d.compare(schema), nil
		}
	}
	return nil, nil
}

// schemas returns the schemas in the OpenAPI document of a group version, by name. The document has those of several of our
// kinds and is large, so it is read once. There are none if it is not published yet, which happens shortly after the kinds are
// served.
func (c *checker) schemas(of schema.GroupVersion) (map[string]map[string]any, error) {
	if read, ok := c.openAPI[of]; ok {
		return read, nil
	}
	paths, err := c.discovery.OpenAPIV3().Paths()
	if err != nil {
		return nil, fmt.Errorf("asking kube-apiserver for its OpenAPI documents: %w", err)
	}
	document, known := paths["apis/"+of.String()]
	if !known {
		return nil, nil
	}
	raw, err := document.Schema("application/json")
	if err != nil {
		return nil, fmt.Errorf("asking kube-apiserver for the schema of %s: %w", of, err)
	}
	var openAPI struct {
		Components struct{ Schemas map[string]map[string]any }
	}
	if err := json.Unmarshal(raw, &openAPI); err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", of, err)
	}
	c.openAPI[of] = openAPI.Components.Schemas
	return openAPI.Components.Schemas, nil
}

// ownTypes is the import path prefix of the types whose fields are compared. The types of
// Kubernetes are not compared.
const ownTypes = "github.com/coder-k8s/coder-k8s/api/"

// lackingFields returns the fields of a Go type that an OpenAPI schema does not contain, as
// paths like spec.rbac.namespaces. path is that of the type, with a period at its end.
func lackingFields(t reflect.Type, schema map[string]any, path string) []string {
	if schema == nil || schema["x-kubernetes-preserve-unknown-fields"] == true {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return lackingFields(t.Elem(), schema, path)
	case reflect.Slice, reflect.Array:
		return lackingFields(t.Elem(), inner(schema, "items"), path)
	case reflect.Map:
		return lackingFields(t.Elem(), inner(schema, "additionalProperties"), path)
	}
	if t.Kind() != reflect.Struct || !strings.HasPrefix(t.PkgPath(), ownTypes) {
		return nil
	}
	var lacking []string
	properties := inner(schema, "properties")
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
			continue
		case name == "" && (field.Anonymous || strings.Contains(options, "inline")):
			lacking = append(lacking, lackingFields(field.Type, schema, path)...)
			continue
		}
		property := inner(properties, name)
		if property == nil {
			lacking = append(lacking, path+name)
			continue
		}
		lacking = append(lacking, lackingFields(field.Type, property, path+name+".")...)
	}
	return lacking
}

func inner(schema map[string]any, key string) map[string]any {
	found, _ := schema[key].(map[string]any)
	return found
}

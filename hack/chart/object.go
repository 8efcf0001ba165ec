package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	// namespace is the namespace of the operator in config/. It equals the constant in
	// internal/installation, which this separate module cannot import. In the chart it is the
	// namespace of the release.
	namespace = "coder-system"
	// nameLabel is a label of every object of an installation. The chart's helpers set it.
	nameLabel = "app.kubernetes.io/name"
)

// object is one object of a rendering.
type object map[string]any

// rendering is the output of kustomize for a directory, in order.
type rendering []object

func render(dir string) (rendering, error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("kustomize %s: %w", dir, err)
	}
	var objects rendering
	for _, resource := range resources.Resources() {
		fields, err := resource.Map()
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", dir, resource.CurId(), err)
		}
		objects = append(objects, fields)
	}
	return objects, nil
}

// ofKind returns the objects of some kinds.
func (r rendering) ofKind(kinds ...string) rendering {
	return slices.DeleteFunc(slices.Clone(r), func(o object) bool { return !slices.Contains(kinds, o.kind()) })
}

// find returns the object with the same kind, namespace and name, or nil.
func (r rendering) find(like object) object {
	i := slices.IndexFunc(r, func(o object) bool { return o.key() == like.key() })
	if i < 0 {
		return nil
	}
	return r[i]
}

func (o object) kind() string { return text(o, "kind") }
func (o object) name() string { return text(o, "metadata", "name") }
func (o object) key() string {
	return o.kind() + "/" + text(o, "metadata", "namespace") + "/" + o.name()
}

// template returns the object as a Helm template. The extra arguments are expressions for labels
// and annotations, as arguments of dict. Empty means those of the object.
func (o object) template(extraLabels, extraAnnotations string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: %s\nkind: %s\nmetadata:\n  name: %s\n", text(o, "apiVersion"), o.kind(), o.name())
	switch ns := text(o, "metadata", "namespace"); ns {
	case "":
	case namespace:
		b.WriteString("  namespace: {{ $.Release.Namespace }}\n")
	default:
		fmt.Fprintf(&b, "  namespace: %s\n", ns)
	}
	if extraLabels == "" {
		extraLabels = dict(entries(o, "metadata", "labels"))
	}
	if extraAnnotations == "" {
		extraAnnotations = dict(entries(o, "metadata", "annotations"))
	}
	fmt.Fprintf(&b, "  {{- include \"coder-k8s.metadata\" (dict \"root\" $ \"labels\" %s \"annotations\" %s) | nindent 2 }}\n",
		extraLabels, extraAnnotations)
	rest := map[string]any{}
	for field, value := range o {
		if field != "apiVersion" && field != "kind" && field != "metadata" && field != "status" {
			rest[field] = value
		}
	}
	raw, err := yaml.Marshal(rest)
	if err != nil {
		return "", fmt.Errorf("%s: %w", o.key(), err)
	}
	b.WriteString(strings.ReplaceAll(escape(string(raw)), namespace, "{{ $.Release.Namespace }}"))
	return b.String(), nil
}

// escape escapes template expressions that are not for Helm.
func escape(s string) string { return strings.ReplaceAll(s, "{{", `{{ "{{" }}`) }

// dict returns a dict expression with the entries, without the label that every object has.
func dict(of map[string]any) string {
	var b strings.Builder
	b.WriteString("(dict")
	for _, key := range slices.Sorted(maps.Keys(of)) {
		if key != nameLabel {
			fmt.Fprintf(&b, " %q %q", key, of[key])
		}
	}
	return b.String() + ")"
}

func entries(o object, path ...string) map[string]any {
	var value any = map[string]any(o)
	for _, key := range path {
		fields, _ := value.(map[string]any)
		value = fields[key]
	}
	fields, _ := value.(map[string]any)
	return fields
}

func text(o object, path ...string) string {
	last := len(path) - 1
	s, _ := entries(o, path[:last]...)[path[last]].(string)
	return s
}

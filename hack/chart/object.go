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
	// namespace is where config/ puts the operator, as internal/installation says, which
	// this module of its own cannot import. A chart has it where the release is.
	namespace = "coder-system"
	// nameLabel is on every object of an installation, and the chart's helpers set it.
	nameLabel = "app.kubernetes.io/name"
	// marker stands for the namespace of the release while an object is still YAML.
	marker = "RELEASE-NAMESPACE"
)

// object is one object of a rendering.
type object map[string]any

// rendering is what kustomize makes of a directory, in its order.
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

// ofKind gives the objects of some kinds.
func (r rendering) ofKind(kinds ...string) rendering {
	return slices.DeleteFunc(slices.Clone(r), func(o object) bool { return !slices.Contains(kinds, o.kind()) })
}

// find gives the object with the same kind, namespace and name, or nil.
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

// template gives the object as a Helm template. extra are expressions: further
// labels and annotations, as arguments of dict.
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
			rest[field] = marked(value)
		}
	}
	raw, err := yaml.Marshal(rest)
	if err != nil {
		return "", fmt.Errorf("%s: %w", o.key(), err)
	}
	b.WriteString(strings.ReplaceAll(escape(string(raw)), marker, "{{ $.Release.Namespace }}"))
	return b.String(), nil
}

// escape keeps Helm from reading what is meant for somebody else.
func escape(s string) string { return strings.ReplaceAll(s, "{{", `{{ "{{" }}`) }

// marked puts the marker where a value names the operator's namespace.
func marked(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, entry := range v {
			out[key] = marked(entry)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, entry := range v {
			out[i] = marked(entry)
		}
		return out
	case string:
		return strings.ReplaceAll(v, namespace, marker)
	}
	return value
}

// dict is the expression that makes the entries, but for the label that every
// object has.
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

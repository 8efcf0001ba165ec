package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
)

// source is a part of the installation: the objects that it adds in each of the two modes, and its
// condition.
type source struct {
	// condition is an expression over the values. Empty means always.
	condition string
	// all and split are the objects of the part in each mode. If split is nil, it is derived from
	// all.
	all, split rendering
}

// sources contains all parts. The first one is the installation without options.
type sources []source

func readSources(root string) (sources, error) {
	config := filepath.Join(root, "config")
	dirs := []struct{ condition, all, split string }{
		{"", filepath.Join(config, "default"), filepath.Join(config, "split")},
		{".Values.watchNamespaces", filepath.Join(config, "namespaced"), ""},
		{".Values.mcp.legacyImpersonation", filepath.Join(config, "legacy-impersonation"), ""},
		{`has "inside" .Values.mcp.toolsets`, filepath.Join(config, "mcp-inside"), ""},
		{".Values.networkPolicy.enabled", filepath.Join(config, "network-policies"), filepath.Join(root, "hack", "chart", "overlays", "split-network-policies")},
	}
	parts := make(sources, len(dirs))
	for i, dir := range dirs {
		parts[i].condition = dir.condition
		for path, into := range map[string]*rendering{dir.all: &parts[i].all, dir.split: &parts[i].split} {
			if path == "" {
				continue
			}
			var err error
			if *into, err = render(path); err != nil {
				return nil, err
			}
		}
	}
	return parts, nil
}

// base returns the installation without options.
func (s sources) base() source { return s[0] }

// namespaced returns the installation for some namespaces.
func (s sources) namespaced() source { return s[1] }

// objects returns the objects of some kinds in all parts, without duplicates.
func (s sources) objects(kinds ...string) rendering {
	var objects rendering
	for _, kind := range kinds {
		for _, part := range s {
			for _, r := range []rendering{part.all, part.split} {
				for _, o := range r.ofKind(kind) {
					if objects.find(o) == nil {
						objects = append(objects, o)
					}
				}
			}
		}
	}
	return objects
}

// of returns the part that contains an object, and the object in each mode.
func (s sources) of(o object) (part source, all, split object, err error) {
	for _, part := range s {
		all, split = part.all.find(o), part.split.find(o)
		if all == nil && split == nil {
			continue
		}
		if part.split == nil {
			split, err = s.inSplit(o)
		}
		return part, all, split, err
	}
	return source{}, nil, nil, fmt.Errorf("%s is in no part", o.key())
}

// inSplit converts an object of mode all to mode split. The subject of a binding becomes the
// ServiceAccount that is bound to the role in mode split, or to the role with the longest name that
// is a prefix of this role's name.
func (s sources) inSplit(o object) (object, error) {
	if !strings.HasSuffix(o.kind(), "Binding") {
		return o, nil
	}
	role, longest := text(o, "roleRef", "name"), ""
	var subjects any
	for _, binding := range s.base().split.ofKind("ClusterRoleBinding") {
		if bound := text(binding, "roleRef", "name"); strings.HasPrefix(role, bound) && len(bound) > len(longest) {
			longest, subjects = bound, binding["subjects"]
		}
	}
	if subjects == nil {
		return nil, fmt.Errorf("config/split binds nobody to a role like %s, so that nobody can be bound to it", role)
	}
	out := maps.Clone(o)
	out["subjects"] = subjects
	return out, nil
}

const (
	// selfManaged is the Secret with the metrics certificate that the operator creates.
	selfManaged = "coder-k8s-metrics-tls"
	// certificateSecret is the Secret with the certificate that is served, from cert-manager or
	// from the operator.
	certificateSecret = `{{ ternary "coder-k8s-metrics-cert" "` + selfManaged + `" (eq .Values.certificates.mode "certManager") }}`
)

// monitoring returns the objects of config/monitoring as templates. Each kind has its own value.
// All objects except rules and dashboard are needed by the ServiceMonitor.
func monitoring(root string) (string, error) {
	objects, err := render(filepath.Join(root, "config", "monitoring"))
	if err != nil {
		return "", err
	}
	values := map[string]string{"PrometheusRule": "prometheusRule", "ConfigMap": "dashboard"}
	var b strings.Builder
	b.WriteString(header)
	for _, o := range objects {
		value := ".Values.monitoring.serviceMonitor"
		if name, ok := values[o.kind()]; ok {
			value = ".Values.monitoring." + name
		}
		labels, annotations := "", ""
		switch o.kind() {
		case "ConfigMap":
			annotations = value + ".annotations"
			fallthrough
		case "PrometheusRule", "ServiceMonitor":
			labels = fmt.Sprintf("(mergeOverwrite %s %s.labels)", dict(entries(o, "metadata", "labels")), value)
		}
		body, err := o.template(labels, annotations)
		if err != nil {
			return "", err
		}
		if o.kind() == "ServiceMonitor" {
			body = strings.ReplaceAll(body, "name: "+selfManaged, "name: "+certificateSecret)
		}
		b.WriteString(document([]string{value + ".enabled"}, body))
	}
	return b.String(), nil
}

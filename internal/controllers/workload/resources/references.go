package resources

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// The kinds that pods refer to.
const (
	KindSecret    = "Secret"
	KindConfigMap = "ConfigMap"
)

// Reference is a Secret or ConfigMap whose content a pod depends on.
type Reference struct {
	// Kind is KindSecret or KindConfigMap.
	Kind string
	// Name of it, in the namespace of the pod.
	Name string
	// Keys that the pod uses, sorted. Nil means all of them.
	Keys []string
	// Optional says that the pod starts without it, or without one of the keys.
	Optional bool
}

// References are the Secrets and ConfigMaps whose content becomes a part of the
// pod: environment and volumes of all its containers. They are sorted by kind and
// name, and each is there once: with the keys of all uses, and optional only
// where all uses are. Credentials that only the kubelet uses are none.
func References(pod corev1.PodSpec) []Reference {
	c := collector{}
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			c.environment(containers[i].Env, containers[i].EnvFrom)
		}
	}
	for i := range pod.Volumes {
		c.volume(pod.Volumes[i].VolumeSource)
	}
	slices.SortFunc(c.found, func(a, b Reference) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return c.found
}

type collector struct{ found []Reference }

func (c *collector) environment(env []corev1.EnvVar, from []corev1.EnvFromSource) {
	for _, variable := range env {
		source := variable.ValueFrom
		if source == nil {
			continue
		}
		if s := source.SecretKeyRef; s != nil {
			c.add(KindSecret, s.Name, []string{s.Key}, s.Optional)
		}
		if m := source.ConfigMapKeyRef; m != nil {
			c.add(KindConfigMap, m.Name, []string{m.Key}, m.Optional)
		}
	}
	for _, source := range from {
		if s := source.SecretRef; s != nil {
			c.add(KindSecret, s.Name, nil, s.Optional)
		}
		if m := source.ConfigMapRef; m != nil {
			c.add(KindConfigMap, m.Name, nil, m.Optional)
		}
	}
}

func (c *collector) volume(source corev1.VolumeSource) {
	if s := source.Secret; s != nil {
		c.add(KindSecret, s.SecretName, keysOf(s.Items), s.Optional)
	}
	if m := source.ConfigMap; m != nil {
		c.add(KindConfigMap, m.Name, keysOf(m.Items), m.Optional)
	}
	if source.Projected == nil {
		return
	}
	for _, part := range source.Projected.Sources {
		if s := part.Secret; s != nil {
			c.add(KindSecret, s.Name, keysOf(s.Items), s.Optional)
		}
		if m := part.ConfigMap; m != nil {
			c.add(KindConfigMap, m.Name, keysOf(m.Items), m.Optional)
		}
	}
}

// add joins a use with the others of the same object.
func (c *collector) add(kind, name string, keys []string, optional *bool) {
	if name == "" {
		return
	}
	use := Reference{Kind: kind, Name: name, Keys: sorted(keys), Optional: optional != nil && *optional}
	at := slices.IndexFunc(c.found, func(r Reference) bool { return r.Kind == kind && r.Name == name })
	if at < 0 {
		c.found = append(c.found, use)
		return
	}
	known := &c.found[at]
	known.Optional = known.Optional && use.Optional
	if known.Keys == nil || use.Keys == nil {
		known.Keys = nil
		return
	}
	known.Keys = sorted(append(known.Keys, use.Keys...))
}

// keysOf are those that a volume shows. Without a choice it shows all.
func keysOf(items []corev1.KeyToPath) []string {
	var keys []string
	for _, item := range items {
		keys = append(keys, item.Key)
	}
	return keys
}

// sorted puts keys in order, each once. None stay nil, which means all.
func sorted(keys []string) []string {
	slices.Sort(keys)
	return slices.Compact(keys)
}

package resources

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Kinds of objects that pods refer to.
const (
	KindSecret    = "Secret"
	KindConfigMap = "ConfigMap"
)

// Reference is a Secret or ConfigMap whose content a pod depends on.
type Reference struct {
	// Kind is KindSecret or KindConfigMap.
	Kind string
	// Name is the name of the object in the namespace of the pod.
	Name string
	// Keys are the keys that the pod uses, sorted. Nil means all keys.
	Keys []string
	// Optional reports whether the pod starts without the object or one of the keys.
	Optional bool
}

// References returns the Secrets and ConfigMaps whose content becomes part of the pod: those of the
// environment and the volumes of all its containers. The result is sorted by kind and name. Each
// object occurs once, with the keys of all uses, and is optional only if all uses are. Image pull
// secrets are not included, because only the kubelet uses them.
func References(pod corev1.PodSpec) []Reference {
	c := collector{}
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, variable := range container.Env {
			source := ptr.Deref(variable.ValueFrom, corev1.EnvVarSource{})
			if s := source.SecretKeyRef; s != nil {
				c.add(KindSecret, s.Name, []string{s.Key}, s.Optional)
			}
			if m := source.ConfigMapKeyRef; m != nil {
				c.add(KindConfigMap, m.Name, []string{m.Key}, m.Optional)
			}
		}
		for _, source := range container.EnvFrom {
			if s := source.SecretRef; s != nil {
				c.add(KindSecret, s.Name, nil, s.Optional)
			}
			if m := source.ConfigMapRef; m != nil {
				c.add(KindConfigMap, m.Name, nil, m.Optional)
			}
		}
	}
	for _, volume := range pod.Volumes {
		if s := volume.Secret; s != nil {
			c.add(KindSecret, s.SecretName, keysOf(s.Items), s.Optional)
		}
		if m := volume.ConfigMap; m != nil {
			c.add(KindConfigMap, m.Name, keysOf(m.Items), m.Optional)
		}
		for _, part := range ptr.Deref(volume.Projected, corev1.ProjectedVolumeSource{}).Sources {
			if s := part.Secret; s != nil {
				c.add(KindSecret, s.Name, keysOf(s.Items), s.Optional)
			}
			if m := part.ConfigMap; m != nil {
				c.add(KindConfigMap, m.Name, keysOf(m.Items), m.Optional)
			}
		}
	}
	slices.SortFunc(c.found, func(a, b Reference) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return c.found
}

type collector struct{ found []Reference }

// add merges a use with the other uses of the same object.
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

// keysOf returns the keys that a volume projects. Nil means all keys.
func keysOf(items []corev1.KeyToPath) []string {
	var keys []string
	for _, item := range items {
		keys = append(keys, item.Key)
	}
	return keys
}

// sorted sorts keys and removes duplicates. Nil stays nil, which means all keys.
func sorted(keys []string) []string {
	slices.Sort(keys)
	return slices.Compact(keys)
}

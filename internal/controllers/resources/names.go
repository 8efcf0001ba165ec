package resources

import (
	"fmt"
	"hash/fnv"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

const (
	maxLabelLength  = 63
	maxObjectLength = 253
)

// Hash returns the 32-bit FNV-1a hash of the parts, joined by a zero byte. It is used in names that
// would otherwise collide or be too long.
func Hash(parts ...string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(strings.Join(parts, "\x00")))
	return fmt.Sprintf("%08x", sum.Sum32())
}

// ScopedName returns "<base>-<hash><suffix>". The base is truncated if the result would be too long
// for the name of an object.
func ScopedName(base, hash, suffix string) string {
	name := base + "-" + hash + suffix
	if len(name) <= maxObjectLength {
		return name
	}
	kept := strings.Trim(base[:maxObjectLength-len(hash)-len(suffix)-1], "-.")
	if kept == "" {
		kept = "workspace"
	}
	return kept + "-" + hash + suffix
}

// volumeName returns "<prefix>-<secret>" as a DNS label. If the name had to be changed, it contains
// a hash, so that two Secrets never share a volume.
func volumeName(prefix, secret string) string {
	wanted := prefix + "-" + secret
	clean := prefix + "-" + sanitize(secret)
	if clean == wanted && len(clean) <= maxLabelLength {
		return clean
	}
	hash := Hash(prefix, secret)
	kept := sanitize(secret)
	if room := maxLabelLength - len(prefix) - len(hash) - 2; len(kept) > room {
		kept = kept[:room]
	}
	kept = strings.Trim(kept, "-")
	if kept == "" {
		kept = "x"
	}
	return prefix + "-" + kept + "-" + hash
}

func sanitize(s string) string {
	clean := strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			return r
		}
		return '-'
	}, strings.ToLower(s))
	return strings.Trim(clean, "-")
}

// meta returns the metadata of an object of the workload. The labels of the workload override those
// of the spec, because selectors use them.
func meta(w Workload, name string, labels, annotations map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: w.Namespace, Labels: merged(labels, w.Labels), Annotations: maps.Clone(annotations),
	}
}

func selector(w Workload) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: PodLabels(w)}
}

// merged returns a new map with the entries of all sets. Later sets override earlier ones.
func merged(sets ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, set := range sets {
		maps.Copy(all, set)
	}
	return all
}

// metricsLabels returns the labels of the metrics Service. They distinguish it from the Service
// that serves Coder.
func metricsLabels(w Workload) map[string]string {
	return merged(w.Labels, map[string]string{coderv1alpha1.LabelComponent: coderv1alpha1.ComponentMetrics})
}

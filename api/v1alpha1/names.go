package v1alpha1

import (
	"fmt"
	"hash/fnv"
)

const maxNameLength = 63

// InitialAdminSecretName returns the name of the Secret with the initial admin account of the
// control plane with the given name.
func InitialAdminSecretName(controlPlane string) string {
	return SuffixedName(controlPlane, "-initial-admin")
}

// SuffixedName returns "<name><suffix>" with at most 63 characters, like ShortName.
func SuffixedName(name, suffix string) string { return ShortName("", name, suffix, maxNameLength) }

// ShortName returns "<prefix><name><suffix>" with at most limit characters. If the result would be
// longer, the name is truncated and followed by a hash of the full name, so that two long names stay
// different. The public predecessor uses the same scheme.
func ShortName(prefix, name, suffix string, limit int) string {
	if whole := prefix + name + suffix; len(whole) <= limit {
		return whole
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	hash := fmt.Sprintf("-%08x", h.Sum32())
	return prefix + name[:max(0, limit-len(prefix)-len(suffix)-len(hash))] + hash + suffix
}

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

// SuffixedName appends a suffix to a name. If the result is too long, the name is truncated and a
// hash of the full name is inserted, so that two long names stay different. The public predecessor
// uses the same scheme for its token Secret.
func SuffixedName(name, suffix string) string {
	if len(name)+len(suffix) <= maxNameLength {
		return name + suffix
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	hash := fmt.Sprintf("-%08x", h.Sum32())
	return name[:maxNameLength-len(suffix)-len(hash)] + hash + suffix
}

package v1alpha1

import (
	"fmt"
	"hash/fnv"
)

const maxNameLength = 63

// InitialAdminSecretName is the Secret with the account with which a person logs in
// first to the Coder of a control plane of that name.
func InitialAdminSecretName(controlPlane string) string {
	return SuffixedName(controlPlane, "-initial-admin")
}

// SuffixedName appends a suffix to a name. Where the result is too long, the name is
// cut and a hash of all of it tells two long names apart. The public predecessor
// names its token Secret in this way.
func SuffixedName(name, suffix string) string {
	if len(name)+len(suffix) <= maxNameLength {
		return name + suffix
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	hash := fmt.Sprintf("-%08x", h.Sum32())
	return name[:maxNameLength-len(suffix)-len(hash)] + hash + suffix
}

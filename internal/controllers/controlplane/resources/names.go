package resources

import (
	"fmt"
	"hash/fnv"
	"strings"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

const (
	maxLabelLength  = 63
	maxObjectLength = 253

	adminJobSuffix = "-create-admin"
)

// ServiceAccountName is the identity under which coderd's pods run.
func ServiceAccountName(cp *coderv1alpha1.CoderControlPlane) string {
	if cp.Spec.ServiceAccount.Name != "" {
		return cp.Spec.ServiceAccount.Name
	}
	return cp.Name
}

// WorkspaceRoleName is the name of the Role with the workspace rights, the same
// in every namespace. It holds a hash of the control plane, because two control
// planes may grant rights in one namespace.
func WorkspaceRoleName(cp *coderv1alpha1.CoderControlPlane) string {
	return scopedName(ServiceAccountName(cp), fnv32(cp.Namespace, cp.Name), "-workspace-perms")
}

// WorkspaceRoleBindingName is the name of the RoleBinding beside that Role.
func WorkspaceRoleBindingName(cp *coderv1alpha1.CoderControlPlane) string {
	return scopedName(ServiceAccountName(cp), fnv32(cp.Namespace, cp.Name), "")
}

// AdminJobName is the name of the Job that makes the operator's account.
func AdminJobName(cp *coderv1alpha1.CoderControlPlane) string {
	name := cp.Name + adminJobSuffix
	if len(name) <= maxLabelLength {
		return name
	}
	kept := maxLabelLength - len(adminJobSuffix) - len("-00000000")
	return cp.Name[:kept] + "-" + fnv32(cp.Name) + adminJobSuffix
}

// scopedName is "<base>-<hash><suffix>", with a base that is cut where the
// whole would not be a name any more.
func scopedName(base, hash, suffix string) string {
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

// volumeName is "<prefix>-<secret>" as a DNS label. Where that changes the name
// or it is too long, a hash keeps two Secrets from sharing one volume.
func volumeName(prefix, secret string) string {
	wanted := prefix + "-" + secret
	clean := prefix + "-" + sanitize(secret)
	if clean == wanted && len(clean) <= maxLabelLength {
		return clean
	}
	hash := fnv32(prefix, secret)
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

// fnv32 is the 32-bit FNV-1a hash of the parts, joined by a zero byte.
func fnv32(parts ...string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(strings.Join(parts, "\x00")))
	return fmt.Sprintf("%08x", sum.Sum32())
}

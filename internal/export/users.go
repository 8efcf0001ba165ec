package export

import (
	"slices"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/access"
)

// userManifest makes the manifest of a user. There is none of the operator's own account,
// which each operator makes for itself, and of users whom nobody can make in Coder.
func userManifest(u aggregationv1alpha1.CoderUser, r *report) (manifest, bool) {
	name := qualified(u.ObjectMeta)
	switch {
	case u.DeletionTimestamp != nil:
		r.note("CoderUser %s: it is being deleted, so there is no manifest", name)
		return manifest{}, false
	case u.Status.Username == access.Username:
		r.note("CoderUser %s: it is the operator's own account, so there is no manifest", name)
		return manifest{}, false
	case !slices.Contains([]string{"password", "oidc", "none"}, u.Spec.LoginType):
		r.leave("CoderUser %s: its login type %q cannot be chosen for a new user; another Coder makes the user at the first login", name, u.Spec.LoginType)
		return manifest{}, false
	}
	m := newManifest("CoderUser", "users", u.ObjectMeta)
	if u.Spec.LoginType == "password" && u.Spec.PasswordFrom == nil {
		m.comments = append(m.comments, "The password is not exported. Another Coder gives the user a random one that nobody knows;\n"+
			"to choose it, set spec.passwordFrom to a key of a Secret.")
	}
	m.Spec = *u.Spec.DeepCopy()
	return m, true
}

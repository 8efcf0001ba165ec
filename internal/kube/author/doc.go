// Package author checks that the author of an object may grant the permissions that the operator
// grants for that object, and that the author of a backup may create the Backup of CloudNativePG that the
// operator creates for it.
//
// kube-apiserver rejects a Role with permissions that its writer does not have. If the operator
// writes a Role for a user, kube-apiserver checks only the operator's permissions. So the operator
// checks those of the author itself. The author is the user who last changed spec.rbac, or the spec of
// a backup or of its schedule. A controller does not see which user writes an object, so an admission
// policy (rbacauthor.yaml of the chart) records the author in an annotation and rejects any other
// value. Without that policy any user could name an administrator as the author. So Check refuses all
// new permissions until a dry run shows that the policy is in force.
package author

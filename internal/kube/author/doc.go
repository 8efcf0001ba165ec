// Package author checks that rights which the operator grants for an object are rights
// that the author of the object may grant.
//
// kube-apiserver refuses a Role with rights that its writer does not hold. A Role that
// the operator writes for somebody is compared with the operator's rights only, so the
// operator asks the same about that person. The author is the user who last changed
// spec.rbac. A controller does not see who writes an object, so an admission policy
// (config/policy) records the author in an annotation and refuses any other value.
// Without that policy anyone could name themselves an administrator, so Check refuses
// all new rights until a dry run shows that the policy is in force.
package author

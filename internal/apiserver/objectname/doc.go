// Package objectname translates between the names of Kubernetes objects and the names of their
// counterparts in Coder.
//
// A template is <organization>.<template>, a workspace is <organization>.<user>.<workspace>, and a
// user is <user>. All names begin with status.objectNamePrefix of their control plane, which may be
// empty.
//
// Invariants: Coder ignores case when it compares names, and may store upper case. An object's name
// is always in lower case, because Kubernetes names are DNS names. So a name with upper case never
// names an object. Names in Coder contain no dot, so the number of dots determines the form.
package objectname

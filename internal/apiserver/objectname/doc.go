// Package objectname translates between the names of Kubernetes objects and the
// names of the things in Coder that they stand for.
//
// A template is <organization>.<template>, a workspace is
// <organization>.<user>.<workspace>, a user is <user>; all have <control-plane>. in front where
// status.objectNamePrefix of their control plane says so.
//
// Invariants: Coder compares names without regard to case and may hold upper
// case; an object's name is always in lower case, because Kubernetes names are
// DNS names. So a name with upper case never names an object. Names in Coder
// hold no dot, so the number of dots tells the form.
package objectname

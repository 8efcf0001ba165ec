// Package release tests what a release is made from without making one: the
// version comes from one place, the same commit gives the same bytes, and the
// workflows name what is there. hack/release tests its own program.
package release

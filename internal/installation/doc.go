// Package installation owns what an installation of coder-k8s consists of in a
// cluster: the names of its objects, and whether they are all there and ours.
//
// It knows no Coder and changes nothing. Everything that it finds wrong is a Problem, which names the
// object, what is wrong with it and what to do.
package installation

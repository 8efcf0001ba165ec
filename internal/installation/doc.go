// Package installation knows the objects of an installation of coder-k8s in a cluster:
// their names, and whether they exist and are correct. The command "coder-k8s check" prints that.
//
// It does not access Coder and changes nothing. Each defect is reported as a Problem, which
// names the object, what is wrong with it and what to do.
package installation

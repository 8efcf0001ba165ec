// Package podproblem owns the diagnosis of pods: what keeps a pod from running, read
// from its status and from Events about it.
//
// It is pure. A Problem holds the words of Kubernetes as they are, and Sentence says
// the same without what changes from try to try, so that equal problems have equal
// sentences.
package podproblem

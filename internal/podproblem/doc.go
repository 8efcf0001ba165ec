// Package podproblem owns the diagnosis of pods: what keeps a pod from running, read from its
// status, from Events about it and from the last lines of its containers; and what coderd's
// log says about its database.
//
// It is pure. A Problem holds the words of Kubernetes as they are, and Sentence says the same
// without what changes from try to try, so that equal problems have equal sentences.
package podproblem

// Package diagnosis reads, with the permissions of the caller, what shows why a control plane
// or a workspace does not work: its unhealthy conditions and those of the objects that it
// depends on, what keeps its pods from running, the Warning Events about them, the last lines
// of the logs of failing containers and builds, and the newest build.
//
// It draws no conclusions of its own: the conditions and package podproblem say what is wrong
// and what to do.
//
// Invariants: data that the caller may not read is named as a gap, not reported as an error,
// and is not read with other permissions. Requests, time and the size of a report are limited.
// The data of Secrets is never read, and all text of others is redacted.
package diagnosis

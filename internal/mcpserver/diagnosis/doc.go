// Package diagnosis finds out why a control plane or a workspace does not work, and what to
// do.
//
// It first gathers data (conditions, pods, events, logs, builds) with the caller's
// permissions and with limits on size and time. Pure functions then derive the findings
// from that data.
//
// Invariants: data that the caller may not read is reported as a gap, not as an error, and
// is not read with other permissions. Each finding says what is wrong, where, on which
// evidence, and what to do next. The most likely cause comes first. The data of Secrets is
// never read.
package diagnosis

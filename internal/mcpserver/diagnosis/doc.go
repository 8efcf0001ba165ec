// Package diagnosis finds out what is wrong with a control plane or a workspace
// and says what to do.
//
// It first gathers (conditions, pods, events, log lines, builds), as the caller and
// in bounds, and then concludes, in pure functions of what was gathered.
//
// Invariants: what the caller may not read is named as a gap, not an error, and is
// never read otherwise. Each finding says what, where, why (the evidence) and what
// to do next. The most likely cause comes first. The data of a Secret is never
// read.
package diagnosis

// Package ensuretest is the common part of the fixtures of the packages that use
// internal/controllers/ensure: a cluster, a Coder, a clock, and a process that may crash. Only tests import
// it.
package ensuretest

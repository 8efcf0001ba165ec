// Package insidetest is a workspace for tests: commands run on this machine, with real
// shells and real files.
package insidetest

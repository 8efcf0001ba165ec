// Package insidetest provides a workspace for tests. Commands run on this machine, with
// real shells and real files.
package insidetest

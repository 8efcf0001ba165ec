// Package parity holds docs/reference/helm-parity.md to what it is about: the values
// of Coder's Helm charts, whose names are the lists in testdata, and the fields of
// our custom resource definitions.
//
// Invariants: each value has one row in the table of each kind that it concerns; each
// row is of a known value; each field that the page names exists; and each value of
// the charts of the version of Coder that we are built with is in a list.
package parity

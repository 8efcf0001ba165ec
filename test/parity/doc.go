// Package parity compares docs/reference/helm-parity.md with the values of Coder's
// Helm charts, which are listed in testdata, and with the fields of our custom
// resource definitions.
//
// Invariants: each value has one row in the table of each kind that it concerns; each
// row is for a known value; each field on the page exists; and each value of the
// charts of the version of Coder that we are built with is in a list.
package parity

// Package parity reads the tables of docs/reference/helm-parity.md: which field
// stands for which value of the charts. The page is the only place where that is
// written.
package parity

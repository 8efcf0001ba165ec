// Package parity parses the tables in docs/reference/helm-parity.md, which map values of the charts
// to fields. That page is the only source of the mapping.
package parity

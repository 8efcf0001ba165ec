// Package report writes the report of a migration: the field for each value, the values without a
// field and their alternatives, the Secrets to create, and the next steps. It never contains a
// value.
package report

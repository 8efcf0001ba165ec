// Package report owns what a migration tells a person: where each value went, what
// has no field and what to do instead, which Secrets to make, and the next steps.
// It never holds a value.
package report

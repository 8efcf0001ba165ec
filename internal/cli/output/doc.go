// Package output owns the formats in which a command answers: for
// people, or with -o as JSON, YAML or names.
package output

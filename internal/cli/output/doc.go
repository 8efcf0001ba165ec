// Package output implements the output formats of a command: text for users, or with -o
// JSON, YAML or names.
package output

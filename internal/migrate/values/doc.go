// Package values owns values of a Helm chart as people write them: files of YAML,
// of which a later one stands over an earlier one, and the line on which each value
// stands.
//
// Paths are written as Helm does, for example coder.env[2].name.
package values

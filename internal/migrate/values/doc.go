// Package values reads and merges values of a Helm chart: YAML files, of which a later one takes
// precedence, and the line of each value.
//
// Paths are written as Helm does, for example coder.env[2].name.
package values

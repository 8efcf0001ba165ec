// Package template implements kubectl coder template: push, pull and diff of a template's files
// between a directory and the cluster.
//
// Text files are written to spec.files of the CoderTemplate, as with a manifest in Git. Everything
// else uses the subresource files. A push removes files that are not in the directory. Files that
// Terraform generates are never pushed: .terraform, state and plans contain secrets.
package template

// Package template owns kubectl coder template: push, pull and diff of the files of a
// template, between a directory and the cluster.
//
// Files that are text go through spec.files of the CoderTemplate, as a manifest in
// Git would bring them, and everything else through its subresource files. A push
// takes files away that are not in the directory. What Terraform makes while it
// works is never pushed: .terraform, state and plans hold secrets.
package template

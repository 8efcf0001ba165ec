// Package terraformerror owns how the error of Terraform is found in the log of a build.
// Coder itself reports only "terraform plan: exit status 1".
//
// Invariant: Cause returns one short line without the source of the template, without the
// values of expressions, and without what looks like a secret.
package terraformerror

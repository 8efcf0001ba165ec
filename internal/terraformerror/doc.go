// Package terraformerror finds the error of Terraform in the log of a build. Coder itself reports
// only "terraform plan: exit status 1".
//
// Invariant: Cause returns one short line without the source of the template, without the values of
// expressions, and without text that looks like a secret.
package terraformerror

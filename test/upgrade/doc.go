// Package upgrade holds the custom resource definitions to what an upgrade needs:
// an object that the previous release took is valid here, no field of it gets lost,
// and the previous release can read it again. The file previous names the commit and
// the tag of that release; whoever makes a release sets it to that one. test/e2e goes
// from there to here and back on a cluster.
//
// Invariant: a change that an object can be refused or lose something for is found,
// and only a clone without that commit skips the comparison.
package upgrade

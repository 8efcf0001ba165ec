// Package status implements kubectl coder status, which shows the state of Coder on the cluster on
// one screen: problems, and since when they exist.
//
// A Report is collected with the user's permissions. It lists everything that could not be read, so
// that missing permissions do not look like the absence of problems.
package status

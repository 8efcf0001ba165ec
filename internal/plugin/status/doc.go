// Package status owns kubectl coder status: one screen that says how Coder is on the
// cluster, what is wrong and since when.
//
// A Report is gathered with the rights of the caller. What could not be looked at is
// named in it, so that "nothing is wrong" is never said of what was not seen.
package status

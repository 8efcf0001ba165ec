// Package scheme builds the scheme with which the aggregated API server encodes and decodes
// objects.
//
// Invariant: the served types are their own internal version. So there are no conversions that
// could lose a field.
package scheme

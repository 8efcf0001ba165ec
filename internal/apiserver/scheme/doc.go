// Package scheme makes the scheme by which the aggregated API server reads and
// writes objects.
//
// Invariant: the served types are their own internal version, so there are no
// conversions and none can lose a field.
package scheme

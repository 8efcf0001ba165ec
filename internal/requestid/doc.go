// Package requestid owns the id by which one request is found in every log that it
// leaves a line in: that of kube-apiserver (as Audit-ID), of the MCP server, of the
// aggregated API and of Coder.
//
// Invariants: an id is a short word that can stand in a header, in a log and in a
// sentence as it is; what a client chose is made one. An id is not a secret and
// gives no right.
package requestid

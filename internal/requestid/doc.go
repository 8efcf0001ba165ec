// Package requestid handles the ID with which a request can be found in all logs: those of
// kube-apiserver (as Audit-ID), of the MCP server, of the aggregated API and of Coder.
//
// Invariants: an ID is a short word that is valid in a header, in a log and in a sentence
// without escaping; IDs from clients are converted to that form. An ID is not a secret and
// grants nothing.
package requestid

// Package tracing creates OpenTelemetry traces: it configures the exporter, defines the
// content of spans, and propagates traces between processes. It also handles the ID with
// which a request can be found in all logs: those of kube-apiserver (as Audit-ID), of the
// MCP server, of the aggregated API and of Coder.
//
// A trace begins (Begin) with a request to the aggregated API, a call of the MCP server or
// a reconciliation. All other code adds spans to the trace of its context (Start, Wrap).
// docs/how-to/trace-a-request.md lists all spans. Without a trace in the context this has
// almost no cost; background requests, such as the watches of caches, are not traced.
//
// Invariants:
//   - A nil *Provider means that tracing is disabled. No global provider is set.
//   - Spans contain no secrets: no headers, queries, bodies or values of parameters.
//     Queries in spans of libraries are removed before export.
//   - The sampling ratio limits what this process exports, whatever a caller requests.
//     Processes with the same ratio sample the same traces.
//   - If the collector is slow or unavailable, spans are lost, but nothing is blocked,
//     and the log reports it at most once a minute.
//   - A request ID is a short word that is valid in a header, in a log and in a sentence
//     without escaping; IDs from clients are converted to that form. It is not a secret and
//     grants nothing.
package tracing

// Package tracing owns the traces of OpenTelemetry: whether there are any, what is
// in a span, how a trace goes from one process to the next, and how it reaches the
// collector.
//
// A trace begins (Begin) with a request to the aggregated API, a call of the MCP
// server or a reconcile pass. Everything below adds to the trace of its context
// (Start, Transport), and costs next to nothing where there is none: requests that
// nobody waits for, such as watches of the caches, are in no trace.
//
// Invariants:
//   - A nil *Provider is tracing switched off. Nothing global is set.
//   - No span tells a secret: no header, no query, no body, no value of a parameter.
//     What libraries put into spans loses its query before it leaves the process.
//   - The sampling ratio bounds what leaves this process, whatever a caller asks
//     for. Processes with one ratio keep the same traces.
//   - A collector that is slow, full or gone costs spans and nothing else: nobody
//     waits for it, and the log tells of it once a minute at most.
package tracing

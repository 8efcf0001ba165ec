// Package gate owns the steps over HTTP that a request passes before the
// protocol sees it.
//
// Every request: request id and access log, recovery from a panic, size limit and
// read deadline, Host check. A request to the protocol also: Origin check, a place
// among the requests in flight, authentication (which is handed in), and the limits
// of its user.
//
// Invariants:
//   - No token, no header and no query is ever logged, and the request id is the
//     server's own: what a client calls itself goes nowhere.
//   - A request is refused by the cheapest step that can tell: nobody's body is
//     read, and nobody's token is looked at, before its Host and Origin are known to
//     be good.
//   - An answer that is a stream says something at least every 15 seconds once it
//     has begun, and a client that does not read is dropped after 30.
package gate

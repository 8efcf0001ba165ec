// Package coderd talks to the API of one Coder deployment. It is the only
// package that imports Coder's own client, and no type of that client leaves it.
//
// Invariants:
//
//   - Every method fails with an *Error. A status code in it means that Coder
//     itself answered. Whatever a proxy, an ingress or a load balancer answers
//     in Coder's place has the status code 0, as a connection that failed has,
//     because a "not found" that Coder did not say must never be believed: it
//     would delete objects.
//   - The session token is sent in a header and appears nowhere else, and so do
//     provisioner keys and the tokens of workspace proxies. Redirects are not
//     followed, since they would carry the token to another address.
//   - A part of the API that this Coder does not have is IsNotSupported, which is
//     neither "not found" nor an outage. What it has but no license for is
//     IsNotEntitled.
//   - Each request is one line in the log of its context and one span in its trace,
//     both without the path, in which a key may stand. Coder's client gets no logger
//     and no tracing.
//   - The request id of the context goes with each request, in a header and in the
//     User-Agent, which is what Coder logs.
//   - Reads see what Coder holds at that moment; nothing is cached.
package coderd

// Package coderd is the client for the API of one Coder deployment. In production code, only this
// package and internal/coderd/agents import Coder's own client library. No exported function
// returns a type of that library; only WithSDK provides its client, for internal/coderd/agents.
//
// Invariants:
//
//   - Every method fails with an *Error. A status code in it means that Coder itself responded. A
//     response from a proxy, an ingress or a load balancer in front of Coder has the status code 0,
//     like a failed connection. A "not found" that does not come from Coder would otherwise lead to
//     the deletion of objects.
//   - The session token is sent only in a header, and so are provisioner keys and the tokens of
//     workspace proxies. Redirects are not followed, because they would send the token to another
//     address.
//   - A client for a URL that the author of an object chose (Config.Restricted) connects to no address that means another machine
//     for the operator than for the author.
//   - IsNotSupported reports that this Coder does not have the called part of the API. It is
//     neither "not found" nor an outage. IsNotEntitled reports that the license does not include
//     it.
//   - Each request writes one line to the log of its context and one span to its trace. Neither
//     contains the path, because a path may contain a key. Coder's client library gets no logger
//     and no tracing.
//   - The request id of the context is sent with each request, in a header and in the User-Agent,
//     which Coder logs.
//   - Reads return the current state of Coder; nothing is cached.
package coderd

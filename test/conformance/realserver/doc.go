// Package realserver runs what the world has for the Model Context Protocol
// against the real server: the official conformance suite, the inspector, both
// TypeScript clients and a Go client of other people.
//
// hack/conformance/run.sh installs the clients and calls this package with the
// build tag conformance. The program is the one that users run, beside a real
// etcd and kube-apiserver with the roles that users apply, and a test server in
// the place of Coder. Clients send the token of a ServiceAccount.
//
// Invariants: each client finds objects of its own, so that none sees what
// another did; each process that is started ends with the tests; everything that
// is waited for has a deadline.
package realserver

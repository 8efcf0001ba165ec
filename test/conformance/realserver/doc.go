// Package realserver runs existing clients of the Model Context Protocol against
// the real server: the official conformance suite, the inspector, both
// TypeScript clients and a third-party Go client.
//
// test/conformance/run.sh installs the clients and calls this package with the
// build tag conformance. The program is the one that users run, beside a real
// etcd and kube-apiserver with the roles that users apply, and a test server in
// the place of Coder. Clients send the token of a ServiceAccount.
//
// Invariants: each client has its own objects, so that clients do not affect
// each other; each process ends with the tests; each wait has a deadline.
package realserver

// Package kubetest provides the clusters of tests. Only tests, packages that support tests, and
// test/testcluster import it.
//
//   - Kinds: controller-runtime's fake client, which handles server-side apply like an API server.
//   - Fixture: such a cluster with a clock and a process whose writes are recorded and may fail.
//   - Fault and EachStep: a crash at each write and request of a process, once before the server
//     receives it, and once after. A test can then continue with a new process. A single write or
//     request can also fail in a process that continues.
//   - Start and Shared: a real etcd and kube-apiserver, for one test, or shared with the tests of
//     other packages.
//   - FreePort: a port for a program that a test starts.
//   - RaceEnabled and SkipWithRace: what a test leaves out with the race detector.
//   - Objects, Installation and Kustomize: the objects in manifests.
package kubetest

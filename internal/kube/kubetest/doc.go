// Package kubetest owns how a test gets a real etcd and kube-apiserver: its own, or the
// one that it shares with the tests of other packages. Only tests, and hack/testcluster,
// import it.
package kubetest

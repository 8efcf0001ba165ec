// Package kubetest provides a real etcd and kube-apiserver for a test: its own, or one that it
// shares with the tests of other packages. Only tests and hack/testcluster import it.
package kubetest

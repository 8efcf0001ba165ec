// Package kubetest owns how a test gets a real etcd and kube-apiserver of its own.
// Only tests import it.
package kubetest

package app

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
)

const (
	podNamespaceEnv           = "POD_NAMESPACE"
	serviceAccountNamespace   = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	namespaceOutsideOfCluster = "kube-system"
)

// podNamespace returns the namespace of the pod, or kube-system if it is unknown.
func podNamespace(getenv func(string) string, readFile func(string) ([]byte, error)) string {
	if namespace := strings.TrimSpace(getenv(podNamespaceEnv)); namespace != "" {
		return namespace
	}
	if raw, err := readFile(serviceAccountNamespace); err == nil {
		if namespace := strings.TrimSpace(string(raw)); namespace != "" {
			return namespace
		}
	}
	return namespaceOutsideOfCluster
}

func ownNamespace() string { return podNamespace(os.Getenv, os.ReadFile) }

// inCluster reports whether the process runs in a pod. Kubernetes sets this variable in
// every container.
func inCluster(getenv func(string) string) bool { return getenv("KUBERNETES_SERVICE_HOST") != "" }

const (
	podNameEnv = "POD_NAME"
	podIPEnv   = "POD_IP"
)

// podIPv6 reports whether the primary address of pods in this cluster is an IPv6 address.
// It checks the address of the operator's own pod, and returns false if that is unknown.
func podIPv6(getenv func(string) string) bool {
	ip, err := netip.ParseAddr(strings.TrimSpace(getenv(podIPEnv)))
	return err == nil && ip.Is6() && !ip.Is4In6()
}

// ownIdentity returns a unique name of this process: the name of its pod, or the host name
// with the process ID.
func ownIdentity() string {
	if name := strings.TrimSpace(os.Getenv(podNameEnv)); name != "" {
		return name
	}
	host, err := os.Hostname()
	if err != nil {
		host = "coder-k8s"
	}
	return fmt.Sprintf("%s-%d", strings.ToLower(host), os.Getpid())
}

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

// podNamespace is the namespace that the process runs in, as far as it can tell.
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

// inCluster says whether the process runs in a pod: Kubernetes gives every
// container this variable.
func inCluster(getenv func(string) string) bool { return getenv("KUBERNETES_SERVICE_HOST") != "" }

const (
	podNameEnv = "POD_NAME"
	podIPEnv   = "POD_IP"
)

// podIPv6 reports whether the first address of pods in this cluster is one of IPv6:
// that of the operator's own pod is. Outside of a cluster it is not known, and false.
func podIPv6(getenv func(string) string) bool {
	ip, err := netip.ParseAddr(strings.TrimSpace(getenv(podIPEnv)))
	return err == nil && ip.Is6() && !ip.Is4In6()
}

// ownIdentity tells this process from all others: the name of its pod, or the
// host's with the number of the process.
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

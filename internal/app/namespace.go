package app

import (
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

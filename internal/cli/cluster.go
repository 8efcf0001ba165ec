package cli

import (
	"fmt"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
)

// Cluster is what the flags and the kubeconfig name, for a command that calls itself
// userAgent. Nothing is sent yet.
func Cluster(flags *genericclioptions.ConfigFlags, userAgent string) (*rest.Config, error) {
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	// A person waits, and asks one thing at a time.
	config.UserAgent, config.QPS, config.Burst = userAgent, 50, 100
	return config, nil
}

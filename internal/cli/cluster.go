package cli

import (
	"fmt"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
)

// Cluster returns the configuration for the cluster that the flags and the kubeconfig
// select. It sends no request.
func Cluster(flags *genericclioptions.ConfigFlags, userAgent string) (*rest.Config, error) {
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	// A command is interactive and sends few concurrent requests.
	config.UserAgent, config.QPS, config.Burst = userAgent, 50, 100
	return config, nil
}

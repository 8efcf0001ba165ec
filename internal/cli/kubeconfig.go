package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Kubeconfig is the kubeconfig of a command, and the flags of kubectl that select a
// cluster, an account and a namespace.
type Kubeconfig struct {
	Files *clientcmd.ClientConfigLoadingRules
	// Flags contain only what was given on the command line.
	Flags clientcmd.ConfigOverrides
}

// NewKubeconfig returns the default kubeconfig: the files in KUBECONFIG, or ~/.kube/config.
func NewKubeconfig() *Kubeconfig {
	return &Kubeconfig{Files: clientcmd.NewDefaultClientConfigLoadingRules()}
}

// AddFlags adds the flags of kubectl.
func (k *Kubeconfig) AddFlags(flags *pflag.FlagSet) {
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	// kube-apiserver has no basic authentication.
	names.AuthOverrideFlags.Username.LongName, names.AuthOverrideFlags.Password.LongName = "", ""
	clientcmd.BindOverrideFlags(&k.Flags, flags, names)
	flags.StringVar(&k.Files.ExplicitPath, clientcmd.RecommendedConfigPathFlag, "", "Path to the kubeconfig file to use for CLI requests.")
	flags.Func("as-user-extra", "User extras to impersonate for the operation, as `KEY=VALUE`. This flag can be repeated to specify multiple values for the same key.", func(text string) error {
		key, value, found := strings.Cut(text, "=")
		if !found {
			return errors.New("must be KEY=VALUE")
		}
		extra := &k.Flags.AuthInfo.ImpersonateUserExtra
		if *extra == nil {
			*extra = map[string][]string{}
		}
		(*extra)[key] = append((*extra)[key], value)
		return nil
	})
}

// Loader returns the merged kubeconfig. It reads the files when it is used first.
func (k *Kubeconfig) Loader() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(k.Files, &k.Flags)
}

// Cluster returns the configuration for the selected cluster; in a pod without a kubeconfig,
// that is the pod's cluster. It sends no request.
func (k *Kubeconfig) Cluster(userAgent string) (*rest.Config, error) {
	config, err := k.Loader().ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("finding the cluster: no cluster is configured in %s; give a kubeconfig with --kubeconfig or KUBECONFIG", strings.Join(k.Files.GetLoadingPrecedence(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	// A command is interactive and sends few concurrent requests.
	config.UserAgent, config.QPS, config.Burst = userAgent, 50, 100
	return config, nil
}

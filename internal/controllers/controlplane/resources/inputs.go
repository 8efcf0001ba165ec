package resources

// DefaultClusterDomain is the DNS domain of most clusters.
const DefaultClusterDomain = "cluster.local"

// Inputs is what a child needs and the spec does not hold: the reconciler looks
// it up first.
type Inputs struct {
	// ClusterDomain is the cluster's DNS domain. Empty means cluster.local.
	ClusterDomain string
	// EnvFromNames are the names of the variables that spec.envFrom brings.
	EnvFromNames map[string]bool
}

func (in Inputs) clusterDomain() string {
	if in.ClusterDomain == "" {
		return DefaultClusterDomain
	}
	return in.ClusterDomain
}

package buildinfo

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coder-k8s/coder-k8s/internal/kube/collector"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

// Register registers the metric with the version of the process.
func Register(registerer prometheus.Registerer) error {
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "coder_k8s_build_info",
		Help: "1, with the version, the commit and the Go version that the program was built from.",
	}, []string{"version", "commit", "go_version"})
	if err := collector.Register(registerer, &info); err != nil {
		return err
	}
	info.WithLabelValues(version.Version(), version.Commit(), version.Go()).Set(1)
	return nil
}

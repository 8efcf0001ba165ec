package resources

import (
	"strings"
	"testing"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// The hashes are literals, because workloads of the public predecessor have objects with these
// names.
func TestNames(t *testing.T) {
	long := strings.Repeat("a", 80)
	for name, c := range map[string]struct {
		got, want string
		limit     int
	}{
		"short enough":        {coderv1alpha1.ShortName("provisioner-", "build", "", 63), "provisioner-build", 63},
		"provisioner":         {coderv1alpha1.ShortName("provisioner-", long, "", 63), "provisioner-" + long[:42] + "-" + Hash(long), 63},
		"proxy":               {coderv1alpha1.ShortName("wsproxy-", long, "", 63), "wsproxy-" + long[:46] + "-" + Hash(long), 63},
		"token":               {coderv1alpha1.ShortName("", long, "-operator-token", 63), long[:39] + "-" + Hash(long) + "-operator-token", 63},
		"instance":            {coderv1alpha1.SuffixedName(long, ""), long[:54] + "-" + Hash(long), 63},
		"hash":                {Hash("coder", "coder"), "84e8e53b", 8},
		"scoped":              {ScopedName("coder", Hash("coder", "coder"), "-workspace-perms"), "coder-84e8e53b-workspace-perms", 253},
		"scoped, long":        {ScopedName(strings.Repeat("s", 253), "84e8e53b", "-workspace-perms"), strings.Repeat("s", 228) + "-84e8e53b-workspace-perms", 253},
		"scoped, no name":     {ScopedName(strings.Repeat("-", 253), "84e8e53b", ""), "workspace-84e8e53b", 253},
		"volume":              {volumeName("tls", "web-tls"), "tls-web-tls", 63},
		"volume, not a label": {volumeName("tls", "Wild.Example"), "tls-wild-example-b09ec25e", 63},
		"volume, too long":    {volumeName("ca-cert", long), "ca-cert-" + strings.Repeat("a", 46) + "-6882be9a", 63},
		"metrics":             {MetricsServiceName(Workload{Name: "coder"}), "coder-metrics", 63},
		"metrics, long":       {MetricsServiceName(Workload{Name: long[:63]}), long[:46] + "-" + Hash(long[:63]) + "-metrics", 63},
		"metrics, dots":       {MetricsServiceName(Workload{Name: "provisioner-a.b"}), "provisioner-a-b-" + Hash("provisioner-a.b") + "-metrics", 63},
	} {
		if c.got != c.want {
			t.Errorf("%s is %q, want %q", name, c.got, c.want)
		}
		if len(c.got) > c.limit {
			t.Errorf("%s has %d characters, want %d at most", name, len(c.got), c.limit)
		}
	}
}

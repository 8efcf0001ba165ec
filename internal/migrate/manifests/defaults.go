package manifests

import (
	_ "embed"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/coder-k8s/coder-k8s/internal/migrate/values"
)

//go:embed coder.yaml
var coderDefaults []byte

//go:embed coder-provisioner.yaml
var provisionerDefaults []byte

// defaults returns the chart's default values that the conversion uses.
func defaults(chart string) values.Set {
	raw := coderDefaults
	if chart == ChartProvisioner {
		raw = provisionerDefaults
	}
	content := map[string]any{}
	if err := yaml.Unmarshal(raw, &content); err != nil {
		panic(fmt.Sprintf("bug: the defaults of the chart %s cannot be read: %v", chart, err))
	}
	return values.Of("defaults of the chart "+chart, content)
}

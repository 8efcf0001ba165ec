package installation

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/version"
)

// The oldest minor versions of Kubernetes 1.x that are supported.
const (
	// oldestMinor is for the controllers alone, which need ValidatingAdmissionPolicy.
	oldestMinor = 34
	// oldestMinorAggregatedAPI is the first version with MutatingAdmissionPolicy, which the
	// aggregated API evaluates for every write.
	oldestMinorAggregatedAPI = 36
	// oldestMinorMCP is the first version with constrained impersonation.
	oldestMinorMCP = 36
)

// kubernetes checks the version of the cluster.
func (c *checker) kubernetes(context.Context) ([]Problem, error) {
	v, err := c.discovery.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("asking kube-apiserver for its version: %w", err)
	}
	return tooOld(v, c.want), nil
}

func tooOld(v *version.Info, want Expectation) []Problem {
	// Some vendors append a plus sign to the minor version.
	minor, err := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	if err != nil || v.Major != "1" {
		return nil
	}
	object := fmt.Sprintf("Kubernetes 1.%d", minor)
	var problems []Problem
	add := func(what, do string) {
		problems = append(problems, Problem{Object: object, What: what, Do: do})
	}
	if minor < oldestMinor {
		add("is too old", fmt.Sprintf("update the cluster to 1.%d or later", oldestMinorAggregatedAPI))
		return problems
	}
	if want.AggregatedAPI && minor < oldestMinorAggregatedAPI {
		add("does not serve MutatingAdmissionPolicies, without which the aggregated API accepts no writes",
			fmt.Sprintf("update the cluster to 1.%d or later, or start the operator with --disable-admission-plugins=MutatingAdmissionPolicy",
				oldestMinorAggregatedAPI))
	}
	if want.MCP && minor < oldestMinorMCP {
		add("has no constrained impersonation, with which the MCP server acts as its callers",
			fmt.Sprintf("update the cluster to 1.%d or later, or apply config/legacy-impersonation after reading what it grants", oldestMinorMCP))
	}
	return problems
}

package supportbundle

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/coder-k8s/coder-k8s/internal/installation"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

// reachable returns an error if kube-apiserver does not respond. Any response is
// sufficient, including an error.
func (c *collector) reachable() error {
	_, err := c.kube.Discovery().ServerVersion()
	var status apierrors.APIStatus
	if err == nil || errors.As(err, &status) {
		return nil
	}
	return fmt.Errorf("kube-apiserver at %s does not answer, so there is no archive; look at your kubeconfig: %w", c.config.Host, err)
}

// versions collects the versions of this program and of the cluster.
func (c *collector) versions(context.Context) {
	out := map[string]any{"program": version.String(), "collectedAt": c.now().UTC().Format("2006-01-02T15:04:05Z")}
	server, err := c.kube.Discovery().ServerVersion()
	if err != nil {
		c.leave("the version of Kubernetes", err)
	} else {
		out["kubernetes"] = server
	}
	groups, err := c.kube.Discovery().ServerGroups()
	if err != nil {
		c.leave("the API groups of the cluster", err)
	} else {
		var names []string
		for _, group := range groups.Groups {
			for _, v := range group.Versions {
				names = append(names, v.GroupVersion)
			}
		}
		out["apis"] = names
	}
	c.addYAML("versions.yaml", out)
	c.describe("versions.yaml", "versions of this program and of Kubernetes, and the APIs of the cluster")
}

// problems collects the problems of the installation.
func (c *collector) problems(ctx context.Context) {
	found, err := c.check(ctx, c.config, installation.Expectation{
		Namespace: c.operatorNamespace, Controllers: true, AggregatedAPI: true, MCP: true,
	})
	if err != nil {
		c.leave("the problems of the installation", err)
		return
	}
	if found == nil {
		found = []installation.Problem{}
	}
	c.addYAML("problems.yaml", map[string]any{"problems": found})
	c.describe("problems.yaml", "what is wrong with the installation, as kubectl coder status tells it; an empty list is good")
}

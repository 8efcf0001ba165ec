package tools

import (
	"context"
	"encoding/json"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/access"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

const (
	// versionPath and aggregatedPath are what everybody may read who is known to the
	// cluster.
	versionPath    = "/version"
	aggregatedPath = "/apis/" + aggregationGroup + "/v1alpha1"
	// maxDiscovery is more than either of them has.
	maxDiscovery = 64 << 10
	// maxHealth is how many control planes are looked at.
	maxHealth = 50

	statusOK       = "ok"
	statusDegraded = "degraded"
)

func addCheckHealth(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "check_health", Title: "Health",
		Description: "Says who you are, which APIs answer and which control planes are not ready.",
		Toolset:     toolset.Observation, Effect: toolset.Reads, Idempotent: true,
		Uses: []access.Right{access.Coder("list", controlPlanePlural), {Verb: "get", Resource: versionPath}, {Verb: "get", Resource: aggregatedPath}},
	}, checkHealth)
}

type checkHealthInput struct {
	Namespace string `json:"namespace,omitempty"`
}

// health is degraded where something that could be looked at does not work. Gaps
// are what could not be looked at, and why.
type health struct {
	Status        string              `json:"status"`
	Version       string              `json:"version"`
	Caller        caller              `json:"caller"`
	Cluster       clusterHealth       `json:"cluster"`
	ControlPlanes controlPlanesHealth `json:"controlPlanes"`
	Gaps          []string            `json:"gaps"`
}

// caller is as whom the tools act.
type caller struct {
	User   string   `json:"user"`
	Groups []string `json:"groups"`
}

type clusterHealth struct {
	Version string `json:"version,omitempty"`
	// AggregatedAPI is available, unavailable, not installed, or unknown.
	AggregatedAPI string `json:"aggregatedAPI"`
}

// controlPlanesHealth is about the first control planes that the caller may see.
type controlPlanesHealth struct {
	Seen      int            `json:"seen"`
	NotReady  []controlPlane `json:"notReady"`
	Truncated bool           `json:"truncated"`
}

func checkHealth(ctx context.Context, call *toolset.Call, in checkHealthInput) (health, error) {
	h := health{Status: statusOK, Version: version.Version(), Gaps: []string{}}
	h.Caller.Groups, h.ControlPlanes.NotReady = []string{}, []controlPlane{}
	if u, ok := request.UserFrom(ctx); ok {
		h.Caller.User, h.Caller.Groups = u.GetName(), append(h.Caller.Groups, u.GetGroups()...)
	}
	h.lookAtCluster(ctx, call.Kube)
	h.lookAtAggregatedAPI(ctx, call.Kube)
	h.lookAtControlPlanes(ctx, call.Kube, in.Namespace)
	return h, ctx.Err()
}

func (h *health) lookAtCluster(ctx context.Context, kube *callers.Kube) {
	var info struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := readJSON(ctx, kube, versionPath, &info); err != nil {
		h.miss(ctx, &toolset.CallError{Verb: "get", Resource: versionPath, Err: err})
		return
	}
	h.Cluster.Version = excerpt(info.GitVersion)
}

// lookAtAggregatedAPI reads the discovery of the API of workspaces and templates,
// which Kubernetes fetches from its server.
func (h *health) lookAtAggregatedAPI(ctx context.Context, kube *callers.Kube) {
	var discovery struct {
		GroupVersion string `json:"groupVersion"`
	}
	err := readJSON(ctx, kube, aggregatedPath, &discovery)
	switch {
	case err == nil && discovery.GroupVersion == aggregationv1alpha1.GroupVersion.String():
		h.Cluster.AggregatedAPI = "available"
	case apierrors.IsForbidden(err):
		h.Cluster.AggregatedAPI = "unknown"
		h.miss(ctx, &toolset.CallError{Verb: "get", Resource: aggregatedPath, Err: err})
	case apierrors.IsNotFound(err):
		h.Status, h.Cluster.AggregatedAPI = statusDegraded, "not installed"
	default:
		h.Status, h.Cluster.AggregatedAPI = statusDegraded, "unavailable"
	}
}

// lookAtControlPlanes names those that are not ready.
func (h *health) lookAtControlPlanes(ctx context.Context, kube *callers.Kube, namespace string) {
	var list coderv1alpha1.CoderControlPlaneList
	if err := kube.List(ctx, &list, &client.ListOptions{Namespace: namespace, Limit: maxHealth}); err != nil {
		h.miss(ctx, &toolset.CallError{Verb: "list", Resource: controlPlanePlural, Namespace: namespace, Err: err})
		return
	}
	items := list.Items[:min(len(list.Items), maxHealth)]
	h.ControlPlanes.Seen, h.ControlPlanes.Truncated = len(items), list.Continue != "" || len(items) < len(list.Items)
	for i := range items {
		if items[i].Status.Phase != coderv1alpha1.PhaseReady {
			h.ControlPlanes.NotReady = append(h.ControlPlanes.NotReady, describeControlPlane(&items[i]))
		}
	}
	if len(h.ControlPlanes.NotReady) > 0 {
		h.Status = statusDegraded
	}
}

// miss notes a gap. What the user may not read says nothing of the health.
func (h *health) miss(ctx context.Context, call *toolset.CallError) {
	if !apierrors.IsForbidden(call.Err) || toolset.IsImpersonationDenied(call.Err) {
		h.Status = statusDegraded
	}
	h.Gaps = append(h.Gaps, toolset.Gap(ctx, call))
}

func readJSON(ctx context.Context, kube *callers.Kube, path string, into any) error {
	stream, err := kube.Raw.Get(ctx, path, nil)
	if err != nil {
		return err
	}
	defer stream.Close()
	return json.NewDecoder(io.LimitReader(stream, maxDiscovery)).Decode(into)
}

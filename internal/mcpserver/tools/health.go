package tools

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/diagnosis"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

const (
	// versionPath and aggregatedPath can usually be read by every authenticated user.
	versionPath    = "/version"
	aggregatedPath = "/apis/" + aggregationGroup + "/v1alpha1"
	// maxHealth is the maximum number of objects of each kind that are checked.
	maxHealth = 50
	// maxProblems limits the size of the answer.
	maxProblems = 20

	statusOK       = "ok"
	statusDegraded = "degraded"
	statusUnknown  = "unknown"
)

type checkHealthInput struct {
	Namespace string `json:"namespace,omitempty"`
}

// health is the result of check_health. Status is degraded if a check failed or a control plane is
// not ready, and unknown if no control plane was seen. Problems has the first problem of each object
// that is unhealthy. Gaps lists the checks that could not be made, and why.
type health struct {
	Status        string              `json:"status"`
	Version       string              `json:"version"`
	Caller        caller              `json:"caller"`
	Cluster       clusterHealth       `json:"cluster"`
	ControlPlanes controlPlanesHealth `json:"controlPlanes"`
	Problems      []diagnosis.Problem `json:"problems"`
	Gaps          []string            `json:"gaps"`
}

// caller is the user that the tools impersonate.
type caller struct {
	User   string   `json:"user"`
	Groups []string `json:"groups"`
}

type clusterHealth struct {
	Version string `json:"version,omitempty"`
	// AggregatedAPI is "available", "unavailable", "not installed" or "unknown".
	AggregatedAPI string `json:"aggregatedAPI"`
}

// controlPlanesHealth describes the first maxHealth control planes that the caller can
// list.
type controlPlanesHealth struct {
	Seen      int  `json:"seen"`
	NotReady  int  `json:"notReady"`
	Truncated bool `json:"truncated"`
}

func checkHealth(ctx context.Context, call *toolset.Call, in checkHealthInput) (health, error) {
	h := health{Status: statusOK, Version: version.Version(), Caller: caller{Groups: []string{}}, Problems: []diagnosis.Problem{}, Gaps: []string{}}
	if u, ok := request.UserFrom(ctx); ok {
		h.Caller.User, h.Caller.Groups = u.GetName(), append(h.Caller.Groups, u.GetGroups()...)
	}
	var info struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := call.Kube.ReadJSON(ctx, versionPath, nil, &info); err != nil {
		h.miss(ctx, &toolset.CallError{Verb: "get", Resource: versionPath, Err: err})
	} else {
		h.Cluster.Version = excerpt(info.GitVersion)
	}
	// The Kubernetes API server requests this document from the aggregated API server behind it.
	var discovery struct {
		GroupVersion string `json:"groupVersion"`
	}
	err := call.Kube.ReadJSON(ctx, aggregatedPath, nil, &discovery)
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
	h.lookAtControlPlanes(ctx, call.Kube, in.Namespace)
	h.lookAtOthers(ctx, call.Kube, in.Namespace)
	if len(h.Problems) > maxProblems {
		h.Gaps = append(h.Gaps, fmt.Sprintf("only the first %d of %d unhealthy objects are listed; try a namespace", maxProblems, len(h.Problems)))
		h.Problems = h.Problems[:maxProblems]
	}
	if h.Status == statusOK && h.ControlPlanes.Seen == 0 {
		h.Status = statusUnknown
	}
	return h, ctx.Err()
}

func (h *health) lookAtControlPlanes(ctx context.Context, kube *callers.Kube, namespace string) {
	var list coderv1alpha1.CoderControlPlaneList
	if err := kube.List(ctx, &list, &client.ListOptions{Namespace: namespace, Limit: maxHealth}); err != nil {
		h.miss(ctx, &toolset.CallError{Verb: "list", Resource: controlPlanePlural, Namespace: namespace, Err: err})
		return
	}
	switch {
	case len(list.Items) == 0 && namespace == "":
		h.Gaps = append(h.Gaps, "there is no control plane in any namespace")
	case len(list.Items) == 0:
		h.Gaps = append(h.Gaps, "there is no control plane in namespace "+namespace)
	}
	items := list.Items[:min(len(list.Items), maxHealth)]
	h.ControlPlanes.Seen, h.ControlPlanes.Truncated = len(items), list.Continue != "" || len(items) < len(list.Items)
	for i := range items {
		h.ControlPlanes.NotReady += h.examine("CoderControlPlane", &items[i], items[i].Status.ObservedGeneration, items[i].Status.Conditions)
	}
	if h.ControlPlanes.NotReady > 0 {
		h.Status = statusDegraded
	}
}

// lookAtOthers reads the other objects, of the aggregated API only those that failed. Their problems do
// not degrade the health of the control planes.
func (h *health) lookAtOthers(ctx context.Context, kube *callers.Kube, namespace string) {
	provisioners, proxies := &coderv1alpha1.CoderProvisionerList{}, &coderv1alpha1.CoderWorkspaceProxyList{}
	h.list(ctx, kube, provisioners, provisionerPlural, namespace)
	for i := range provisioners.Items {
		p := &provisioners.Items[i]
		h.examine("CoderProvisioner", p, p.Status.ObservedGeneration, p.Status.Conditions)
	}
	h.list(ctx, kube, proxies, workspaceProxyPlural, namespace)
	for i := range proxies.Items {
		p := &proxies.Items[i]
		h.examine("CoderWorkspaceProxy", p, p.Status.ObservedGeneration, p.Status.Conditions)
	}
	templates, workspaces := &aggregationv1alpha1.CoderTemplateList{}, &aggregationv1alpha1.CoderWorkspaceList{}
	h.list(ctx, kube, templates, templatePlural, namespace, client.MatchingFields{"status.latestVersionStatus": "failed"})
	for i := range templates.Items {
		t := &templates.Items[i]
		h.examine("CoderTemplate", t, t.Status.ObservedGeneration, t.Status.Conditions)
	}
	h.list(ctx, kube, workspaces, workspacePlural, namespace, client.MatchingFields{"status.phase": "Failed"})
	for i := range workspaces.Items {
		w := &workspaces.Items[i]
		h.examine("CoderWorkspace", w, w.Status.ObservedGeneration, w.Status.Conditions)
	}
}

func (h *health) list(ctx context.Context, kube *callers.Kube, list client.ObjectList, plural, namespace string, options ...client.ListOption) {
	if err := kube.List(ctx, list, append(options, client.InNamespace(namespace), client.Limit(maxHealth))...); err != nil {
		h.miss(ctx, &toolset.CallError{Verb: "list", Resource: plural, Namespace: namespace, Err: err})
		return
	}
	if list.GetContinue() != "" {
		h.Gaps = append(h.Gaps, fmt.Sprintf("only the first %d %s were checked, and there are more", maxHealth, plural))
	}
}

// examine records the first problem of an object. It returns 1 if the object is not ready, and 0 otherwise.
func (h *health) examine(kind string, object client.Object, observed int64, conditions []metav1.Condition) int {
	problems := diagnosis.Unhealthy(kind, object, observed, conditions)
	h.Problems = append(h.Problems, problems[:min(len(problems), 1)]...)
	if meta.IsStatusConditionTrue(conditions, coderv1alpha1.ConditionReady) {
		return 0
	}
	return 1
}

// miss records a check that could not be made. Missing permissions of the caller do not
// degrade the health; a server that cannot impersonate the caller does.
func (h *health) miss(ctx context.Context, call *toolset.CallError) {
	if !apierrors.IsForbidden(call.Err) || toolset.IsImpersonationDenied(call.Err) {
		h.Status = statusDegraded
	}
	h.Gaps = append(h.Gaps, toolset.Gap(ctx, call))
}

func addDiagnosis(s *toolset.Set) {
	needs, uses := diagnosis.ControlPlaneRights()
	toolset.Add(s, toolset.Definition{
		Name: "diagnose_control_plane", Title: "Diagnose a control plane",
		Description: "Why a control plane does not work: conditions, pods, events, failing log lines. Begin here.",
		Toolset:     toolset.ControlPlanes, Effect: toolset.Reads, Idempotent: true,
		Rights: needs, Uses: uses,
	}, diagnose(diagnosis.ControlPlane))

	needs, uses = diagnosis.WorkspaceRights()
	toolset.Add(s, toolset.Definition{
		Name: "diagnose_workspace", Title: "Diagnose a workspace",
		Description: "Why a workspace does not start: conditions, build, template, pods, log lines.",
		Toolset:     toolset.Workspaces, Effect: toolset.Reads, Idempotent: true,
		Rights: needs, Uses: uses,
	}, diagnose(diagnosis.Workspace))
}

func diagnose(
	examine func(ctx context.Context, kube *callers.Kube, namespace, name string) (*diagnosis.Report, error),
) func(context.Context, *toolset.Call, objectInput) (diagnosis.Report, error) {
	return func(ctx context.Context, call *toolset.Call, in objectInput) (diagnosis.Report, error) {
		if err := toolset.RequireObject(in.Namespace, in.Name); err != nil {
			return diagnosis.Report{}, err
		}
		report, err := examine(ctx, call.Kube, in.Namespace, in.Name)
		if err != nil {
			return diagnosis.Report{}, err
		}
		return *report, nil
	}
}

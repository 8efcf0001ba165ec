package diagnosis

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// timeLimit limits the time for gathering. Data that was not read by then is a gap.
const timeLimit = 8 * time.Second

// examiner diagnoses objects with the permissions of the caller in the context.
type examiner struct {
	kube *callers.Kube
	// limit is the time limit for gathering.
	limit time.Duration
}

// gathering reads the data in parts that run concurrently.
type gathering struct {
	kube  *callers.Kube
	parts sync.WaitGroup

	mu   sync.Mutex
	gaps []gap
}

// part runs read concurrently with the other parts. Each part must write to its own fields.
func (g *gathering) part(read func()) { g.parts.Go(read) }

// wait waits for all parts, which end at the latest when their context ends, and returns
// the gaps.
func (g *gathering) wait() []gap {
	g.parts.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.SortFunc(g.gaps, compareGaps)
	return slices.Compact(g.gaps)
}

// miss records that something could not be read.
func (g *gathering) miss(ctx context.Context, call *toolset.CallError) {
	g.note(newGap(ctx, call))
}

func (g *gathering) note(missing gap) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gaps = append(g.gaps, missing)
}

// get reads an object. found reports whether it exists; read is false if that is unknown. A
// missing object is not a gap.
func (g *gathering) get(ctx context.Context, obj client.Object, resource string, key client.ObjectKey) (found, read bool) {
	err := g.kube.Get(ctx, key, obj)
	if err == nil || apierrors.IsNotFound(err) {
		return err == nil, true
	}
	g.miss(ctx, &toolset.CallError{Verb: "get", Resource: resource, Namespace: key.Namespace, Name: key.Name, Err: err})
	return false, false
}

// list reads the first objects of a list. An empty namespace means all namespaces.
func (g *gathering) list(ctx context.Context, list client.ObjectList, resource, namespace string, most int64, options ...client.ListOption) {
	options = append(options, client.InNamespace(namespace), client.Limit(most))
	if err := g.kube.List(ctx, list, options...); err != nil {
		g.miss(ctx, &toolset.CallError{Verb: "list", Resource: resource, Namespace: namespace, Err: err})
		return
	}
	if list.GetContinue() != "" {
		g.note(gap{resource, fmt.Sprintf("only the first %d %s were checked, and there are more", most, resource)})
	}
}

// The resources that are read.
const (
	controlPlanes = "codercontrolplanes"
	provisioners  = "coderprovisioners"
	workspaces    = "coderworkspaces"
	templates     = "codertemplates"
	deployments   = "deployments"
	replicaSets   = "replicasets"
	pods          = "pods"
	podLogs       = "pods/log"
	events        = "events"
	workspaceLogs = "coderworkspaces/log"
	templateLogs  = "codertemplates/log"
)

// ControlPlaneRights returns the permissions that ControlPlane needs, and those that make
// its report more complete.
func ControlPlaneRights() (needs, uses []callers.Right) {
	return []callers.Right{callers.CoderRight("get", controlPlanes)}, append(podRights(),
		callers.Right{Verb: "get", Group: "apps", Resource: deployments},
		callers.CoderRight("list", provisioners), callers.AggregatedRight("list", templates), callers.AggregatedRight("get", templateLogs))
}

// WorkspaceRights returns the permissions that Workspace needs, and those that make its
// report more complete.
func WorkspaceRights() (needs, uses []callers.Right) {
	return []callers.Right{callers.AggregatedRight("get", workspaces)}, append(podRights(),
		callers.CoderRight("get", controlPlanes), callers.CoderRight("list", controlPlanes), callers.CoderRight("list", provisioners),
		callers.AggregatedRight("get", templates), callers.AggregatedRight("get", workspaceLogs), callers.AggregatedRight("get", templateLogs))
}

// podRights returns the permissions to find out why pods do not run.
func podRights() []callers.Right {
	return []callers.Right{
		{Verb: "list", Resource: pods}, {Verb: "get", Resource: podLogs}, {Verb: "list", Resource: events},
		{Verb: "list", Group: "apps", Resource: replicaSets},
	}
}

func isTrue(all []metav1.Condition, kind string) bool { return meta.IsStatusConditionTrue(all, kind) }

// findCondition returns the condition, or an empty one if there is none.
func findCondition(all []metav1.Condition, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(all, kind); c != nil {
		return *c
	}
	return metav1.Condition{Type: kind}
}

// proof formats a condition as evidence.
func proof(c metav1.Condition) string {
	return evidence("condition " + c.Type + "=" + string(c.Status) + ", " + c.Reason + ": " + c.Message)
}

func describeConditions(all []metav1.Condition) []Condition {
	described := make([]Condition, 0, len(all))
	for _, c := range all {
		described = append(described, Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: oneLine(c.Message, longestMessage)})
	}
	return described
}

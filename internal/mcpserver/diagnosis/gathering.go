package diagnosis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// timeLimit limits the time for gathering. Data that was not read by then is a gap.
const timeLimit = 8 * time.Second

// gathering reads the data in parts that run concurrently. Each part must write to its own
// fields.
type gathering struct {
	kube  *callers.Kube
	parts sync.WaitGroup

	mu   sync.Mutex
	gaps []gap
}

type gap struct {
	resource string
	// sentence names the object and the reason.
	sentence string
}

// wait waits for all parts, which end at the latest when their context ends, and returns
// the gaps.
func (g *gathering) wait() []gap {
	g.parts.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.SortFunc(g.gaps, func(a, b gap) int {
		return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.sentence, b.sentence))
	})
	return slices.Compact(g.gaps)
}

// miss adds a gap for an error of a request, and none for nil.
func (g *gathering) miss(ctx context.Context, err error) {
	var call *toolset.CallError
	if errors.As(err, &call) {
		g.note(gap{call.Resource, toolset.Gap(ctx, call)})
	}
}

func (g *gathering) note(missing gap) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gaps = append(g.gaps, missing)
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
		callers.CoderRight("list", provisioners), callers.AggregatedRight("list", templates), callers.AggregatedRight("get", templateLogs))
}

// WorkspaceRights returns the permissions that Workspace needs, and those that make its
// report more complete.
func WorkspaceRights() (needs, uses []callers.Right) {
	return []callers.Right{callers.AggregatedRight("get", workspaces)}, append(podRights(),
		callers.CoderRight("get", controlPlanes), callers.CoderRight("list", controlPlanes), callers.CoderRight("list", provisioners),
		callers.AggregatedRight("list", templates), callers.AggregatedRight("get", templates),
		callers.AggregatedRight("get", workspaceLogs), callers.AggregatedRight("get", templateLogs))
}

// podRights returns the permissions to find out why pods do not run.
func podRights() []callers.Right {
	return []callers.Right{
		{Verb: "list", Resource: pods}, {Verb: "get", Resource: podLogs}, {Verb: "list", Resource: events},
		{Verb: "list", Group: "apps", Resource: replicaSets},
	}
}

const mostProvisioners = 50

// provisionersOf returns the first problem of each of the CoderProvisioners in a namespace that reference the
// control plane.
func (g *gathering) provisionersOf(ctx context.Context, namespace, controlPlane string) []Problem {
	list := &coderv1alpha1.CoderProvisionerList{}
	g.list(ctx, list, provisioners, namespace, mostProvisioners)
	var found []Problem
	for i := range list.Items {
		p := &list.Items[i]
		if p.Spec.ControlPlaneRef != nil && p.Spec.ControlPlaneRef.Name == controlPlane {
			problems := Unhealthy("CoderProvisioner", p, p.Status.ObservedGeneration, p.Status.Conditions)
			found = append(found, problems[:min(len(problems), 1)]...)
		}
	}
	return found
}

const (
	readLogLines  = 60
	shownLogLines = 15
	// logBytes limits the size of a log that is read, and shownLogBytes of one in a report.
	logBytes      = 16 << 10
	shownLogBytes = 2 << 10
)

// buildLog returns the error in the build log of a workspace or template, or the last lines of a
// log without an error of Terraform. A missing log is a gap, because buildLog is only called if
// there was a build.
func (g *gathering) buildLog(ctx context.Context, where, resource, namespace, name string, query url.Values) []Log {
	text, _, err := toolset.Aggregated(resource, namespace, name, "log", query).Tail(ctx, g.kube, readLogLines, logBytes)
	g.miss(ctx, err)
	if text == "" {
		return nil
	}
	block := redaction.TerraformError(func(yield func(stage, line string) bool) {
		for line := range strings.Lines(text) {
			// A line begins with its time and its stage: 2026-11-20T12:00:00Z [Planning].
			stage, output, found := strings.Cut(line, "] ")
			if _, name, isBuild := strings.Cut(stage, " ["); found && isBuild {
				stage, line = name, output
			}
			if !yield(stage, line) {
				return
			}
		}
	})
	if len(block) > 0 {
		return []Log{{Where: where, Text: redaction.Truncate(strings.Join(block, "\n"), shownLogBytes)}}
	}
	return []Log{{Where: where, Text: lastLines(text)}}
}

func lastLines(text string) string {
	end, _, _ := toolset.ReadTail(strings.NewReader(text), shownLogLines, shownLogBytes)
	return strings.TrimSpace(end)
}

package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/installation"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

// timeout bounds one look at one kind, so that an API that hangs does not hide the
// others.
const timeout = 15 * time.Second

// gathering makes one report.
type gathering struct {
	cluster   *session.Cluster
	namespace string

	mu       sync.Mutex
	report   *Report
	absent   []installation.Problem
	failures []error
}

// gather looks at everything at once. The error is that nothing could be seen.
func (r *run) gather(ctx context.Context, c *session.Cluster) (*Report, error) {
	if err := c.Reach(ctx); err != nil {
		return nil, err
	}
	g := &gathering{cluster: c, namespace: c.Namespace, report: &Report{
		ControlPlanes: []Workload{}, Provisioners: []Workload{}, WorkspaceProxies: []Workload{}, Problems: []installation.Problem{},
	}}
	if r.everywhere {
		g.namespace = ""
	}
	g.report.Namespace = g.namespace
	var broken []installation.Problem
	looks := []func(context.Context) error{g.controlPlanes, g.provisioners, g.proxies, g.templates, g.workspaces}
	if r.installation {
		looks = append(looks, func(ctx context.Context) error {
			var err error
			broken, err = r.Check(ctx, c.Config, r.expectation())
			if err != nil {
				err = fmt.Errorf("the installation: %w", err)
			}
			return err
		})
	}
	g.all(ctx, looks)
	if len(g.failures) == len(looks) {
		return nil, errors.Join(g.failures...)
	}
	g.finish(broken)
	return g.report, nil
}

func (r *run) expectation() installation.Expectation {
	return installation.Expectation{Namespace: r.operatorNamespace, Controllers: true, AggregatedAPI: true}
}

func (g *gathering) all(ctx context.Context, looks []func(context.Context) error) {
	var looking sync.WaitGroup
	for _, look := range looks {
		looking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			if err := look(ctx); err != nil {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.failures = append(g.failures, err)
			}
		})
	}
	looking.Wait()
}

// finish puts everything in an order that does not depend on who answered first. A
// kind that is not there is told only where the look at the installation said
// nothing, because that says better why.
func (g *gathering) finish(broken []installation.Problem) {
	objects := g.report.Problems
	slices.SortStableFunc(objects, func(a, b installation.Problem) int { return strings.Compare(a.Object, b.Object) })
	if len(broken) == 0 {
		broken = g.absent
		slices.SortFunc(broken, func(a, b installation.Problem) int { return strings.Compare(a.Object, b.Object) })
	}
	g.report.Problems = slices.Concat(broken, objects)
	if g.report.Problems == nil {
		g.report.Problems = []installation.Problem{}
	}
	for _, err := range g.failures {
		g.report.NotSeen = append(g.report.NotSeen, err.Error())
	}
	slices.Sort(g.report.NotSeen)
}

// list reads all objects of a kind. A kind that the API does not serve is a problem
// and no failure.
func (g *gathering) list(ctx context.Context, list client.ObjectList, resource string) (seen bool, err error) {
	err = g.cluster.List(ctx, list, client.InNamespace(g.namespace))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsServiceUnavailable(err):
		what := "is not served by this cluster"
		if apierrors.IsServiceUnavailable(err) {
			what = "cannot be read now: " + err.Error()
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.absent = append(g.absent, installation.Problem{
			Object: "resource " + resource, What: what, Do: "see whether the operator is installed and its pods are ready",
		})
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%s: %w", resource, err)
	}
	return true, nil
}

// problem adds what is wrong with an object, from the condition that says it.
func (g *gathering) problem(kind, namespace, name string, c metav1.Condition, do string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := installation.Problem{Object: fmt.Sprintf("%s %s/%s", kind, namespace, name), What: "is not ready (" + c.Reason + "): " + c.Message, Do: do}
	if !c.LastTransitionTime.IsZero() {
		p.Since = &c.LastTransitionTime.Time
	}
	g.report.Problems = append(g.report.Problems, p)
}

// state is Ready, or why an object of the three kinds is not; that is a problem.
func (g *gathering) state(kind, resource string, object client.Object, status coderv1alpha1.WorkloadStatus) (state string, ready bool) {
	c := meta.FindStatusCondition(status.Conditions, coderv1alpha1.ConditionReady)
	if c == nil {
		c = &metav1.Condition{
			Reason: "NotSeen", Message: "no operator has looked at it", LastTransitionTime: object.GetCreationTimestamp(),
		}
	}
	if c.Status == metav1.ConditionTrue {
		return string(coderv1alpha1.PhaseReady), true
	}
	g.problem(kind, object.GetNamespace(), object.GetName(), *c,
		fmt.Sprintf("kubectl -n %s describe %s %s", object.GetNamespace(), resource, object.GetName()))
	return c.Reason, false
}

func workload(object client.Object, status coderv1alpha1.WorkloadStatus, state string, ready bool) Workload {
	return Workload{
		Namespace: object.GetNamespace(), Name: object.GetName(), State: state, Ready: status.ReadyReplicas, Pods: status.Replicas,
		Created: object.GetCreationTimestamp().Time, ready: ready,
	}
}

func (g *gathering) controlPlanes(ctx context.Context) error {
	var list coderv1alpha1.CoderControlPlaneList
	seen, err := g.list(ctx, &list, "codercontrolplanes.coder.com")
	g.report.planesSeen = seen
	for i := range list.Items {
		cp := &list.Items[i]
		state, ready := g.state("CoderControlPlane", "codercontrolplane", cp, cp.Status.WorkloadStatus)
		w := workload(cp, cp.Status.WorkloadStatus, state, ready)
		w.Version, w.URL = cp.Status.Version, cp.Status.URL
		if cp.Status.AccessURL != "" {
			w.URL = cp.Status.AccessURL
		}
		g.report.ControlPlanes = append(g.report.ControlPlanes, w)
	}
	return err
}

func (g *gathering) provisioners(ctx context.Context) error {
	var list coderv1alpha1.CoderProvisionerList
	_, err := g.list(ctx, &list, "coderprovisioners.coder.com")
	for i := range list.Items {
		p := &list.Items[i]
		state, ready := g.state("CoderProvisioner", "coderprovisioner", p, p.Status.WorkloadStatus)
		w := workload(p, p.Status.WorkloadStatus, state, ready)
		w.Of = belongsTo(p.Spec.ControlPlaneRef, p.Spec.URL)
		g.report.Provisioners = append(g.report.Provisioners, w)
	}
	return err
}

func (g *gathering) proxies(ctx context.Context) error {
	var list coderv1alpha1.CoderWorkspaceProxyList
	_, err := g.list(ctx, &list, "coderworkspaceproxies.coder.com")
	for i := range list.Items {
		p := &list.Items[i]
		state, ready := g.state("CoderWorkspaceProxy", "coderworkspaceproxy", p, p.Status.WorkloadStatus)
		w := workload(p, p.Status.WorkloadStatus, state, ready)
		w.Of, w.URL = belongsTo(p.Spec.ControlPlaneRef, p.Spec.PrimaryAccessURL), p.Status.URL
		if p.Status.AccessURL != "" {
			w.URL = p.Status.AccessURL
		}
		g.report.WorkspaceProxies = append(g.report.WorkspaceProxies, w)
	}
	return err
}

func belongsTo(ref *coderv1alpha1.ControlPlaneReference, url string) string {
	if ref != nil {
		return ref.Name
	}
	return url
}

func (g *gathering) templates(ctx context.Context) error {
	var list aggregationv1alpha1.CoderTemplateList
	seen, err := g.list(ctx, &list, "codertemplates.aggregation.coder.com")
	g.report.Templates.Unseen = !seen
	for i := range list.Items {
		t := &list.Items[i]
		state := "building"
		ready := meta.FindStatusCondition(t.Status.Conditions, aggregationv1alpha1.ConditionReady)
		switch {
		case ready != nil && ready.Status == metav1.ConditionTrue:
			state = "ready"
		case meta.IsStatusConditionTrue(t.Status.Conditions, aggregationv1alpha1.ConditionStalled):
			state = "failed"
			g.problem("CoderTemplate", t.Namespace, t.Name, *orUnknown(ready), fmt.Sprintf("kubectl coder logs -n %s template/%s", t.Namespace, t.Name))
		}
		g.report.Templates.add(state)
	}
	return err
}

func (g *gathering) workspaces(ctx context.Context) error {
	var list aggregationv1alpha1.CoderWorkspaceList
	seen, err := g.list(ctx, &list, "coderworkspaces.aggregation.coder.com")
	g.report.Workspaces.Unseen = !seen
	for i := range list.Items {
		w := &list.Items[i]
		g.report.Workspaces.add(workspaceState(w.Status))
		ready := meta.FindStatusCondition(w.Status.Conditions, aggregationv1alpha1.ConditionReady)
		if ready == nil || ready.Status == metav1.ConditionTrue {
			continue
		}
		if meta.IsStatusConditionTrue(w.Status.Conditions, aggregationv1alpha1.ConditionStalled) || !ptr.Deref(w.Status.Healthy, true) ||
			meta.IsStatusConditionFalse(w.Status.Conditions, aggregationv1alpha1.ConditionPodsHealthy) {
			g.problem("CoderWorkspace", w.Namespace, w.Name, *ready, fmt.Sprintf("kubectl coder logs -n %s %s%s", w.Namespace, w.Name, logFlag(ready.Reason)))
		}
	}
	return err
}

// workspaceState is the phase, and of a running workspace what the column Health of
// kubectl get says.
func workspaceState(status aggregationv1alpha1.CoderWorkspaceStatus) string {
	switch {
	case status.Phase != "Running", ptr.Deref(status.Healthy, false):
		return strings.ToLower(orText(status.Phase, "unknown"))
	case status.Healthy == nil:
		return "connecting"
	default:
		return "unhealthy"
	}
}

// logFlag chooses the log that says more about a reason.
func logFlag(reason string) string {
	switch reason {
	case aggregationv1alpha1.ReasonAgentsUnhealthy:
		return " --scripts"
	case aggregationv1alpha1.ReasonContainerCrashed, aggregationv1alpha1.ReasonOutOfMemory:
		return " --agent --previous"
	case aggregationv1alpha1.ReasonAgentsUnavailable:
		return " --agent"
	default:
		return ""
	}
}

func orUnknown(c *metav1.Condition) *metav1.Condition {
	if c == nil {
		return &metav1.Condition{Reason: "Unknown", Message: "it has no condition Ready"}
	}
	return c
}

func orText(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// code is the exit code that the report amounts to.
func (r *Report) code() int {
	switch {
	case len(r.Problems) > 0:
		return ExitWrong
	case len(r.NotSeen) > 0:
		return cli.ExitPartial
	}
	return cli.ExitOK
}

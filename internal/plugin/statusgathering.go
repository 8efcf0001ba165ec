package plugin

import (
	"cmp"
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
	"github.com/coder-k8s/coder-k8s/internal/installation"
)

// statusTimeout limits reading one kind, so that an API that does not respond does not block the others.
const statusTimeout = 15 * time.Second

// statusGathering is the state of collecting one report.
type statusGathering struct {
	cluster *Cluster

	mu       sync.Mutex
	report   *statusReport
	absent   []statusProblem
	failures []error
}

// gather reads all kinds concurrently. It returns an error if nothing could be read.
func (r *statusRun) gather(ctx context.Context, c *Cluster) (*statusReport, error) {
	err := c.Kube.CoreV1().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	// An error status is a response too.
	if err != nil && !errors.As(err, new(apierrors.APIStatus)) {
		return nil, fmt.Errorf("the cluster cannot be reached: %w", err)
	}
	g := &statusGathering{cluster: c, report: &statusReport{
		Namespace: c.Namespace, ControlPlanes: []statusWorkload{}, Provisioners: []statusWorkload{}, WorkspaceProxies: []statusWorkload{},
	}}
	if r.everywhere {
		g.report.Namespace = ""
	}
	var broken []installation.Problem
	looks := []func(context.Context) error{g.controlPlanes, g.provisioners, g.proxies, g.templates, g.workspaces}
	if r.installation {
		looks = append(looks, func(ctx context.Context) error {
			var err error
			broken, err = r.Check(ctx, c.Config, installation.Expectation{Namespace: r.operatorNamespace, Controllers: true, AggregatedAPI: true})
			if err != nil {
				err = fmt.Errorf("the installation: %w", err)
			}
			return err
		})
	}
	var looking sync.WaitGroup
	for _, look := range looks {
		looking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, statusTimeout)
			defer cancel()
			if err := look(ctx); err != nil {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.failures = append(g.failures, err)
			}
		})
	}
	looking.Wait()
	if len(g.failures) == len(looks) && len(broken) == 0 {
		return nil, errors.Join(g.failures...)
	}
	// The report does not depend on the order of the responses.
	byObject := func(a, b statusProblem) int { return strings.Compare(a.Object, b.Object) }
	slices.SortStableFunc(g.report.Problems, byObject)
	all := make([]statusProblem, 0, len(broken)+len(g.absent)+len(g.report.Problems))
	for _, p := range broken {
		all = append(all, statusProblem{Problem: p})
	}
	// Otherwise a problem of the installation is the cause of what is not served.
	if len(broken) == 0 {
		slices.SortFunc(g.absent, byObject)
		all = append(all, g.absent...)
	}
	g.report.Problems = append(all, g.report.Problems...)
	for _, err := range g.failures {
		g.report.NotSeen = append(g.report.NotSeen, err.Error())
	}
	slices.Sort(g.report.NotSeen)
	return g.report, nil
}

// list reads all objects of a kind. A kind that the API does not serve is a problem and not an
// error.
func (g *statusGathering) list(ctx context.Context, list client.ObjectList, resource string) (seen bool, err error) {
	err = g.cluster.List(ctx, list, client.InNamespace(g.report.Namespace))
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err), apierrors.IsServiceUnavailable(err):
		what := "is not served by this cluster"
		if apierrors.IsServiceUnavailable(err) {
			what = "cannot be read now: " + err.Error()
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.absent = append(g.absent, statusProblem{Problem: installation.Problem{
			Object: "resource " + resource, What: what, Do: "kubectl describe apiservice v1alpha1.aggregation.coder.com, and kubectl -n coder-system get pods",
		}})
		return false, nil
	}
	return false, fmt.Errorf("%s: %w", resource, err)
}

// problem adds a problem of an object, from its condition.
func (g *statusGathering) problem(kind string, object client.Object, c metav1.Condition, do string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	what := "not ready, "
	if c.Type != "" && c.Type != coderv1alpha1.ConditionReady {
		what = "condition " + c.Type + " is " + string(c.Status) + ", "
	}
	p := statusProblem{
		Problem: installation.Problem{
			Object: fmt.Sprintf("%s %s/%s", kind, object.GetNamespace(), object.GetName()), What: what + c.Reason + ": " + c.Message, Do: do,
		},
		Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), Reason: c.Reason,
	}
	if !c.LastTransitionTime.IsZero() {
		p.Since = &c.LastTransitionTime.Time
	}
	g.report.Problems = append(g.report.Problems, p)
}

// workload returns the row of a control plane, provisioner or proxy. It adds a problem if the
// object is not ready.
func (g *statusGathering) workload(kind string, object client.Object, status coderv1alpha1.WorkloadStatus) statusWorkload {
	c := meta.FindStatusCondition(status.Conditions, coderv1alpha1.ConditionReady)
	if c == nil {
		c = &metav1.Condition{
			Status: metav1.ConditionUnknown, Reason: "NotReconciled", Message: "the operator has not reconciled it yet", LastTransitionTime: object.GetCreationTimestamp(),
		}
	}
	if c.Status != metav1.ConditionTrue {
		g.problem(kind, object, *c, workloadHint(kind, object, c.Reason, status.Selector))
	}
	for _, beside := range status.Conditions {
		// The pods run, although new ones could not start, because a Secret or ConfigMap is missing.
		lacksReference := beside.Type == coderv1alpha1.ConditionDeploymentAvailable && beside.Status == metav1.ConditionTrue &&
			beside.Reason != coderv1alpha1.ReasonAvailable && beside.Reason != coderv1alpha1.ReasonScaledToZero
		if slices.Contains(besideReady, beside.Type) && beside.Status == metav1.ConditionFalse || lacksReference {
			g.problem(kind, object, beside, workloadHint(kind, object, beside.Reason, status.Selector))
		}
	}
	return statusWorkload{
		Namespace: object.GetNamespace(), Name: object.GetName(), Ready: string(c.Status), State: c.Reason,
		ReadyPods: status.ReadyReplicas, Pods: status.Replicas, Created: object.GetCreationTimestamp().Time,
	}
}

// besideReady are conditions that are a problem if they are false, although they do not affect Ready.
var besideReady = []string{
	coderv1alpha1.ConditionHighAvailabilityEntitled, coderv1alpha1.ConditionWorkspaceAccess, coderv1alpha1.ConditionMetricsExported,
	coderv1alpha1.ConditionDatabaseExclusive, coderv1alpha1.ConditionEvictable,
}

func (g *statusGathering) controlPlanes(ctx context.Context) error {
	var list coderv1alpha1.CoderControlPlaneList
	seen, err := g.list(ctx, &list, "codercontrolplanes.coder.com")
	g.report.planesSeen = seen
	for i := range list.Items {
		cp := &list.Items[i]
		w := g.workload("CoderControlPlane", cp, cp.Status.WorkloadStatus)
		w.VersionSupported, _ = versionSupported(cp)
		w.Version, w.URL = cp.Status.Version, cmp.Or(cp.Status.AccessURL, cp.Status.URL)
		g.report.ControlPlanes = append(g.report.ControlPlanes, w)
	}
	return err
}

func (g *statusGathering) provisioners(ctx context.Context) error {
	var list coderv1alpha1.CoderProvisionerList
	_, err := g.list(ctx, &list, "coderprovisioners.coder.com")
	for i := range list.Items {
		p := &list.Items[i]
		w := g.workload("CoderProvisioner", p, p.Status.WorkloadStatus)
		w.Of = belongsTo(p.Spec.ControlPlaneRef, p.Spec.URL)
		g.report.Provisioners = append(g.report.Provisioners, w)
	}
	return err
}

func (g *statusGathering) proxies(ctx context.Context) error {
	var list coderv1alpha1.CoderWorkspaceProxyList
	_, err := g.list(ctx, &list, "coderworkspaceproxies.coder.com")
	for i := range list.Items {
		p := &list.Items[i]
		w := g.workload("CoderWorkspaceProxy", p, p.Status.WorkloadStatus)
		w.Of, w.URL = belongsTo(p.Spec.ControlPlaneRef, p.Spec.PrimaryAccessURL), cmp.Or(p.Status.AccessURL, p.Status.URL)
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

func (g *statusGathering) templates(ctx context.Context) error {
	var list aggregationv1alpha1.CoderTemplateList
	seen, err := g.list(ctx, &list, "codertemplates.aggregation.coder.com")
	g.report.Templates.Unseen = !seen
	for i := range list.Items {
		t := &list.Items[i]
		ready := meta.FindStatusCondition(t.Status.Conditions, aggregationv1alpha1.ConditionReady)
		if ready == nil {
			ready = &metav1.Condition{Reason: "Unknown", Message: "it has no condition Ready"}
		}
		// As kubectl get shows it in STATUS.
		state := ready.Reason
		if t.DeletionTimestamp != nil {
			state = aggregationv1alpha1.ReasonDeleting
		}
		g.report.Templates.add(state)
		if stalled(t.Status.Conditions) != nil && ready.Status != metav1.ConditionTrue {
			g.problem("CoderTemplate", t, *ready, templateHint(t, ready.Reason))
		}
	}
	return err
}

// templateHint returns the command that shows more about a problem of a template.
func templateHint(t *aggregationv1alpha1.CoderTemplate, reason string) string {
	if c := t.Status.Candidate; reason == aggregationv1alpha1.ReasonTestsFailed && c != nil {
		for _, test := range c.Tests {
			if test.Phase == coderv1alpha1.TemplateTestFailed {
				return fmt.Sprintf("kubectl describe -n %s ctt/%s", t.Namespace, test.TestName)
			}
		}
	}
	return fmt.Sprintf("kubectl coder logs -n %s template/%s", t.Namespace, t.Name)
}

func (g *statusGathering) workspaces(ctx context.Context) error {
	var list aggregationv1alpha1.CoderWorkspaceList
	seen, err := g.list(ctx, &list, "coderworkspaces.aggregation.coder.com")
	g.report.Workspaces.Unseen = !seen
	// The other namespaces in which the control planes of each namespace may create pods. What cannot be read is
	// left out.
	elsewhere := sync.OnceValue(func() map[string][]string {
		var planes coderv1alpha1.CoderControlPlaneList
		_ = g.cluster.List(ctx, &planes, client.InNamespace(g.report.Namespace))
		all := map[string][]string{}
		for i := range planes.Items {
			cp := &planes.Items[i]
			names := slices.Concat(all[cp.Namespace], cp.Spec.RBAC.WorkspaceNamespaces)
			for _, n := range cp.Spec.RBAC.Namespaces {
				names = append(names, n.Name)
			}
			slices.Sort(names)
			all[cp.Namespace] = slices.DeleteFunc(slices.Compact(names), func(n string) bool { return n == cp.Namespace })
		}
		return all
	})
	for i := range list.Items {
		w := &list.Items[i]
		// As kubectl get shows it: STATUS, or HEALTH if the workspace runs but cannot be used.
		state := cmp.Or(w.Status.Phase, "Unknown")
		switch {
		case state == "Running" && w.Status.Healthy == nil:
			state = "Connecting"
		case state == "Running" && !*w.Status.Healthy:
			state = "Unhealthy"
		}
		g.report.Workspaces.add(state)
		ready := meta.FindStatusCondition(w.Status.Conditions, aggregationv1alpha1.ConditionReady)
		if ready == nil || ready.Status == metav1.ConditionTrue {
			continue
		}
		if stalled(w.Status.Conditions) != nil || !ptr.Deref(w.Status.Healthy, true) ||
			meta.IsStatusConditionFalse(w.Status.Conditions, aggregationv1alpha1.ConditionPodsHealthy) {
			reason := ready.Reason
			if c := stalled(w.Status.Conditions); c != nil {
				reason = c.Reason
			}
			var others []string
			if reason == aggregationv1alpha1.ReasonAgentsUnavailable {
				others = elsewhere()[w.Namespace]
			}
			g.problem("CoderWorkspace", w, *ready, workspaceHint(w, reason, others))
		}
	}
	return err
}

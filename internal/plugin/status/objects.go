package status

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/installation"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

// problem adds a problem of an object, from its condition.
func (g *gathering) problem(kind string, object client.Object, c metav1.Condition, do string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	what := "not ready, "
	if c.Type != "" && c.Type != coderv1alpha1.ConditionReady {
		what = c.Type + " is " + string(c.Status) + ", "
	}
	p := Problem{
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
func (g *gathering) workload(kind, resource string, object client.Object, status coderv1alpha1.WorkloadStatus) Workload {
	c := meta.FindStatusCondition(status.Conditions, coderv1alpha1.ConditionReady)
	if c == nil {
		c = &metav1.Condition{
			Status: metav1.ConditionUnknown, Reason: "NotSeen", Message: "no operator has reconciled it yet", LastTransitionTime: object.GetCreationTimestamp(),
		}
	}
	if c.Status != metav1.ConditionTrue {
		g.problem(kind, object, *c, workloadHint(resource, object, c.Reason, status.Selector))
	}
	for _, beside := range status.Conditions {
		if decidesNotAboutReady(beside.Type) && beside.Status == metav1.ConditionFalse {
			g.problem(kind, object, beside, workloadHint(resource, object, beside.Reason, status.Selector))
		}
	}
	return Workload{
		Namespace: object.GetNamespace(), Name: object.GetName(), Ready: string(c.Status), State: c.Reason,
		ReadyPods: status.ReadyReplicas, Pods: status.Replicas, Created: object.GetCreationTimestamp().Time,
	}
}

// decidesNotAboutReady reports whether a false condition of this type is a problem although it does
// not affect the condition Ready.
func decidesNotAboutReady(conditionType string) bool {
	return slices.Contains([]string{
		coderv1alpha1.ConditionHighAvailabilityEntitled, coderv1alpha1.ConditionWorkspaceAccess, coderv1alpha1.ConditionMetricsExported,
	}, conditionType)
}

func (g *gathering) controlPlanes(ctx context.Context) error {
	var list coderv1alpha1.CoderControlPlaneList
	seen, err := g.list(ctx, &list, "codercontrolplanes.coder.com")
	g.report.planesSeen = seen
	for i := range list.Items {
		cp := &list.Items[i]
		w := g.workload("CoderControlPlane", "codercontrolplane", cp, cp.Status.WorkloadStatus)
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
		w := g.workload("CoderProvisioner", "coderprovisioner", p, p.Status.WorkloadStatus)
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
		w := g.workload("CoderWorkspaceProxy", "coderworkspaceproxy", p, p.Status.WorkloadStatus)
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
		g.report.Templates.add(session.TemplateState(t))
		if meta.IsStatusConditionTrue(t.Status.Conditions, aggregationv1alpha1.ConditionStalled) {
			ready := meta.FindStatusCondition(t.Status.Conditions, aggregationv1alpha1.ConditionReady)
			if ready == nil {
				ready = &metav1.Condition{Reason: "Unknown", Message: "it has no condition Ready"}
			}
			if ready.Status != metav1.ConditionTrue {
				g.problem("CoderTemplate", t, *ready, fmt.Sprintf("kubectl coder logs -n %s template/%s", t.Namespace, t.Name))
			}
		}
	}
	return err
}

func (g *gathering) workspaces(ctx context.Context) error {
	var list aggregationv1alpha1.CoderWorkspaceList
	seen, err := g.list(ctx, &list, "coderworkspaces.aggregation.coder.com")
	g.report.Workspaces.Unseen = !seen
	for i := range list.Items {
		w := &list.Items[i]
		g.report.Workspaces.add(session.WorkspaceState(w))
		ready := meta.FindStatusCondition(w.Status.Conditions, aggregationv1alpha1.ConditionReady)
		if ready == nil || ready.Status == metav1.ConditionTrue {
			continue
		}
		if meta.IsStatusConditionTrue(w.Status.Conditions, aggregationv1alpha1.ConditionStalled) || !ptr.Deref(w.Status.Healthy, true) ||
			meta.IsStatusConditionFalse(w.Status.Conditions, aggregationv1alpha1.ConditionPodsHealthy) {
			g.problem("CoderWorkspace", w, *ready, workspaceHint(w, ready.Reason))
		}
	}
	return err
}

package diagnosis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

// ControlPlane diagnoses a control plane. It returns an error only if the control plane
// does not exist or the caller may not read it. Other objects that cannot be read are gaps
// in the report.
func ControlPlane(ctx context.Context, kube *callers.Kube, namespace, name string) (*Report, error) {
	bounded, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	cp := &coderv1alpha1.CoderControlPlane{}
	err := kube.Get(bounded, client.ObjectKey{Namespace: namespace, Name: name}, cp)
	var f *controlPlaneFacts
	if err == nil {
		g := &gathering{kube: kube}
		f = g.controlPlane(bounded, cp)
		// If the caller canceled, return its error instead of a report with gaps.
		err = ctx.Err()
	}
	if err != nil {
		return nil, &toolset.CallError{Verb: "get", Resource: controlPlanes, Namespace: namespace, Name: name, Err: err}
	}
	return reportControlPlane(f), nil
}

func reportControlPlane(f *controlPlaneFacts) *Report {
	cp := f.object
	w := writing{
		subject:     fmt.Sprintf("CoderControlPlane %s/%s", cp.Namespace, cp.Name),
		conclusions: ranked(apply(f, controlPlaneRules())),
		conditions:  cp.Status.Conditions,
		pods:        f.pods,
		events:      f.events,
		gaps:        f.gaps,
	}
	r := w.report()
	r.addContainerLogs(f.logs)
	for _, t := range f.templates {
		r.addLog("the newest version of CoderTemplate/"+t.object.Name, t.log)
	}
	return fitted(r)
}

const (
	mostProvisioners = 50
	// mostTemplates is the maximum number of templates with a failed newest version that
	// are read.
	mostTemplates = 3
	// fieldVersionStatus is a field selector of templates.
	fieldVersionStatus = "status.latestVersionStatus"
	versionFailed      = "failed"
)

type controlPlaneFacts struct {
	object *coderv1alpha1.CoderControlPlane
	// deployment is nil if it does not exist or could not be read.
	deployment        *appsv1.Deployment
	deploymentMissing bool
	// pods contains all pods; earlier contains those of earlier revisions.
	pods, earlier []corev1.Pod
	podFacts
	provisioners []coderv1alpha1.CoderProvisioner
	templates    []failedTemplate
	gaps         []gap
}

type failedTemplate struct {
	object *aggregationv1alpha1.CoderTemplate
	// log is the end of the log of that build.
	log string
}

// controlPlane reads the objects that belong to a control plane.
func (g *gathering) controlPlane(ctx context.Context, cp *coderv1alpha1.CoderControlPlane) *controlPlaneFacts {
	f := &controlPlaneFacts{object: cp}
	f.remedy = controlPlaneRemedies()
	g.parts.Go(func() {
		f.deployment, f.deploymentMissing = get(ctx, g, &appsv1.Deployment{}, deployments, client.ObjectKeyFromObject(cp))
	})
	g.parts.Go(func() {
		f.pods, f.sets = g.podsOfControlPlane(ctx, cp)
		f.current, f.earlier = byRevision(f.pods, podproblem.NewestReplicaSet(f.sets))
		f.logs = g.containerLogs(ctx, suspects(f.current, !isTrue(cp.Status.Conditions, coderv1alpha1.ConditionReady)))
	})
	var all []corev1.Event
	g.parts.Go(func() { all = g.eventsOf(ctx, cp.Namespace) })
	g.parts.Go(func() { f.provisioners = g.provisionersOf(ctx, cp.Namespace, cp.Name) })
	g.parts.Go(func() { f.templates = g.failedTemplates(ctx, cp) })
	f.gaps = g.wait()
	f.events = concerning(all, aboutControlPlane(cp, f.pods, f.sets))
	return f
}

func controlPlaneRemedies() remedies {
	return remedies{
		image: "spec.image", resources: "spec.resources", placement: "spec.nodeSelector, spec.tolerations and spec.affinity",
		volumes: "spec.volumes", references: "spec.extraEnv, spec.envFrom and spec.database",
		security: "spec.securityContext and spec.podSecurityContext", process: "the spec of the control plane or in what it refers to",
	}
}

// podsOfControlPlane returns the pods and the ReplicaSets of the control plane's
// Deployment.
func (g *gathering) podsOfControlPlane(ctx context.Context, cp *coderv1alpha1.CoderControlPlane) ([]corev1.Pod, []appsv1.ReplicaSet) {
	ours := client.MatchingLabels(cp.PodLabels())
	list, sets := &corev1.PodList{}, &appsv1.ReplicaSetList{}
	var both sync.WaitGroup
	both.Go(func() { g.list(ctx, list, pods, cp.Namespace, mostPods, ours) })
	both.Go(func() { g.list(ctx, sets, replicaSets, cp.Namespace, mostReplicaSets, ours) })
	both.Wait()
	return list.Items, sets.Items
}

// suspects returns the containers whose logs may contain the cause: those that are not
// ready, or, if there are none but something is wrong, those that run.
func suspects(current []corev1.Pod, wrong bool) []suspect {
	found := inTrouble(current)
	if len(found) == 0 && wrong {
		return running(current)
	}
	return found
}

// provisionersOf returns the CoderProvisioners in a namespace that reference the control
// plane.
func (g *gathering) provisionersOf(ctx context.Context, namespace, controlPlane string) []coderv1alpha1.CoderProvisioner {
	list := &coderv1alpha1.CoderProvisionerList{}
	g.list(ctx, list, provisioners, namespace, mostProvisioners)
	return slices.DeleteFunc(list.Items, func(p coderv1alpha1.CoderProvisioner) bool {
		return p.Spec.ControlPlaneRef == nil || p.Spec.ControlPlaneRef.Name != controlPlane
	})
}

// failedTemplates returns the templates of a control plane whose newest version failed to
// build.
func (g *gathering) failedTemplates(ctx context.Context, cp *coderv1alpha1.CoderControlPlane) []failedTemplate {
	if !isTrue(cp.Status.Conditions, coderv1alpha1.ConditionServed) {
		return nil
	}
	list := &aggregationv1alpha1.CoderTemplateList{}
	g.list(ctx, list, templates, cp.Namespace, mostTemplates,
		client.MatchingLabels{aggregationv1alpha1.LabelControlPlaneName: cp.Name}, client.MatchingFields{fieldVersionStatus: versionFailed})
	failed := make([]failedTemplate, len(list.Items))
	var all sync.WaitGroup
	for i := range list.Items {
		failed[i].object = &list.Items[i]
		all.Go(func() {
			failed[i].log = g.buildLog(ctx, templates, cp.Namespace, list.Items[i].Name, nil)
		})
	}
	all.Wait()
	return failed
}

// aboutControlPlane returns a function that reports whether the object of an Event is the
// control plane or was created for it. Pods that no longer exist are recognized by the name
// prefix of their ReplicaSet.
func aboutControlPlane(cp *coderv1alpha1.CoderControlPlane, all []corev1.Pod, sets []appsv1.ReplicaSet) func(corev1.ObjectReference) bool {
	return func(object corev1.ObjectReference) bool {
		switch object.Kind {
		case "CoderControlPlane", "Deployment", "Service", "Ingress", "HTTPRoute":
			return object.Name == cp.Name
		case "ReplicaSet":
			return slices.ContainsFunc(sets, func(s appsv1.ReplicaSet) bool { return s.Name == object.Name })
		case "Pod":
			return slices.ContainsFunc(all, func(p corev1.Pod) bool { return p.Name == object.Name }) ||
				slices.ContainsFunc(sets, func(s appsv1.ReplicaSet) bool { return strings.HasPrefix(object.Name, s.Name+"-") })
		}
		return false
	}
}

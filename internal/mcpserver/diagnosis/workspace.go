package diagnosis

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const (
	// mostNamespaces is the maximum number of namespaces in which pods and Events are read.
	mostNamespaces = 4

	transitionStart = "start"
	reasonNotFound  = "NotFound"
)

// Workspace diagnoses a workspace: its newest build, its template, its pods if they are in
// this cluster, and its control plane. It returns an error only if the workspace cannot be
// read. If the aggregated API is unavailable (503), it returns a report about that.
func Workspace(ctx context.Context, kube *callers.Kube, namespace, name string) (*Report, error) {
	bounded, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	g := &gathering{kube: kube}
	ws, r := &aggregationv1alpha1.CoderWorkspace{}, (*Report)(nil)
	err := kube.Get(bounded, client.ObjectKey{Namespace: namespace, Name: name}, ws)
	switch {
	case err == nil:
		r = g.workspace(bounded, ws)
		// If the caller canceled, return its error instead of a report with gaps.
		err = ctx.Err()
	case apierrors.IsServiceUnavailable(err):
		r = g.unavailable(bounded, namespace, name, err)
		err = ctx.Err()
	}
	if err != nil {
		return nil, &toolset.CallError{Verb: "get", Resource: workspaces, Namespace: namespace, Name: name, Err: err}
	}
	return r, nil
}

// unavailable returns the report for a workspace that the aggregated API cannot serve now, with
// the problems of the control planes of the namespace.
func (g *gathering) unavailable(ctx context.Context, namespace, name string, err error) *Report {
	list := &coderv1alpha1.CoderControlPlaneList{}
	g.list(ctx, list, controlPlanes, namespace, mostProvisioners)
	r := &Report{Problems: []Problem{{
		Namespace: namespace, Object: "CoderWorkspace/" + name, Reason: "ServiceUnavailable", Message: shown("the aggregated API does not serve it: " + toolset.Message(err)),
		Do: "find out why its control plane does not respond (diagnose_control_plane); if no control plane has a problem, see whether the aggregated API runs (check_health)",
	}}}
	for i := range list.Items {
		cp := &list.Items[i]
		r.Problems = append(r.Problems, Unhealthy("CoderControlPlane", cp, cp.Status.ObservedGeneration, cp.Status.Conditions)...)
	}
	return r.finish(subjectOf(namespace, name), "is not available", "", g.wait())
}

func subjectOf(namespace, name string) string {
	return fmt.Sprintf("CoderWorkspace %s/%s", namespace, name)
}

func (g *gathering) workspace(ctx context.Context, ws *aggregationv1alpha1.CoderWorkspace) *Report {
	var (
		facts                              podFacts
		template, controlPlane, builders   []Problem
		templateName                       = firstTemplateName(ws)
		buildLogs, scriptLogs, versionLogs []Log
	)
	conditions, build := ws.Status.Conditions, ptr.Deref(ws.Status.LatestBuild, aggregationv1alpha1.WorkspaceBuild{})
	g.parts.Go(func() { template, templateName, versionLogs = g.templateOf(ctx, ws) })
	g.parts.Go(func() {
		if ws.Status.LatestBuild != nil && !slices.Contains([]string{"running", "stopped", "deleted"}, ws.Status.LatestBuildStatus) {
			buildLogs = g.buildLog(ctx, fmt.Sprintf("build %d", build.Number), workspaces, ws.Namespace, ws.Name, nil)
		}
		if agent, failed := failedAgent(ws); failed {
			scriptLogs = g.buildLog(ctx, "the scripts of agent "+agent, workspaces, ws.Namespace, ws.Name, url.Values{"source": {"agent"}, "agent": {agent}})
		}
	})
	g.parts.Go(func() {
		var namespaces []string
		controlPlane, namespaces = g.controlPlaneOf(ctx, ws)
		if build.Transition == transitionStart {
			g.podsOfWorkspace(ctx, &facts, ws, namespaces)
		}
	})
	g.parts.Go(func() { builders = g.provisionersOf(ctx, ws.Namespace, controlPlaneName(ws)) })
	gaps := g.wait()

	// Without its control plane, the conditions of the workspace are only the last known ones.
	works, verdict := isHealthy(conditions), state(conditions)
	if works && slices.ContainsFunc(controlPlane, isMissing) {
		works, verdict = false, "has lost its control plane"
	}
	r := &Report{Healthy: works, Problems: []Problem{}}
	r.Problems = append(r.Problems, Unhealthy("CoderWorkspace", ws, ws.Status.ObservedGeneration, conditions)...)
	addCause(r.Problems, buildLogs)
	r.Problems = slices.Concat(r.Problems, facts.problems("the template"), controlPlane, template)
	if !meta.IsStatusConditionTrue(conditions, aggregationv1alpha1.ConditionBuildSucceeded) {
		r.Problems = append(r.Problems, builders...)
	}
	facts.describe(r)
	r.Logs = slices.Concat(buildLogs, scriptLogs, r.Logs, versionLogs)
	if ws.Status.LatestBuild != nil {
		r.Build = &Build{
			Number: build.Number, Transition: build.Transition, Status: build.Status, Template: templateName,
			Version: build.TemplateVersionName, Error: shown(build.Error),
		}
	}
	return r.finish(subjectOf(ws.Namespace, ws.Name), verdict, readyMessage(conditions), gaps)
}

// failedAgent returns the name of the first agent whose startup script did not succeed.
func failedAgent(ws *aggregationv1alpha1.CoderWorkspace) (name string, found bool) {
	for _, agent := range ws.Status.Agents {
		if agent.LifecycleState == "start_error" || agent.LifecycleState == "start_timeout" {
			return agent.Name, true
		}
	}
	return "", false
}

// templateOf returns the problems of the workspace's template, the name of its object, and the
// error in the log of its newest version if that failed.
func (g *gathering) templateOf(ctx context.Context, ws *aggregationv1alpha1.CoderWorkspace) ([]Problem, string, []Log) {
	name := firstTemplateName(ws)
	t, err := TemplateOf(ctx, g.kube, ws)
	switch {
	case err != nil:
		g.miss(ctx, &toolset.CallError{Verb: "list", Resource: templates, Namespace: ws.Namespace, Err: err})
		return nil, name, nil
	case t == nil:
		return []Problem{missing(ws.Namespace, "CoderTemplate/"+name, "the workspace cannot be built from it any more; see list_templates")}, name, nil
	case t.Status.LatestVersionStatus == versionFailed:
		problems, logs := g.failedTemplate(ctx, t)
		return problems, t.Name, logs
	}
	return templateProblems(t), t.Name, nil
}

func missing(namespace, object, do string) Problem {
	return Problem{Namespace: namespace, Object: object, Reason: reasonNotFound, Message: "it does not exist", Do: do}
}

func isMissing(p Problem) bool { return p.Reason == reasonNotFound }

// controlPlaneOf returns the problems of the workspace's control plane, and the namespaces in which
// it allows Coder to create workspaces.
func (g *gathering) controlPlaneOf(ctx context.Context, ws *aggregationv1alpha1.CoderWorkspace) ([]Problem, []string) {
	namespaces, name := []string{ws.Namespace}, controlPlaneName(ws)
	if name == "" {
		return nil, namespaces
	}
	cp := &coderv1alpha1.CoderControlPlane{}
	err := g.kube.Get(ctx, client.ObjectKey{Namespace: ws.Namespace, Name: name}, cp)
	switch {
	case apierrors.IsNotFound(err):
		return []Problem{missing(ws.Namespace, "CoderControlPlane/"+name, "create the control plane again with the same name and database, or ignore the workspace")}, namespaces
	case err != nil:
		g.miss(ctx, &toolset.CallError{Verb: "get", Resource: controlPlanes, Namespace: ws.Namespace, Name: name, Err: err})
		return nil, namespaces
	}
	namespaces = append(namespaces, cp.Spec.RBAC.WorkspaceNamespaces...)
	problems := Unhealthy("CoderControlPlane", cp, cp.Status.ObservedGeneration, cp.Status.Conditions)
	return problems[:min(len(problems), 1)], namespaces[:min(len(namespaces), mostNamespaces)]
}

// podsOfWorkspace reads pods and ReplicaSets with the label that Coder's example template
// sets, and their logs and Events. Terraform may create them in any namespace, so all
// namespaces are searched. If the caller may not list pods in all namespaces, only the
// workspace namespaces of the control plane are searched.
func (g *gathering) podsOfWorkspace(ctx context.Context, f *podFacts, ws *aggregationv1alpha1.CoderWorkspace, namespaces []string) {
	if ws.Status.ID == "" {
		return
	}
	ours := client.MatchingLabels{aggregationv1alpha1.LabelWorkspaceID: ws.Status.ID}
	list := &corev1.PodList{}
	err := g.kube.List(ctx, list, ours, client.Limit(mostPods))
	switch {
	case apierrors.IsForbidden(err):
		for _, namespace := range namespaces {
			g.podsAndSets(ctx, f, namespace, ours)
		}
	case err != nil:
		g.miss(ctx, &toolset.CallError{Verb: "list", Resource: pods, Err: err})
		return
	default:
		f.pods = list.Items
		g.setsOf(ctx, f, "", ours)
	}
	f.pods = f.pods[:min(len(f.pods), mostPods)]
	f.choose(nil)
	f.readLogs(ctx, g, !isHealthy(ws.Status.Conditions))
	f.events = newest(g.warningsAbout(ctx, f), mostEvents, f.has)
}

// warningsAbout reads the Warning Events of the namespaces of pods and ReplicaSets.
func (g *gathering) warningsAbout(ctx context.Context, f *podFacts) []corev1.Event {
	var namespaces []string
	for i := range f.pods {
		namespaces = append(namespaces, f.pods[i].Namespace)
	}
	for i := range f.sets {
		namespaces = append(namespaces, f.sets[i].Namespace)
	}
	slices.Sort(namespaces)
	namespaces = slices.Compact(namespaces)
	var all []corev1.Event
	for _, namespace := range namespaces[:min(len(namespaces), mostNamespaces)] {
		all = append(all, g.warnings(ctx, namespace)...)
	}
	return all
}

// has reports whether an object is one of the pods or ReplicaSets.
func (f *podFacts) has(object corev1.ObjectReference) bool {
	for i := range f.pods {
		if object.Kind == "Pod" && object.Name == f.pods[i].Name && object.Namespace == f.pods[i].Namespace {
			return true
		}
	}
	for i := range f.sets {
		if object.Kind == "ReplicaSet" && object.Name == f.sets[i].Name && object.Namespace == f.sets[i].Namespace {
			return true
		}
	}
	return false
}

package diagnosis

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

const (
	// mostTemplates is the maximum number of templates with a failed newest version that
	// are read.
	mostTemplates = 3
	// fieldVersionStatus is a field selector of templates.
	fieldVersionStatus = "status.latestVersionStatus"
	versionFailed      = "failed"
)

// ControlPlane diagnoses a control plane. It returns an error only if the control plane
// does not exist or the caller may not read it. Other objects that cannot be read are gaps
// in the report.
func ControlPlane(ctx context.Context, kube *callers.Kube, namespace, name string) (*Report, error) {
	bounded, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	cp, r := &coderv1alpha1.CoderControlPlane{}, (*Report)(nil)
	err := kube.Get(bounded, client.ObjectKey{Namespace: namespace, Name: name}, cp)
	if err == nil {
		r = (&gathering{kube: kube}).controlPlane(bounded, cp)
		// If the caller canceled, return its error instead of a report with gaps.
		err = ctx.Err()
	}
	if err != nil {
		return nil, &toolset.CallError{Verb: "get", Resource: controlPlanes, Namespace: namespace, Name: name, Err: err}
	}
	return r, nil
}

func (g *gathering) controlPlane(ctx context.Context, cp *coderv1alpha1.CoderControlPlane) *Report {
	var (
		facts                    podFacts
		warnings                 []corev1.Event
		builders, failedVersions []Problem
		buildLogs                []Log
	)
	conditions := cp.Status.Conditions
	g.parts.Go(func() {
		g.podsAndSets(ctx, &facts, cp.Namespace, cp.PodLabels())
		facts.choose(podproblem.NewestReplicaSet(facts.sets))
		facts.readLogs(ctx, g, !isHealthy(conditions))
	})
	g.parts.Go(func() { warnings = g.warnings(ctx, cp.Namespace) })
	g.parts.Go(func() { builders = g.provisionersOf(ctx, cp.Namespace, cp.Name) })
	g.parts.Go(func() {
		if !meta.IsStatusConditionTrue(conditions, coderv1alpha1.ConditionServed) {
			return
		}
		list := &aggregationv1alpha1.CoderTemplateList{}
		g.list(ctx, list, templates, cp.Namespace, mostTemplates,
			client.MatchingLabels{aggregationv1alpha1.LabelControlPlaneName: cp.Name}, client.MatchingFields{fieldVersionStatus: versionFailed})
		for i := range list.Items {
			problems, log := g.failedTemplate(ctx, &list.Items[i])
			failedVersions, buildLogs = append(failedVersions, problems...), append(buildLogs, log...)
		}
	})
	gaps := g.wait()
	facts.events = newest(warnings, mostEvents, func(object corev1.ObjectReference) bool { return IsOfControlPlane(object, cp.Name) })

	r := &Report{Healthy: isHealthy(conditions), Problems: []Problem{}}
	r.Problems = append(r.Problems, Unhealthy("CoderControlPlane", cp, cp.Status.ObservedGeneration, conditions)...)
	if !slices.ContainsFunc(r.Problems, func(p Problem) bool {
		return p.Reason == coderv1alpha1.ReasonDatabaseUnreachable || p.Reason == coderv1alpha1.ReasonDatabaseSchemaNewer
	}) {
		r.Problems = append(r.Problems, facts.databaseProblem()...)
	}
	r.Problems = append(r.Problems, facts.problems("the spec of the control plane")...)
	r.Problems = append(r.Problems, failedVersions...)
	if r.Healthy {
		// Otherwise the control plane explains why its provisioners do not work.
		r.Problems = append(r.Problems, builders...)
	}
	facts.describe(r)
	r.Logs = append(r.Logs, buildLogs...)
	return r.finish(fmt.Sprintf("CoderControlPlane %s/%s", cp.Namespace, cp.Name), state(conditions), readyMessage(conditions), gaps)
}

// databaseProblem returns what the logs of Coder report about its database. A Coder that runs may
// have lost it after its pods became ready.
func (f *podFacts) databaseProblem() []Problem {
	for _, l := range f.logs {
		if found := podproblem.FindDatabase(l.text); found != nil {
			reason, do := coderv1alpha1.ReasonDatabaseUnreachable, found.Do+" (spec.database, CODER_PG_CONNECTION_URL)"
			if found.Newer != "" {
				reason, do = coderv1alpha1.ReasonDatabaseSchemaNewer, found.Do
			}
			return []Problem{{
				Namespace: l.pod.Namespace, Object: "Pod/" + l.pod.Name, Reason: reason,
				Message: shown("Coder cannot use its database: " + found.What), Do: do,
			}}
		}
	}
	return nil
}

// failedTemplate returns the problems of a template whose newest version failed to build, and the
// error in the log of this build.
func (g *gathering) failedTemplate(ctx context.Context, t *aggregationv1alpha1.CoderTemplate) ([]Problem, []Log) {
	problems, logs := templateProblems(t), g.buildLog(ctx, "the newest version of CoderTemplate/"+t.Name, templates, t.Namespace, t.Name, nil)
	addCause(problems, logs)
	return problems, logs
}

// addCause adds the error in the log of a build to the first problem, if that has only the exit
// status: Coder's log may be complete only after the status was read.
func addCause(problems []Problem, logs []Log) {
	if len(logs) > 0 && len(problems) > 0 && strings.HasPrefix(logs[0].Text, "Error: ") && !strings.Contains(problems[0].Message, "Error: ") {
		problems[0].Message += "; the log says: " + oneLine(logs[0].Text, longestSentence)
	}
}

func templateProblems(t *aggregationv1alpha1.CoderTemplate) []Problem {
	return Unhealthy("CoderTemplate", t, t.Status.ObservedGeneration, t.Status.Conditions)
}

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
		// The control planes of the namespace may say why.
		list := &coderv1alpha1.CoderControlPlaneList{}
		g.list(bounded, list, controlPlanes, namespace, mostProvisioners)
		r = &Report{Problems: []Problem{{
			Namespace: namespace, Object: "CoderWorkspace/" + name, Reason: "ServiceUnavailable", Message: shown("the aggregated API does not serve it: " + toolset.Message(err)),
			Do: "find out why its control plane does not respond (diagnose_control_plane); if no control plane has a problem, see whether the aggregated API runs (check_health)",
		}}}
		for i := range list.Items {
			cp := &list.Items[i]
			r.Problems = append(r.Problems, Unhealthy("CoderControlPlane", cp, cp.Status.ObservedGeneration, cp.Status.Conditions)...)
		}
		r.finish(subjectOf(namespace, name), "is not available", "", g.wait())
		err = ctx.Err()
	}
	if err != nil {
		return nil, &toolset.CallError{Verb: "get", Resource: workspaces, Namespace: namespace, Name: name, Err: err}
	}
	return r, nil
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
		failed := slices.IndexFunc(ws.Status.Agents, func(agent aggregationv1alpha1.WorkspaceAgent) bool {
			return agent.LifecycleState == "start_error" || agent.LifecycleState == "start_timeout"
		})
		if failed >= 0 {
			agent := ws.Status.Agents[failed].Name
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
	if works && slices.ContainsFunc(controlPlane, func(p Problem) bool { return p.Reason == reasonNotFound }) {
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
	var used []string
	for i := range f.pods {
		used = append(used, f.pods[i].Namespace)
	}
	for i := range f.sets {
		used = append(used, f.sets[i].Namespace)
	}
	slices.Sort(used)
	used = slices.Compact(used)
	var all []corev1.Event
	for _, namespace := range used[:min(len(used), mostNamespaces)] {
		all = append(all, g.warnings(ctx, namespace)...)
	}
	f.events = newest(all, mostEvents, f.has)
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

func controlPlaneName(ws *aggregationv1alpha1.CoderWorkspace) string {
	return ws.Labels[aggregationv1alpha1.LabelControlPlaneName]
}

// firstTemplateName returns the name that the object of a workspace's template has if neither
// the template nor its organization was renamed in Coder. The name of a workspace is
// [<control plane>.]<organization>.<user>.<workspace>, and none of these parts contains a dot.
// Names of objects are in lower case, unlike those in Coder.
func firstTemplateName(ws *aggregationv1alpha1.CoderWorkspace) string {
	parts := strings.Split(ws.Name, ".")
	template := cmp.Or(ws.Spec.TemplateName, ws.Status.TemplateName)
	return strings.ToLower(strings.Join(append(parts[:max(len(parts)-2, 0)], template), "."))
}

// TemplateOf returns the template of a workspace, or nil if there is none. It finds the
// template by its current names in Coder, because the names of objects and in specs are those
// from before a rename. A caller who may not list templates gets the template if its object
// still has the current name. The error is that of the list.
func TemplateOf(ctx context.Context, kube *callers.Kube, ws *aggregationv1alpha1.CoderWorkspace) (*aggregationv1alpha1.CoderTemplate, error) {
	organization, name := ws.Status.OrganizationName, ws.Status.TemplateName
	list := &aggregationv1alpha1.CoderTemplateList{}
	err := kube.List(ctx, list, client.InNamespace(ws.Namespace), client.Limit(1),
		client.MatchingLabels{aggregationv1alpha1.LabelControlPlaneName: controlPlaneName(ws)},
		client.MatchingFields{fieldOrganization: organization, fieldTemplate: name})
	switch {
	case apierrors.IsForbidden(err):
		tmpl, key := &aggregationv1alpha1.CoderTemplate{}, client.ObjectKey{Namespace: ws.Namespace, Name: firstTemplateName(ws)}
		if kube.Get(ctx, key, tmpl) == nil && tmpl.Status.OrganizationName == organization && tmpl.Status.TemplateName == name {
			return tmpl, nil
		}
		return nil, err
	case err != nil || len(list.Items) == 0:
		return nil, err
	}
	return &list.Items[0], nil
}

// The field selectors of a template's current names in Coder.
const (
	fieldOrganization = "status.organizationName"
	fieldTemplate     = "status.templateName"
)

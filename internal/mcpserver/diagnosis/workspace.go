package diagnosis

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// Workspace diagnoses a workspace: its newest build, its template, its pods if they are in
// this cluster, and its control plane. It returns an error only if the workspace cannot be
// read. If the aggregated API is unavailable (503), it returns a report about that.
func Workspace(ctx context.Context, kube *callers.Kube, namespace, name string) (*Report, error) {
	bounded, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	g := &gathering{kube: kube}
	ws := &aggregationv1alpha1.CoderWorkspace{}
	err := kube.Get(bounded, client.ObjectKey{Namespace: namespace, Name: name}, ws)
	if apierrors.IsServiceUnavailable(err) {
		if report := g.unavailable(bounded, namespace, name, err); ctx.Err() == nil {
			return report, nil
		}
	}
	var f *workspaceFacts
	if err == nil {
		f = g.workspace(bounded, ws)
		// If the caller canceled, return its error instead of a report with gaps.
		err = ctx.Err()
	}
	if err != nil {
		return nil, &toolset.CallError{Verb: "get", Resource: workspaces, Namespace: namespace, Name: name, Err: err}
	}
	return reportWorkspace(f), nil
}

func subjectWorkspace(namespace, name string) string {
	return fmt.Sprintf("CoderWorkspace %s/%s", namespace, name)
}

func reportWorkspace(f *workspaceFacts) *Report {
	ws := f.object
	w := writing{
		subject:     subjectWorkspace(ws.Namespace, ws.Name),
		conclusions: ranked(apply(f, workspaceRules())),
		conditions:  ws.Status.Conditions,
		pods:        f.pods,
		events:      f.events,
		gaps:        f.gaps,
	}
	r := w.report()
	if b := ws.Status.LatestBuild; b != nil {
		r.Build = &Build{
			Number: b.Number, Transition: b.Transition, Status: b.Status, Version: b.TemplateVersionName,
			Error: oneLine(cmp.Or(terraformError(f.buildLog), b.Error), longestEvidence),
		}
	}
	r.addLog(fmt.Sprintf("build %d", f.build().Number), f.buildLog)
	r.addLog("the scripts of the agent", f.scriptLog)
	r.addLog("the newest version of CoderTemplate/"+f.templateName(), f.versionLog)
	r.addContainerLogs(f.logs)
	return fitted(r)
}

// unavailable returns the report for a workspace that the aggregated API cannot serve now.
// It contains the control planes of the namespace that are not ready.
func (g *gathering) unavailable(ctx context.Context, namespace, name string, err error) *Report {
	list := &coderv1alpha1.CoderControlPlaneList{}
	g.list(ctx, list, controlPlanes, namespace, mostProvisioners)
	conclusions := one(Finding{
		Severity: severityError, Where: "CoderWorkspace/" + name,
		What:     "it is not available: " + oneLine(toolset.Message(err), longestSentence),
		Evidence: "the aggregated API answers 503",
		Do:       "check why its control plane does not respond (diagnose_control_plane); if none is named, check whether the aggregated API runs (check_health)",
	}, checkHealth())
	for i := range list.Items {
		conclusions = append(conclusions, troubledControlPlane(&list.Items[i])...)
	}
	conclusions[0].symptom = len(conclusions) > 1
	w := writing{subject: subjectWorkspace(namespace, name), conclusions: ranked(conclusions), gaps: g.wait()}
	return fitted(w.report())
}

const (
	// labelWorkspaceID is the label that Coder's example template for Kubernetes sets on
	// its objects.
	labelWorkspaceID = "com.coder.workspace.id"
	// mostNamespaces is the maximum number of namespaces in which pods and Events are read.
	mostNamespaces = 4

	transitionStart = "start"
	// The values of status.latestBuild.status that are used here.
	buildPending = "pending"
	buildFailed  = "failed"
)

type workspaceFacts struct {
	object *aggregationv1alpha1.CoderWorkspace
	// template is nil if it does not exist or could not be read.
	template        *aggregationv1alpha1.CoderTemplate
	templateMissing bool
	// versionLog is the build log of the template's newest version if that failed. buildLog
	// is the log of the workspace's newest build if that did not succeed.
	versionLog, buildLog string
	// scriptLog is the output of the scripts of an agent whose startup script failed.
	scriptLog string
	// controlPlane is nil if it does not exist or could not be read.
	controlPlane        *coderv1alpha1.CoderControlPlane
	controlPlaneMissing bool
	provisioners        []coderv1alpha1.CoderProvisioner
	pods                []corev1.Pod
	podFacts
	gaps []gap
}

// workspace reads the objects that belong to a workspace.
func (g *gathering) workspace(ctx context.Context, ws *aggregationv1alpha1.CoderWorkspace) *workspaceFacts {
	f := &workspaceFacts{object: ws}
	f.remedy = workspaceRemedies()
	g.parts.Go(func() { g.templateOf(ctx, f) })
	g.parts.Go(func() {
		if status := ws.Status.LatestBuildStatus; ws.Status.LatestBuild != nil && !slices.Contains([]string{"running", "stopped", "deleted"}, status) {
			f.buildLog = g.buildLog(ctx, workspaces, ws.Namespace, ws.Name, nil)
		}
		if agent, failed := failedAgent(ws); failed {
			f.scriptLog = g.buildLog(ctx, workspaces, ws.Namespace, ws.Name, url.Values{"source": {"agent"}, "agent": {agent}})
		}
	})
	g.parts.Go(func() {
		if name := controlPlaneName(ws); name != "" {
			key := client.ObjectKey{Namespace: ws.Namespace, Name: name}
			f.controlPlane, f.controlPlaneMissing = get(ctx, g, &coderv1alpha1.CoderControlPlane{}, controlPlanes, key)
		}
		if f.build().Transition == transitionStart {
			g.podsOfWorkspace(ctx, f)
		}
	})
	g.parts.Go(func() { f.provisioners = g.provisionersOf(ctx, ws.Namespace, controlPlaneName(ws)) })
	f.gaps = g.wait()
	return f
}

func workspaceRemedies() remedies {
	const template = "the template"
	return remedies{
		image: "the image in " + template, resources: "the resources in " + template, placement: "the placement in " + template,
		volumes: "the volumes in " + template, references: "what " + template + " refers to", security: "the security context in " + template,
		process: template,
	}
}

func (f *workspaceFacts) build() aggregationv1alpha1.WorkspaceBuild {
	return ptr.Deref(f.object.Status.LatestBuild, aggregationv1alpha1.WorkspaceBuild{})
}

func controlPlaneName(ws *aggregationv1alpha1.CoderWorkspace) string {
	return ws.Labels[aggregationv1alpha1.LabelControlPlaneName]
}

// templateName returns the name of the object of the workspace's template.
func (f *workspaceFacts) templateName() string {
	if f.template != nil {
		return f.template.Name
	}
	return firstTemplateName(f.object)
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

func (g *gathering) templateOf(ctx context.Context, f *workspaceFacts) {
	tmpl, err := TemplateOf(ctx, g.kube, f.object)
	if err != nil {
		g.miss(ctx, &toolset.CallError{Verb: "list", Resource: templates, Namespace: f.object.Namespace, Err: err})
		return
	}
	f.template, f.templateMissing = tmpl, tmpl == nil
	if tmpl != nil && tmpl.Status.LatestVersionStatus == versionFailed {
		f.versionLog = g.buildLog(ctx, templates, tmpl.Namespace, tmpl.Name, nil)
	}
}

// podsOfWorkspace reads pods and ReplicaSets with the label that Coder's example template
// sets, and their logs and Events. Terraform may create them in any namespace, so all
// namespaces are searched. If the caller may not list pods in all namespaces, only the
// workspace namespaces of the control plane are searched.
func (g *gathering) podsOfWorkspace(ctx context.Context, f *workspaceFacts) {
	if f.object.Status.ID == "" {
		return
	}
	ours := client.MatchingLabels{labelWorkspaceID: f.object.Status.ID}
	list := &corev1.PodList{}
	namespaces := []string{""}
	err := g.kube.List(ctx, list, ours, client.Limit(mostPods))
	switch {
	case apierrors.IsForbidden(err):
		namespaces = f.workspaceNamespaces()
		for _, namespace := range namespaces {
			some := &corev1.PodList{}
			g.list(ctx, some, pods, namespace, mostPods, ours)
			list.Items = append(list.Items, some.Items...)
		}
	case err != nil:
		g.miss(ctx, &toolset.CallError{Verb: "list", Resource: pods, Err: err})
		return
	}
	var sets []appsv1.ReplicaSet
	for _, namespace := range namespaces {
		some := &appsv1.ReplicaSetList{}
		g.list(ctx, some, replicaSets, namespace, mostReplicaSets, ours)
		sets = append(sets, some.Items...)
	}
	f.pods = list.Items[:min(len(list.Items), mostPods)]
	f.sets = slices.DeleteFunc(sets, func(s appsv1.ReplicaSet) bool { return ptr.Deref(s.Spec.Replicas, 1) == 0 })
	f.current, _ = byRevision(f.pods, nil)
	f.logs = g.containerLogs(ctx, suspects(f.current, !agentsConnected(f.object)))
	f.events = g.eventsOfPods(ctx, f)
}

// workspaceNamespaces returns the namespaces in which the control plane allows Coder to
// create workspaces.
func (f *workspaceFacts) workspaceNamespaces() []string {
	all := []string{f.object.Namespace}
	if f.controlPlane != nil {
		all = append(all, f.controlPlane.Spec.RBAC.WorkspaceNamespaces...)
	}
	return all[:min(len(all), mostNamespaces)]
}

func (g *gathering) eventsOfPods(ctx context.Context, f *workspaceFacts) []corev1.Event {
	var namespaces []string
	for _, pod := range f.pods {
		namespaces = append(namespaces, pod.Namespace)
	}
	for _, set := range f.sets {
		namespaces = append(namespaces, set.Namespace)
	}
	slices.Sort(namespaces)
	namespaces = slices.Compact(namespaces)
	var all []corev1.Event
	for _, namespace := range namespaces[:min(len(namespaces), mostNamespaces)] {
		all = append(all, g.eventsOf(ctx, namespace)...)
	}
	return concerning(all, func(object corev1.ObjectReference) bool {
		return object.Kind == "Pod" && slices.ContainsFunc(f.pods, func(p corev1.Pod) bool {
			return p.Name == object.Name && p.Namespace == object.Namespace
		}) || object.Kind == "ReplicaSet" && slices.ContainsFunc(f.sets, func(s appsv1.ReplicaSet) bool {
			return s.Name == object.Name && s.Namespace == object.Namespace
		})
	})
}

func agentsConnected(ws *aggregationv1alpha1.CoderWorkspace) bool {
	return !slices.ContainsFunc(ws.Status.Agents, func(a aggregationv1alpha1.WorkspaceAgent) bool { return a.Status != "connected" })
}

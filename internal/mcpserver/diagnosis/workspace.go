package diagnosis

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	return examiner{kube, timeLimit}.workspace(ctx, namespace, name)
}

func (e examiner) workspace(ctx context.Context, namespace, name string) (*Report, error) {
	bounded, cancel := context.WithTimeout(ctx, e.limit)
	defer cancel()
	g := &gathering{kube: e.kube}
	ws := &aggregationv1alpha1.CoderWorkspace{}
	err := e.kube.Get(bounded, client.ObjectKey{Namespace: namespace, Name: name}, ws)
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

// reportWorkspace builds the report from the facts.
func reportWorkspace(f *workspaceFacts) *Report {
	ws := f.object
	w := writing{
		subject:     subjectWorkspace(ws.Namespace, ws.Name),
		conclusions: conclude(f, workspaceRules()),
		ready:       findCondition(ws.Status.Conditions, aggregationv1alpha1.ConditionReady),
		gaps:        f.gaps,
	}
	r := w.report()
	r.Conditions = describeConditions(ws.Status.Conditions)
	r.Pods = describePods(f.pods)
	r.Events = describeEvents(f.events)
	if b := ws.Status.LatestBuild; b != nil {
		r.Build = &Build{
			Number: b.Number, Transition: b.Transition, Status: b.Status, Version: b.TemplateVersionName,
			Error: oneLine(cmp.Or(terraformError(f.buildLog), b.Error), longestEvidence),
		}
	}
	if f.buildLog != "" {
		r.Logs = append(r.Logs, shownLog(Log{Where: fmt.Sprintf("build %d", f.build().Number), Text: f.buildLog}))
	}
	if f.scriptLog != "" {
		r.Logs = append(r.Logs, shownLog(Log{Where: "the scripts of the agent", Text: f.scriptLog}))
	}
	if f.versionLog != "" {
		r.Logs = append(r.Logs, shownLog(Log{Where: "the newest version of CoderTemplate/" + f.template.Name, Text: f.versionLog}))
	}
	r.Logs = append(r.Logs, containerLogsShown(f.logs)...)
	return fitted(r)
}

// unavailable returns the report for a workspace that the aggregated API cannot serve now.
// It contains the control planes of the namespace that are not ready.
func (g *gathering) unavailable(ctx context.Context, namespace, name string, err error) *Report {
	list := &coderv1alpha1.CoderControlPlaneList{}
	g.list(ctx, list, controlPlanes, namespace, mostProvisioners)
	conclusions := one(Finding{
		Severity: severityError, Where: "CoderWorkspace/" + name,
		What:     "it cannot be shown now: " + oneLine(toolset.Message(err), longestSentence),
		Evidence: "the aggregated API answers 503",
		Do:       "see why its control plane does not answer (diagnose_control_plane); where none is named, whether the aggregated API runs (check_health)",
	}, Next{Tool: "check_health", Arguments: map[string]any{}})
	for i := range list.Items {
		cp := &list.Items[i]
		if troubled := troubledControlPlane(cp); troubled != nil {
			conclusions[0].symptom = true
			conclusions = append(conclusions, *troubled)
		}
	}
	said := conclusions
	w := writing{
		subject:     subjectWorkspace(namespace, name),
		conclusions: conclude(said, []rule[[]conclusion]{func(all []conclusion) []conclusion { return all }}),
		gaps:        g.wait(),
	}
	return fitted(w.report())
}

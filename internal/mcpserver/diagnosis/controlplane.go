package diagnosis

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// ControlPlane diagnoses a control plane. It returns an error only if the control plane
// does not exist or the caller may not read it. Other objects that cannot be read are gaps
// in the report.
func ControlPlane(ctx context.Context, kube *callers.Kube, namespace, name string) (*Report, error) {
	return examiner{kube, timeLimit}.controlPlane(ctx, namespace, name)
}

func (e examiner) controlPlane(ctx context.Context, namespace, name string) (*Report, error) {
	bounded, cancel := context.WithTimeout(ctx, e.limit)
	defer cancel()
	cp := &coderv1alpha1.CoderControlPlane{}
	err := e.kube.Get(bounded, client.ObjectKey{Namespace: namespace, Name: name}, cp)
	var f *controlPlaneFacts
	if err == nil {
		g := &gathering{kube: e.kube}
		f = g.controlPlane(bounded, cp)
		// If the caller canceled, return its error instead of a report with gaps.
		err = ctx.Err()
	}
	if err != nil {
		return nil, &toolset.CallError{Verb: "get", Resource: controlPlanes, Namespace: namespace, Name: name, Err: err}
	}
	return reportControlPlane(f), nil
}

// reportControlPlane builds the report from the facts.
func reportControlPlane(f *controlPlaneFacts) *Report {
	cp := f.object
	w := writing{
		subject:     fmt.Sprintf("CoderControlPlane %s/%s", cp.Namespace, cp.Name),
		conclusions: conclude(f, controlPlaneRules()),
		ready:       findCondition(cp.Status.Conditions, coderv1alpha1.ConditionReady),
		gaps:        f.gaps,
	}
	r := w.report()
	r.Conditions = describeConditions(cp.Status.Conditions)
	r.Pods = describePods(f.pods)
	r.Events = describeEvents(f.events)
	r.Logs = containerLogsShown(f.logs)
	for _, t := range f.templates {
		if t.log != "" {
			r.Logs = append(r.Logs, shownLog(Log{Where: "the newest version of CoderTemplate/" + t.object.Name, Text: t.log}))
		}
	}
	return fitted(r)
}

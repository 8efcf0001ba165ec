package diagnosis

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
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
		if meta.IsStatusConditionTrue(conditions, coderv1alpha1.ConditionServed) {
			failedVersions, buildLogs = g.failedTemplates(ctx, cp)
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

// failedTemplates returns the problems of the templates of a control plane whose newest version
// failed to build, and the errors in the logs of these builds.
func (g *gathering) failedTemplates(ctx context.Context, cp *coderv1alpha1.CoderControlPlane) (found []Problem, logs []Log) {
	list := &aggregationv1alpha1.CoderTemplateList{}
	g.list(ctx, list, templates, cp.Namespace, mostTemplates,
		client.MatchingLabels{aggregationv1alpha1.LabelControlPlaneName: cp.Name}, client.MatchingFields{fieldVersionStatus: versionFailed})
	for i := range list.Items {
		problems, log := g.failedTemplate(ctx, &list.Items[i])
		found, logs = append(found, problems...), append(logs, log...)
	}
	return found, logs
}

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

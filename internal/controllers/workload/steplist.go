package workload

import (
	"slices"

	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

// The names of the shared steps.
const (
	StepName             = "name"
	StepAdoption         = "adoption"
	StepFinalizer        = "finalizer"
	StepReferences       = "references"
	StepServiceAccount   = "service account"
	StepWorkspaces       = "workspace access"
	StepDeployment       = "deployment"
	StepService          = "service"
	StepDisruptionBudget = "disruption budget"
	StepNetworkPolicy    = "network policy"
	StepMetricsService   = "metrics service"
	StepServiceMonitor   = "service monitor"
	StepExposure         = "exposure"
	StepPrune            = "prune"
	StepRollout          = "rollout"
	StepRelease          = "release"
)

// Needs are the steps of the kind that must succeed before a shared step runs.
type Needs struct {
	// References are the steps that complete the Workload. They run before the references of the
	// pods are read, and so before the Deployment is applied.
	References []string
	// Deployment are the steps that must succeed before the Deployment is created or changed.
	Deployment []string
}

// Begin returns the first shared steps: the check of the name, the search for an adopted
// Deployment, and the finalizer. All of the kind's own steps need StepFinalizer.
func Begin[S Scope](t *Toolkit) []steps.Step[S] {
	return []steps.Step[S]{
		Step[S](StepName, t.CheckName),
		Step[S](StepAdoption, t.LookForAdopted, StepName),
		Step[S](StepFinalizer, t.EnsureFinalizer, StepAdoption),
	}
}

// Steps returns the other shared steps, from reading the references of the pods to waiting until
// the pods are ready.
func Steps[S Scope](t *Toolkit, needs Needs) []steps.Step[S] {
	list := []steps.Step[S]{
		Step[S](StepReferences, t.ReadReferences, slices.Concat([]string{StepFinalizer}, needs.References)...),
		Step[S](StepWorkspaces, t.ApplyWorkspaceAccess, StepFinalizer),
	}
	for _, name := range childSteps(func(child) bool { return true }) {
		after := []string{StepFinalizer}
		if name == StepDeployment {
			after = slices.Concat([]string{StepReferences}, needs.Deployment)
		}
		list = append(list, Step[S](name, t.applyChildren(name), after...))
	}
	return append(list,
		Step[S](StepPrune, t.Prune, StepFinalizer),
		Step[S](StepRollout, t.WatchRollout, StepDeployment),
	)
}

// childSteps returns the steps that apply the chosen children.
func childSteps(chosen func(child) bool) (names []string) {
	for _, c := range children() {
		if chosen(c) && !slices.Contains(names, c.step) {
			names = append(names, c.step)
		}
	}
	return names
}

// appliedSteps returns the steps that must succeed before all children are applied, except those
// with a condition of their own.
func appliedSteps() []string {
	return append(childSteps(func(c child) bool { return c.problem == nil }), StepFinalizer, StepPrune)
}

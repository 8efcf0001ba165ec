package workload

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

// Kind is what the shared steps must know of a kind.
type Kind struct {
	// Name of the kind, for example CoderControlPlane.
	Name string
	// Noun is what people call one of them, for example "control plane".
	Noun string
	// Finalizer holds one back until it is cleaned up.
	Finalizer string
	// OwnerLabel and OwnerNamespaceLabel name the owner on objects in other
	// namespaces. Empty, the kind has none there.
	OwnerLabel, OwnerNamespaceLabel string
}

// Problem is something that a person can mend, with a reason of api/v1alpha1.
type Problem struct{ Reason, Message string }

// Pass is one custom resource during one pass: what it is, and what the shared
// steps saw. The scope of a kind embeds it.
type Pass struct {
	Kind Kind
	// Object is the custom resource as the cluster has it, with the status of the
	// last write.
	Object client.Object
	// Previous is the shared part of that status.
	Previous coderv1alpha1.WorkloadStatus
	Now      time.Time
	// Workload is what the kind makes of its spec. The step StepReferences completes
	// it: EnvFromNames, Checksum and KeepReplicas.
	Workload resources.Workload

	// Hooks are what the kind knows better.
	Hooks Hooks

	// Problems kept an object from being applied; Grants, the workspace rights of a
	// namespace; Missing are Secrets and ConfigMaps without which no pod starts.
	Problems, Grants, Missing []Problem
	// Exposure and Monitoring are what keeps the spec's Ingress or HTTPRoute, and its
	// ServiceMonitor, from working.
	Exposure, Monitoring *Problem
	// Deployment is ours as the cluster has it, or nil. DeploymentForeign and
	// ServiceForeign say that the name is taken.
	Deployment        *appsv1.Deployment
	DeploymentForeign bool
	ServiceForeign    bool
	// Trouble is why the pods are not ready, where that is known.
	Trouble *Problem

	// Outcome is how the steps ended. Whoever runs them sets it.
	Outcome steps.Outcome
	// Released says that the finalizer is gone, and the object with it.
	Released bool

	used []contentKey
	// adopted is the Deployment where it was handed over, or nil.
	adopted *appsv1.Deployment
	// seen is the version of our Deployment from which KeepReplicas was decided, or
	// empty where there is none.
	seen string
}

// Hooks are what a kind knows better than the shared steps. Each may be nil.
type Hooks struct {
	// Unconfigured says what the spec lacks, so that the process in the pods cannot
	// work. It is asked when the pods can be made and are not ready.
	Unconfigured func() *Problem
	// Explain says what the words of a container that is not ready mean, or nil. The
	// result is redacted after that.
	Explain func(container, words string) *Problem
	// MissingReference names a missing Secret or ConfigMap as the spec does, or nil.
	// The key is empty where the whole object is missing.
	MissingReference func(reference resources.Reference, key string) *Problem
}

// Scope is what steps run over: a struct that embeds a Pass, by its pointer.
type Scope interface{ Shared() *Pass }

// Shared is the pass itself.
func (p *Pass) Shared() *Pass { return p }

// Deleting says whether the object is being deleted.
func (p *Pass) Deleting() bool { return !p.Object.GetDeletionTimestamp().IsZero() }

// Wanted is the number of pods that are wanted: what the spec says, or what
// somebody scaled the Deployment to since.
func (p *Pass) Wanted() int32 {
	if p.Workload.KeepReplicas && p.Deployment != nil && p.Deployment.Spec.Replicas != nil {
		return *p.Deployment.Spec.Replicas
	}
	return resources.Replicas(p.Workload)
}

// PodLabels choose the pods. Of an object that is being deleted the Deployment may be
// gone before them, so the status tells.
func (p *Pass) PodLabels() map[string]string {
	if p.Deleting() {
		if chosen, err := labels.ConvertSelectorToLabelsMap(p.Previous.Selector); err == nil && len(chosen) > 0 {
			return chosen
		}
	}
	return resources.PodLabels(p.Workload)
}

// Available says whether our Deployment has the pods that are wanted.
func (p *Pass) Available() bool { return p.Deployment != nil && available(p.Deployment, p.Wanted()) }

// Complain notes what keeps an object from being applied.
func (p *Pass) Complain(reason, message string) {
	p.Problems = append(p.Problems, Problem{Reason: reason, Message: message})
}

// Step makes a step over a kind's scope of one over the Pass in it.
func Step[S Scope](name string, run func(context.Context, *Pass) error, needs ...string) steps.Step[S] {
	return steps.Step[S]{Name: name, Needs: needs, Run: func(ctx context.Context, scope S) error {
		return run(ctx, scope.Shared())
	}}
}

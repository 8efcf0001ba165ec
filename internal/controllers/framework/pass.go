package framework

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// Kind describes a kind to the shared steps.
type Kind struct {
	// Name is the name of the kind, for example CoderControlPlane.
	Name string
	// Noun is the name of the kind in messages, for example "control plane".
	Noun string
	// Finalizer is the finalizer of the kind's objects.
	Finalizer string
	// OwnerLabel and OwnerNamespaceLabel are the labels that name the owner of objects in other
	// namespaces. If they are empty, the kind has no such objects.
	OwnerLabel, OwnerNamespaceLabel string
}

// Problem is a failure that a user can fix. Reason is a reason from api/v1alpha1.
type Problem struct{ Reason, Message string }

// Pass is the state of one reconciliation of one custom resource: the resource itself, and the
// results of the shared steps. The scope of each kind embeds it.
type Pass struct {
	Kind Kind
	// Object is the custom resource as the cluster has it, with the status of the last write.
	Object client.Object
	// Previous is the shared part of that status.
	Previous coderv1alpha1.WorkloadStatus
	Now      time.Time
	// Workload is what the kind builds from its spec. The step StepReferences completes it with
	// EnvFromNames, Checksum and KeepReplicas, and the step StepAdoption with Live and Adopted.
	Workload resources.Workload

	// Hooks are the callbacks of the kind.
	Hooks Hooks

	// Problems are failures to apply objects. Grants are failures to grant the permissions for
	// workspaces in a namespace. Missing are the Secrets and ConfigMaps without which no new
	// pod starts.
	Problems, Grants, Missing []Problem
	// Granted are the namespaces in which the permissions for workspaces are granted. It is nil if
	// the step StepWorkspaces did not run.
	Granted []string
	// Exposure is the reason why the Ingress or HTTPRoute does not work. Monitoring is the same for
	// the ServiceMonitor.
	Exposure, Monitoring *Problem
	// Current is the workload's Deployment before the pass, also one that is being taken over, or nil.
	Current *appsv1.Deployment
	// Deployment is the workload's Deployment as the cluster has it, or nil. DeploymentForeign and
	// ServiceForeign report that an object of another owner has the name.
	Deployment        *appsv1.Deployment
	DeploymentForeign bool
	ServiceForeign    bool
	// Trouble is the reason why the pods are not ready, or nil if it is unknown.
	Trouble *Problem
	// keepsCrashing reports that Trouble is a container that does not recover by itself.
	keepsCrashing bool

	// Outcome is the result of the steps.
	Outcome Outcome
	// Stays describes what a deletion with --cascade=orphan leaves in Coder and in other namespaces,
	// because the pods need it.
	Stays []string
	// Released reports that the finalizer was removed.
	Released bool

	// wanted contains the names of the children that the spec asks for.
	wanted map[string]bool
	// known are the contents of Secrets and ConfigMaps that the last pass read, and contents those of
	// this pass.
	known, contents contents
	// seen is the resource version of the Deployment from which KeepReplicas was decided. It is
	// empty if there is no Deployment.
	seen string
}

// Hooks are callbacks that provide what only the kind knows. Each may be nil.
type Hooks struct {
	// Unconfigured returns the setting that is missing in the spec and without which the process in
	// the pods cannot work, or nil. It is called if the pods can be created and are not ready.
	Unconfigured func() *Problem
	// Explain returns the problem that the output of Coder's unready container describes, or nil. The
	// caller redacts the result.
	Explain func(output string) *Problem
	// MissingReference describes a missing Secret or ConfigMap in terms of the spec, or returns
	// nil. An empty key means that the whole object is missing.
	MissingReference func(reference resources.Reference, key string) *Problem
}

// Deleting reports whether the object is being deleted.
func (p *Pass) Deleting() bool { return !p.Object.GetDeletionTimestamp().IsZero() }

// Wanted returns the desired number of pods: that of the spec, or the number to which the
// Deployment was scaled since.
func (p *Pass) Wanted() int32 {
	if p.Workload.HeldReplicas == nil && p.Workload.KeepReplicas && p.Deployment != nil && p.Deployment.Spec.Replicas != nil {
		return *p.Deployment.Spec.Replicas
	}
	return resources.Replicas(p.Workload)
}

// PodLabels returns the labels that select the pods. While the object is being deleted, its
// Deployment may be gone before the pods. In that case the labels come from the selector in the
// status.
func (p *Pass) PodLabels() map[string]string {
	if p.Deleting() {
		if chosen, err := labels.ConvertSelectorToLabelsMap(p.Previous.Selector); err == nil && len(chosen) > 0 {
			return chosen
		}
	}
	return resources.PodLabels(p.Workload)
}

// Available reports whether the Deployment has the desired number of available pods, and all pods are of the
// newest revision.
func (p *Pass) Available() bool {
	d, wanted := p.Deployment, p.Wanted()
	return d != nil && d.Status.UpdatedReplicas >= wanted && d.Status.AvailableReplicas >= wanted && RolledOut(d)
}

// Older reports whether an object was created before another one. Creation times have no fractions of
// a second, so the names decide between equal ones.
func Older(a, b client.Object) bool {
	return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(a.GetNamespace(), b.GetNamespace()),
		cmp.Compare(a.GetName(), b.GetName())) < 0
}

// Complain records a reason why an object is not applied.
func (p *Pass) Complain(reason, message string) {
	p.Problems = append(p.Problems, Problem{Reason: reason, Message: message})
}

// failed records the problem to report for a failure, if any, and returns the error with which the step ends.
func (p *Pass) failed(found *Problem, ended error) error {
	if found != nil {
		p.Problems = append(p.Problems, *found)
	}
	return ended
}

// CheckName stops the pass if no valid names for the children can be derived from the object's
// name. The CRD rejects such names, but an object can still come from a restored backup or from the
// CRD of the public predecessor.
func (t *Toolkit) CheckName(_ context.Context, p *Pass) error {
	message := InvalidName(p)
	if message == "" {
		return nil
	}
	p.Complain(coderv1alpha1.ReasonInvalidName, message)
	return ensure.Fails(coderv1alpha1.ReasonInvalidName, 0, "%s", message)
}

// InvalidName returns why the name of the workload is invalid, or an empty string. If the workload
// has a Service, the name must be valid for a Service, otherwise for a Deployment.
func InvalidName(p *Pass) string {
	remedy := "delete this " + p.Kind.Noun + " and create one with another name"
	name := p.Workload.Name
	if p.Workload.Serving == nil {
		if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
			return fmt.Sprintf("the name %q cannot be that of a Deployment: %s", name, remedy)
		}
		return ""
	}
	remedy = "the name becomes that of a Service; " + remedy
	switch {
	case len(name) > validation.DNS1035LabelMaxLength:
		return fmt.Sprintf("the name has %d characters and may have %d: %s", len(name), validation.DNS1035LabelMaxLength, remedy)
	case strings.Contains(name, "."):
		return fmt.Sprintf("the name %q must not contain a dot: %s", name, remedy)
	case len(validation.IsDNS1035Label(name)) > 0:
		return fmt.Sprintf("the name %q must begin with a letter: %s", name, remedy)
	}
	return ""
}

package controlplane

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/access"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

// scope is one control plane during one pass: what it is, and what the steps
// saw. The status is computed from it alone.
type scope struct {
	// cp is the control plane as the cluster has it, with the status of the last
	// write.
	cp  *coderv1alpha1.CoderControlPlane
	now time.Time
	// inputs is what the builders need besides the spec.
	inputs resources.Inputs

	// problems kept an object from being applied, grants the workspace rights of a
	// namespace.
	problems []problem
	grants   []problem

	// deployment is ours as the cluster has it, or nil. deploymentForeign and
	// serviceForeign say that the name is taken.
	deployment        *appsv1.Deployment
	deploymentForeign bool
	serviceForeign    bool
	// trouble is why the pods are not ready, where that is known.
	trouble *problem

	// build is what Coder says about itself, coderErr why it did not.
	build    *coderd.BuildInfo
	coderErr error
	// access is how the operator's access stands, or nil where that was not
	// looked at.
	access *access.Result

	// outcome is how the steps ended.
	outcome steps.Outcome
	// released says that the finalizer is gone, and the control plane with it.
	released bool
}

// problem is something that a person can mend, with a reason of api/v1alpha1.
type problem struct{ reason, message string }

func (s *scope) deleting() bool { return !s.cp.DeletionTimestamp.IsZero() }

func (s *scope) accessDisabled() bool { return s.cp.Spec.OperatorAccess.Disabled }

func (s *scope) url() string { return resources.URL(s.cp, s.inputs) }

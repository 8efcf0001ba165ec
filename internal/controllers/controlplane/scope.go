package controlplane

import (
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/access"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/resources"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// scope is one control plane during one pass: what it is, and what the steps
// saw. The status is computed from it alone.
type scope struct {
	workload.Pass
	// cp is the Object of the pass.
	cp *coderv1alpha1.CoderControlPlane

	// build is what Coder says about itself, coderErr why it did not. justReady says
	// that its pods changed a moment ago, so that no answer is no news yet.
	build     *coderd.BuildInfo
	coderErr  error
	justReady bool
	// access is how the operator's access stands, or nil where that was not
	// looked at.
	access *access.Result
	// basis is that on which both depend.
	basis *basis
	// believed says that build and access are of an earlier pass.
	believed bool
	license  license
	// prefix is what stands in front of the names of objects, or nil where that is
	// not decided.
	prefix *string
}

// kind is what the shared steps must know of control planes.
func kind() workload.Kind {
	return workload.Kind{
		Name: "CoderControlPlane", Noun: "control plane", Finalizer: coderv1alpha1.FinalizerCleanup,
		OwnerLabel: coderv1alpha1.LabelControlPlane, OwnerNamespaceLabel: coderv1alpha1.LabelControlPlaneNamespace,
	}
}

// newScope begins a pass.
func (r *Reconciler) newScope(cp *coderv1alpha1.CoderControlPlane) *scope {
	s := &scope{cp: cp, prefix: cp.Status.ObjectNamePrefix}
	s.Pass = r.kit.NewPass(kind(), cp, &cp.Status.WorkloadStatus, resources.Workload(cp, resources.Inputs{
		ClusterDomain: r.kit.ClusterDomain, OperatorNamespace: r.kit.OperatorNamespace, PodIPv6: r.kit.PodIPv6,
	}))
	s.Hooks = workload.Hooks{
		Unconfigured: s.databaseMissing, Explain: databaseTrouble, MissingReference: s.databaseSecretMissing,
	}
	return s
}

// inputs is what the builders of a control plane need besides the spec.
func (s *scope) inputs() resources.Inputs {
	in := resources.Inputs{
		EnvFromNames: s.Workload.EnvFromNames, OperatorNamespace: s.Workload.OperatorNamespace,
		Checksum: s.Workload.Checksum, KeepReplicas: s.Workload.KeepReplicas, Adopted: s.Workload.Adopted,
	}
	if s.Workload.Serving != nil {
		in.ClusterDomain, in.PodIPv6 = s.Workload.Serving.ClusterDomain, s.Workload.Serving.PodIPv6
	}
	return in
}

func (s *scope) accessDisabled() bool { return s.cp.Spec.OperatorAccess.Disabled }

func (s *scope) url() string { return workloadresources.URL(s.Workload) }

package controlplane

import (
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/access"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// scope is the state of one reconciliation of one control plane: the object itself and the results
// of the steps. The status is computed only from the scope.
type scope struct {
	workload.Pass
	// cp is the Object of the pass.
	cp *coderv1alpha1.CoderControlPlane

	// build is Coder's answer about its version, and coderErr the error of that request. justReady
	// reports that the pods changed recently, so that an unreachable Coder is expected.
	build     *coderd.BuildInfo
	coderErr  error
	justReady bool
	// access is the state of the operator's access, or nil if it was not checked.
	access *access.Result
	// basis identifies the cluster objects on which both depend.
	basis *basis
	// believed reports that build and access are the cached results of an earlier pass.
	believed bool
	license  license
	// prefix is the prefix of the names of objects, or nil if it is not decided.
	prefix *string
}

// kind returns the description of control planes for the shared steps.
func kind() workload.Kind {
	return workload.Kind{
		Name: "CoderControlPlane", Noun: "control plane", Finalizer: coderv1alpha1.FinalizerCleanup,
		OwnerLabel: coderv1alpha1.LabelControlPlane, OwnerNamespaceLabel: coderv1alpha1.LabelControlPlaneNamespace,
	}
}

// newScope starts a pass.
func (r *Reconciler) newScope(cp *coderv1alpha1.CoderControlPlane) *scope {
	s := &scope{cp: cp, prefix: cp.Status.ObjectNamePrefix}
	s.Pass = r.kit.NewPass(kind(), cp, &cp.Status.WorkloadStatus, resources.ControlPlane(cp, resources.ControlPlaneInputs{
		ClusterDomain: r.kit.ClusterDomain, OperatorNamespace: r.kit.OperatorNamespace, PodIPv6: r.kit.PodIPv6,
	}))
	s.Hooks = workload.Hooks{
		Unconfigured: s.databaseMissing, Explain: databaseTrouble, MissingReference: s.databaseSecretMissing,
	}
	return s
}

// inputs returns the values that the builders of a control plane need in addition to the spec.
func (s *scope) inputs() resources.ControlPlaneInputs {
	in := resources.ControlPlaneInputs{
		EnvFromNames: s.Workload.EnvFromNames, OperatorNamespace: s.Workload.OperatorNamespace,
		Checksum: s.Workload.Checksum, KeepReplicas: s.Workload.KeepReplicas, Adopted: s.Workload.Adopted,
	}
	if s.Workload.Serving != nil {
		in.ClusterDomain, in.PodIPv6 = s.Workload.Serving.ClusterDomain, s.Workload.Serving.PodIPv6
	}
	return in
}

func (s *scope) accessDisabled() bool { return s.cp.Spec.OperatorAccess.Disabled }

func (s *scope) url() string { return resources.URL(s.Workload) }

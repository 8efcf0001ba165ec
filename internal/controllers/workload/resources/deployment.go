package resources

import (
	"cmp"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// usualShare is the default of maxUnavailable and maxSurge, as in Kubernetes.
const usualShare = "25%"

// Deployment returns the Deployment of the pods. It returns a SpecError if spec.podTemplate cannot
// be merged.
func Deployment(w Workload) (*appsv1.Deployment, error) {
	template, err := PodTemplate(w)
	if err != nil {
		return nil, err
	}
	annotations := merged(w.Spec.Deployment.Annotations, map[string]string{coderv1alpha1.AnnotationReplicas: strconv.Itoa(int(Replicas(w)))})
	if w.Adopted != nil && w.Adopted.Checksum != "" {
		annotations[coderv1alpha1.AnnotationAdoptedChecksum] = w.Adopted.Checksum
	}
	d := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: meta(w, w.Name, w.Spec.Deployment.Labels, annotations),
		Spec: appsv1.DeploymentSpec{
			Selector: ptr.To(selector(w)),
			Strategy: strategy(w.Spec.Deployment.Strategy),
			Template: template,
		},
	}
	if !w.KeepReplicas {
		d.Spec.Replicas = ptr.To(Replicas(w))
	}
	return d, nil
}

// Replicas returns the number of pods that the spec asks for.
func Replicas(w Workload) int32 {
	return ptr.Deref(w.Spec.Replicas, 1)
}

// strategy returns the strategy with explicit numbers for a rolling update. The API server would
// default the same numbers, but without a field owner. They would then remain when the spec changes
// to Recreate, and the API server rejects them with Recreate.
func strategy(spec *coderv1alpha1.DeploymentStrategy) appsv1.DeploymentStrategy {
	spec = spec.DeepCopy()
	if spec != nil && spec.Type == string(appsv1.RecreateDeploymentStrategyType) {
		return appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	rolling := &appsv1.RollingUpdateDeployment{
		MaxUnavailable: ptr.To(intstr.FromString(usualShare)), MaxSurge: ptr.To(intstr.FromString(usualShare)),
	}
	if spec != nil && spec.RollingUpdate != nil {
		rolling.MaxUnavailable = cmp.Or(spec.RollingUpdate.MaxUnavailable, rolling.MaxUnavailable)
		rolling.MaxSurge = cmp.Or(spec.RollingUpdate.MaxSurge, rolling.MaxSurge)
	}
	return appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: rolling}
}

// ServiceAccount returns the ServiceAccount of the pods, or nil if the spec uses an existing one.
func ServiceAccount(w Workload) *corev1.ServiceAccount {
	spec := w.Spec.ServiceAccount
	if spec.DisableCreate {
		return nil
	}
	return &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "ServiceAccount"},
		ObjectMeta: meta(w, w.ServiceAccountName, spec.Labels, spec.Annotations),
	}
}

// PodDisruptionBudget returns the PodDisruptionBudget of the pods, or nil if the spec does not ask
// for one.
func PodDisruptionBudget(w Workload) *policyv1.PodDisruptionBudget {
	spec := w.Spec.PodDisruptionBudget.DeepCopy()
	if spec == nil {
		return nil
	}
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "PodDisruptionBudget"},
		ObjectMeta: meta(w, w.Name, nil, nil),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: spec.MinAvailable, MaxUnavailable: spec.MaxUnavailable, Selector: ptr.To(selector(w)),
		},
	}
}

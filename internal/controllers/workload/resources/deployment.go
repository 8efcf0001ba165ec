package resources

import (
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// Deployment runs the pods. A spec.podTemplate that does not fit is a SpecError.
func Deployment(w Workload) (*appsv1.Deployment, error) {
	template, err := PodTemplate(w)
	if err != nil {
		return nil, err
	}
	annotations := maps.Clone(w.Spec.Deployment.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[coderv1alpha1.AnnotationReplicas] = strconv.Itoa(int(Replicas(w)))
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

// Replicas is the number of pods that the spec asks for.
func Replicas(w Workload) int32 {
	return ptr.Deref(w.Spec.Replicas, 1)
}

func strategy(spec *coderv1alpha1.DeploymentStrategy) appsv1.DeploymentStrategy {
	if spec == nil {
		return appsv1.DeploymentStrategy{}
	}
	spec = spec.DeepCopy()
	s := appsv1.DeploymentStrategy{Type: appsv1.DeploymentStrategyType(spec.Type)}
	if s.Type == "" {
		s.Type = appsv1.RollingUpdateDeploymentStrategyType
	}
	if spec.RollingUpdate != nil && s.Type == appsv1.RollingUpdateDeploymentStrategyType {
		s.RollingUpdate = &appsv1.RollingUpdateDeployment{
			MaxUnavailable: spec.RollingUpdate.MaxUnavailable, MaxSurge: spec.RollingUpdate.MaxSurge,
		}
	}
	return s
}

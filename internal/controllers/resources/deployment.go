package resources

import (
	"cmp"
	"maps"
	"math"
	"slices"
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
	annotations := merged(w.Spec.Deployment.Annotations, map[string]string{coderv1alpha1.AnnotationReplicas: strconv.Itoa(int(SpecReplicas(w)))})
	if w.Adopted != nil && w.Adopted.Checksum != "" {
		annotations[coderv1alpha1.AnnotationAdoptedChecksum] = w.Adopted.Checksum
	}
	d := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: meta(w, w.Name, w.Spec.Deployment.Labels, annotations),
		Spec: appsv1.DeploymentSpec{
			Selector: ptr.To(selector(w)),
			Strategy: strategy(w),
			Template: template,
		},
	}
	if w.HeldReplicas != nil || !w.KeepReplicas {
		d.Spec.Replicas = ptr.To(Replicas(w))
	}
	return d, nil
}

// Replicas returns the number of pods that the spec or an upgrade asks for.
func Replicas(w Workload) int32 {
	return ptr.Deref(w.HeldReplicas, SpecReplicas(w))
}

// SpecReplicas returns the number of pods that the spec asks for.
func SpecReplicas(w Workload) int32 { return ptr.Deref(w.Spec.Replicas, 1) }

// strategy returns the strategy with explicit numbers for a rolling update. The API server would
// default the same numbers, but without a field owner. They would then remain when the spec changes
// to Recreate, and the API server rejects them with Recreate.
func strategy(w Workload) appsv1.DeploymentStrategy {
	spec := w.Spec.Deployment.Strategy.DeepCopy()
	if w.StopFirst || spec != nil && spec.Type == string(appsv1.RecreateDeploymentStrategyType) {
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

// Adopted describes a Deployment that somebody else created and handed over. Its selector is
// immutable. The name of the container and the order of lists have no effect on the pods, so they
// are kept: a change of them would only replace the pods.
type Adopted struct {
	// Selector selects the pods.
	Selector map[string]string
	// Container is the name of Coder's container.
	Container string
	// HTTPPort is the container port that serves HTTP, or 0.
	HTTPPort int32
	// Template is the current pod template.
	Template *corev1.PodTemplateSpec
	// Checksum is the checksum of the Secrets and ConfigMaps that the pods refer to, if the pod
	// template does not have it as an annotation. Empty means that it does.
	Checksum string
}

// AdoptedFrom returns the Adopted of the workload's Deployment, or nil if the Deployment has the
// selector that the operator uses.
func AdoptedFrom(w Workload, d *appsv1.Deployment) *Adopted {
	if d.Spec.Selector == nil || maps.Equal(d.Spec.Selector.MatchLabels, w.Labels) {
		return nil
	}
	adopted := &Adopted{
		Selector: maps.Clone(d.Spec.Selector.MatchLabels), Container: w.Container, Template: d.Spec.Template.DeepCopy(),
	}
	// All three of Coder's own charts use the name of coderd's container.
	for _, name := range []string{w.Container, ControlPlaneContainer} {
		if c := containerNamed(adopted.Template.Spec.Containers, name); c != nil {
			adopted.Container = name
			for _, port := range c.Ports {
				if port.Name == portHTTP {
					adopted.HTTPPort = port.ContainerPort
				}
			}
			break
		}
	}
	return adopted
}

// PodLabels returns the labels that select the pods.
func PodLabels(w Workload) map[string]string {
	if w.Adopted != nil {
		return merged(w.Adopted.Selector)
	}
	return merged(w.Labels)
}

// PodContainer returns the name of Coder's container in the pods.
func PodContainer(w Workload) string {
	if w.Adopted != nil {
		return w.Adopted.Container
	}
	return w.Container
}

// RememberChecksum moves the checksum from the pod template of an adopted Deployment to an
// annotation of the Deployment, so that adoption does not roll the pods. The checksum moves to the
// pod template when it differs from that annotation.
func RememberChecksum(w *Workload, d *appsv1.Deployment) {
	if w.Adopted == nil || w.Checksum == "" {
		return
	}
	if _, found := d.Spec.Template.Annotations[coderv1alpha1.AnnotationConfigChecksum]; found {
		return
	}
	remembered := d.Annotations[coderv1alpha1.AnnotationAdoptedChecksum]
	if remembered == "" || remembered == w.Checksum {
		w.Adopted.Checksum, w.Checksum = w.Checksum, ""
	}
}

// inOrder puts the elements of base before those that spec.podTemplate adds. A strategic merge puts
// added elements first. Without this function, an added sidecar would become the default container
// of kubectl logs, and a variable that refers to one of the operator's would come before it.
func inOrder(result, base *corev1.PodTemplateSpec) {
	sortLike(result.Spec.Volumes, base.Spec.Volumes, func(v corev1.Volume) string { return v.Name })
	sortLike(result.Spec.Containers, base.Spec.Containers, func(c corev1.Container) string { return c.Name })
	for i := range base.Spec.Containers {
		ours := &base.Spec.Containers[i]
		c := containerNamed(result.Spec.Containers, ours.Name)
		if c == nil {
			continue
		}
		sortLike(c.Env, ours.Env, func(e corev1.EnvVar) string { return e.Name })
		sortLike(c.Ports, ours.Ports, func(p corev1.ContainerPort) int32 { return p.ContainerPort })
		sortLike(c.VolumeMounts, ours.VolumeMounts, func(m corev1.VolumeMount) string { return m.MountPath })
	}
}

// sortLike puts the elements that model contains first, in the order of model. The other elements
// follow in their previous order.
func sortLike[E any, K comparable](elements, model []E, key func(E) K) {
	rank := func(e E) int {
		at := slices.IndexFunc(model, func(m E) bool { return key(m) == key(e) })
		if at < 0 {
			return math.MaxInt
		}
		return at
	}
	slices.SortStableFunc(elements, func(a, b E) int { return cmp.Compare(rank(a), rank(b)) })
}

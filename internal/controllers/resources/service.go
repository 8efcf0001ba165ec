package resources

import (
	"cmp"
	"slices"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// Service returns the Service of the pods, or nil if the workload serves nothing or the spec
// disables the Service.
func Service(w Workload) *corev1.Service {
	if !serviceEnabled(w) {
		return nil
	}
	spec := w.Serving.Spec.Service
	service := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Service"},
		ObjectMeta: meta(w, w.Name, spec.Labels, spec.Annotations),
		Spec: corev1.ServiceSpec{
			Type:            cmp.Or(spec.Type, corev1.ServiceTypeClusterIP),
			Selector:        PodLabels(w),
			Ports:           servicePorts(w),
			SessionAffinity: spec.SessionAffinity,
		},
	}
	families(&service.Spec, spec)
	// Kubernetes accepts the following fields only if the type is not ClusterIP.
	if service.Spec.Type == corev1.ServiceTypeClusterIP {
		return service
	}
	service.Spec.ExternalTrafficPolicy = spec.ExternalTrafficPolicy
	for i := range service.Spec.Ports {
		if service.Spec.Ports[i].Name == portHTTPS {
			service.Spec.Ports[i].NodePort = spec.HTTPSNodePort
			continue
		}
		service.Spec.Ports[i].NodePort = spec.HTTPNodePort
	}
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return service
	}
	service.Spec.LoadBalancerIP = spec.LoadBalancerIP
	service.Spec.LoadBalancerSourceRanges = slices.Clone(spec.LoadBalancerSourceRanges)
	if spec.LoadBalancerClass != nil {
		service.Spec.LoadBalancerClass = ptr.To(*spec.LoadBalancerClass)
	}
	return service
}

// families sets the IP families of the Service without sharing memory with the spec.
func families(service *corev1.ServiceSpec, spec coderv1alpha1.ServiceSpec) {
	service.IPFamilies = slices.Clone(spec.IPFamilies)
	if spec.IPFamilyPolicy != nil {
		service.IPFamilyPolicy = ptr.To(*spec.IPFamilyPolicy)
	}
}

func serviceEnabled(w Workload) bool {
	return w.Serving != nil && ptr.Deref(w.Serving.Spec.Service.Enabled, true)
}

// servicePorts returns the ports of the Service. There is always a plain HTTP port. With TLS there
// is also port 443. It comes first if the spec asks for port 443.
func servicePorts(w Workload) []corev1.ServicePort {
	plain := corev1.ServicePort{
		Name: portHTTP, Port: HTTPPort(w), TargetPort: intstr.FromString(portHTTP), Protocol: corev1.ProtocolTCP,
	}
	if !TLSEnabled(w) {
		return []corev1.ServicePort{plain}
	}
	secure := corev1.ServicePort{
		Name: portHTTPS, Port: defaultHTTPSPort, TargetPort: intstr.FromString(portHTTPS), Protocol: corev1.ProtocolTCP,
	}
	if w.Serving.Spec.Service.Port == defaultHTTPSPort {
		return []corev1.ServicePort{secure, plain}
	}
	return []corev1.ServicePort{plain, secure}
}

const (
	metricsPort   = 2112
	portMetrics   = "prometheus-http"
	metricsSuffix = "-metrics"
)

// MetricsService returns the Service of the metrics, or nil if the spec does not enable them. Its
// type is always ClusterIP, so it is never exposed outside the cluster.
func MetricsService(w Workload) *corev1.Service {
	if !w.Spec.Metrics.Enabled {
		return nil
	}
	service := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: MetricsServiceName(w), Namespace: w.Namespace, Labels: metricsLabels(w)},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeClusterIP,
			Selector: PodLabels(w),
			Ports: []corev1.ServicePort{{
				Name: portMetrics, Port: metricsPort, TargetPort: intstr.FromString(portMetrics), Protocol: corev1.ProtocolTCP,
			}},
		},
	}
	if w.Serving != nil {
		families(&service.Spec, w.Serving.Spec.Service)
	}
	return service
}

// MetricsServiceName returns "<workload>-metrics" as a DNS label. The name of a Deployment need not
// be a DNS label. If the name had to be changed, it contains a hash, so that two workloads never
// share a Service.
func MetricsServiceName(w Workload) string {
	if clean := sanitize(w.Name); clean != w.Name {
		return coderv1alpha1.SuffixedName(clean, "-"+Hash(w.Name)+metricsSuffix)
	}
	return coderv1alpha1.SuffixedName(w.Name, metricsSuffix)
}

// ServiceMonitor returns the ServiceMonitor that makes Prometheus scrape the metrics Service, or
// nil if the spec does not ask for one. The cluster may not serve this kind.
func ServiceMonitor(w Workload) *monitoringv1.ServiceMonitor {
	spec := w.Spec.Metrics.ServiceMonitor
	if spec == nil || !w.Spec.Metrics.Enabled {
		return nil
	}
	return &monitoringv1.ServiceMonitor{
		TypeMeta:   metav1.TypeMeta{APIVersion: monitoringv1.SchemeGroupVersion.String(), Kind: monitoringv1.ServiceMonitorsKind},
		ObjectMeta: meta(w, w.Name, spec.Labels, nil),
		Spec: monitoringv1.ServiceMonitorSpec{
			Selector:  metav1.LabelSelector{MatchLabels: metricsLabels(w)},
			Endpoints: []monitoringv1.Endpoint{{Port: portMetrics, Interval: monitoringv1.Duration(spec.Interval)}},
		},
	}
}

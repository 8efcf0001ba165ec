package resources

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// Service is in front of coderd's pods.
func Service(cp *coderv1alpha1.CoderControlPlane) *corev1.Service {
	kind := cp.Spec.Service.Type
	if kind == "" {
		kind = corev1.ServiceTypeClusterIP
	}
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Name: cp.Name, Namespace: cp.Namespace, Labels: Labels(cp), Annotations: cp.Spec.Service.Annotations,
		},
		Spec: corev1.ServiceSpec{
			Type:     kind,
			Selector: Labels(cp),
			Ports:    servicePorts(cp),
		},
	}
}

// servicePorts always hold a plain HTTP port. With TLS there is 443 besides;
// where the spec asks for 443 itself, that is the first.
func servicePorts(cp *coderv1alpha1.CoderControlPlane) []corev1.ServicePort {
	plain := corev1.ServicePort{
		Name: portHTTP, Port: HTTPPort(cp), TargetPort: intstr.FromString(portHTTP), Protocol: corev1.ProtocolTCP,
	}
	if !TLSEnabled(cp) {
		return []corev1.ServicePort{plain}
	}
	secure := corev1.ServicePort{
		Name: portHTTPS, Port: defaultHTTPSPort, TargetPort: intstr.FromString(portHTTPS), Protocol: corev1.ProtocolTCP,
	}
	if cp.Spec.Service.Port == defaultHTTPSPort {
		return []corev1.ServicePort{secure, plain}
	}
	return []corev1.ServicePort{plain, secure}
}

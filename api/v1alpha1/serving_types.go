package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
)

// ServingSpec is what control planes and workspace proxies have in common: both
// serve HTTP. It is inlined into their specs.
//
// +kubebuilder:validation:XValidation:rule="!has(self.livenessProbe) || !has(self.livenessProbe.successThreshold) || self.livenessProbe.successThreshold == 1",message="spec.livenessProbe.successThreshold: must be 1, because Kubernetes allows nothing else for a liveness probe"
// +kubebuilder:validation:XValidation:rule="!has(self.service) || !has(self.service.httpsNodePort) || (has(self.tls) && has(self.tls.secretNames) && size(self.tls.secretNames) > 0)",message="spec.service.httpsNodePort: there is no HTTPS port without spec.tls.secretNames; give a certificate or remove the node port"
// +kubebuilder:validation:XValidation:rule="!has(self.expose) || !has(self.service) || !has(self.service.enabled) || self.service.enabled",message="spec.expose: an Ingress or HTTPRoute leads to the Service, which spec.service.enabled=false removes; enable the Service or remove spec.expose"
type ServingSpec struct {
	// Service is how it is reached inside the cluster.
	// +optional
	// +kubebuilder:default={}
	Service ServiceSpec `json:"service,omitzero"`
	// TLS makes Coder itself serve TLS, besides HTTP. Everything inside the cluster
	// goes on to use HTTP.
	// +optional
	// +kubebuilder:default={}
	TLS TLSSpec `json:"tls,omitzero"`
	// ReadinessProbe decides whether a pod gets traffic.
	// +optional
	// +kubebuilder:default={enabled: true}
	ReadinessProbe ProbeSpec `json:"readinessProbe,omitzero"`
	// LivenessProbe decides whether a pod is restarted.
	// +optional
	// +kubebuilder:default={enabled: false}
	LivenessProbe ProbeSpec `json:"livenessProbe,omitzero"`
	// Expose makes it reachable from outside the cluster, through an Ingress or an
	// HTTPRoute. The access URL and the wildcard access URL follow from it, unless
	// extraEnv or envFrom set them.
	// +optional
	Expose *ExposeSpec `json:"expose,omitempty"`
}

// ServiceSpec is the Service in front of the pods.
//
// +kubebuilder:validation:XValidation:rule="!has(self.externalTrafficPolicy) || self.type != 'ClusterIP'",message="externalTrafficPolicy has an effect with type NodePort or LoadBalancer only; remove it or set one of these types",messageExpression="'externalTrafficPolicy has an effect with type NodePort or LoadBalancer only; remove it or set one of these types' + ' instead of ' + self.type"
// +kubebuilder:validation:XValidation:rule="!(has(self.loadBalancerIP) || has(self.loadBalancerClass) || has(self.loadBalancerSourceRanges)) || self.type == 'LoadBalancer'",message="loadBalancerIP, loadBalancerClass and loadBalancerSourceRanges have an effect with type LoadBalancer only; remove them or set that type",messageExpression="'loadBalancerIP, loadBalancerClass and loadBalancerSourceRanges have an effect with type LoadBalancer only; remove them or set that type' + ' instead of ' + self.type"
// +kubebuilder:validation:XValidation:rule="!(has(self.httpNodePort) || has(self.httpsNodePort)) || self.type != 'ClusterIP'",message="httpNodePort and httpsNodePort have an effect with type NodePort or LoadBalancer only; remove them or set one of these types",messageExpression="'httpNodePort and httpsNodePort have an effect with type NodePort or LoadBalancer only; remove them or set one of these types' + ' instead of ' + self.type"
// +kubebuilder:validation:XValidation:rule="!(has(self.httpNodePort) && has(self.httpsNodePort)) || self.httpNodePort != self.httpsNodePort",message="httpNodePort and httpsNodePort must differ; change one of them"
// +kubebuilder:validation:XValidation:rule="!(self.type == 'LoadBalancer' && oldSelf.type == 'LoadBalancer') || (has(self.loadBalancerClass) == has(oldSelf.loadBalancerClass) && (!has(self.loadBalancerClass) || self.loadBalancerClass == oldSelf.loadBalancerClass))",message="loadBalancerClass cannot change while the type is LoadBalancer, because Kubernetes does not allow it; set another type first"
// +kubebuilder:validation:XValidation:rule="!(has(self.ipFamilyPolicy) && self.ipFamilyPolicy == 'SingleStack' && has(self.ipFamilies) && size(self.ipFamilies) > 1)",message="ipFamilies names two families, but ipFamilyPolicy is SingleStack; name one, or set PreferDualStack or RequireDualStack"
// +kubebuilder:validation:XValidation:rule="!(has(self.ipFamilies) && size(self.ipFamilies) > 0 && has(oldSelf.ipFamilies) && size(oldSelf.ipFamilies) > 0) || self.ipFamilies[0] == oldSelf.ipFamilies[0]",message="ipFamilies: the first family cannot change, because Kubernetes does not allow it; add the other one after it"
type ServiceSpec struct {
	// Enabled makes the Service. Without it the operator cannot call Coder.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// Type of the Service.
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`
	// Port on which the Service serves HTTP, or HTTPS where it is 443 and TLS is
	// on.
	// +optional
	// +kubebuilder:default=80
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// SessionAffinity ClientIP leads a client to the same pod each time.
	// +optional
	// +kubebuilder:validation:Enum=None;ClientIP
	SessionAffinity corev1.ServiceAffinity `json:"sessionAffinity,omitempty"`
	// ExternalTrafficPolicy Local keeps the address of the client.
	// +optional
	// +kubebuilder:validation:Enum=Cluster;Local
	ExternalTrafficPolicy corev1.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`
	// LoadBalancerIP asks the load balancer for this address.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || isIP(self)",message="must be an IP address, for example 203.0.113.10"
	LoadBalancerIP string `json:"loadBalancerIP,omitempty"`
	// LoadBalancerClass chooses the load balancer. It cannot change later.
	// +optional
	// +kubebuilder:validation:MinLength=1
	LoadBalancerClass *string `json:"loadBalancerClass,omitempty"`
	// LoadBalancerSourceRanges are the networks whose clients it lets in.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self)",message="must be a network, for example 203.0.113.0/24"
	LoadBalancerSourceRanges []string `json:"loadBalancerSourceRanges,omitempty"`
	// IPFamilyPolicy says whether the Services have addresses of one family or of
	// both. Unset, Kubernetes chooses SingleStack.
	// +optional
	// +kubebuilder:validation:Enum=SingleStack;PreferDualStack;RequireDualStack
	IPFamilyPolicy *corev1.IPFamilyPolicy `json:"ipFamilyPolicy,omitempty"`
	// IPFamilies are the families of the Services' addresses, the first one first.
	// Unset, Kubernetes chooses. The first one cannot change later.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:Enum=IPv4;IPv6
	IPFamilies []corev1.IPFamily `json:"ipFamilies,omitempty"`
	// HTTPNodePort is the port on the nodes for HTTP. Unset, Kubernetes chooses one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	HTTPNodePort int32 `json:"httpNodePort,omitempty"`
	// HTTPSNodePort is the port on the nodes for HTTPS.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	HTTPSNodePort int32 `json:"httpsNodePort,omitempty"`
	// Annotations of the Service, for example for a load balancer.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels of the Service, besides the operator's own.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// TLSSpec makes coderd serve TLS.
type TLSSpec struct {
	// SecretNames are Secrets of type kubernetes.io/tls in the same namespace.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	SecretNames []string `json:"secretNames,omitempty"`
}

// ProbeSpec is a health check of coderd at /healthz.
type ProbeSpec struct {
	// Enabled switches the probe. Unset, a readiness probe is on and a liveness
	// probe is off.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// InitialDelaySeconds before the first check.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	InitialDelaySeconds int32 `json:"initialDelaySeconds,omitempty"`
	// PeriodSeconds between checks.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	PeriodSeconds *int32 `json:"periodSeconds,omitempty"`
	// TimeoutSeconds of one check.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// SuccessThreshold is how many checks in a row must pass. A liveness probe
	// allows only 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	SuccessThreshold *int32 `json:"successThreshold,omitempty"`
	// FailureThreshold is how many checks in a row must fail.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	FailureThreshold *int32 `json:"failureThreshold,omitempty"`
}

// ExposeSpec makes Coder reachable from outside the cluster in one of two ways.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.ingress) && has(self.gateway))",message="spec.expose takes an ingress or a gateway, not both"
type ExposeSpec struct {
	// Ingress exposes Coder through an Ingress.
	// +optional
	Ingress *IngressSpec `json:"ingress,omitempty"`
	// Gateway exposes Coder through an HTTPRoute of the Gateway API.
	// +optional
	Gateway *GatewaySpec `json:"gateway,omitempty"`
}

// IngressSpec is an Ingress in front of Coder.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.tls) && has(self.tls.wildcardSecretName) && size(self.tls.wildcardSecretName) > 0) || (has(self.wildcardHost) && size(self.wildcardHost) > 0)",message="tls.wildcardSecretName holds the certificate of wildcardHost, which is not set; set it, or remove the certificate"
type IngressSpec struct {
	// ClassName of the Ingress.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of an IngressClass; leave it out for the default class of the cluster"
	ClassName *string `json:"className,omitempty"`
	// Host under which it is reached, for example coder.example.com.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$')",message="must be a DNS name in lower case without scheme, port or path, for example coder.example.com"
	// +kubebuilder:validation:XValidation:rule="!isIP(self)",message="must be a name and not an IP address, because an Ingress and an HTTPRoute choose by the name that was asked for"
	Host string `json:"host"`
	// WildcardHost under which workspace applications are reached, for example
	// *.coder.example.com or *-apps.example.com.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[*](-[-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)+$')",message="must be a * in front of a domain, with or without a suffix, for example *.coder.example.com or *-apps.example.com"
	WildcardHost string `json:"wildcardHost,omitempty"`
	// Annotations of the Ingress.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// TLS of the Ingress.
	// +optional
	TLS *IngressTLSSpec `json:"tls,omitempty"`
}

// IngressTLSSpec names the certificates of an Ingress.
type IngressTLSSpec struct {
	// SecretName holds the certificate of the host. With it the
	// access URL is https.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	SecretName string `json:"secretName,omitempty"`
	// WildcardSecretName holds the certificate of the wildcard host.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	WildcardSecretName string `json:"wildcardSecretName,omitempty"`
}

// GatewaySpec is an HTTPRoute in front of Coder.
type GatewaySpec struct {
	// Host under which it is reached, for example coder.example.com.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$')",message="must be a DNS name in lower case without scheme, port or path, for example coder.example.com"
	// +kubebuilder:validation:XValidation:rule="!isIP(self)",message="must be a name and not an IP address, because an Ingress and an HTTPRoute choose by the name that was asked for"
	Host string `json:"host"`
	// WildcardHost under which workspace applications are reached, for example
	// *.coder.example.com or *-apps.example.com.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[*](-[-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)+$')",message="must be a * in front of a domain, with or without a suffix, for example *.coder.example.com or *-apps.example.com"
	WildcardHost string `json:"wildcardHost,omitempty"`
	// ParentRefs are the Gateways that the route attaches to.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, b.name == a.name && (has(a.kind) ? a.kind : 'Gateway') == (has(b.kind) ? b.kind : 'Gateway') && has(a.__namespace__) == has(b.__namespace__) && (!has(a.__namespace__) || a.__namespace__ == b.__namespace__) && has(a.sectionName) == has(b.sectionName) && (!has(a.sectionName) || a.sectionName == b.sectionName) && has(a.port) == has(b.port) && (!has(a.port) || a.port == b.port)))",message="the same parent stands there twice; remove one of them, or choose different listeners by sectionName or port"
	ParentRefs []GatewayParentReference `json:"parentRefs"`
	// Scheme under which the Gateway serves, for the access URL.
	// +optional
	// +kubebuilder:default=https
	// +kubebuilder:validation:Enum=http;https
	Scheme string `json:"scheme,omitempty"`
	// Annotations of the HTTPRoute.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// GatewayParentReference names a Gateway, or a ListenerSet of one.
type GatewayParentReference struct {
	// Kind of the parent. Unset, it is Gateway.
	// +optional
	// +kubebuilder:validation:Enum=Gateway;ListenerSet
	Kind *string `json:"kind,omitempty"`
	// Name of the parent.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Gateway or ListenerSet: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	Name string `json:"name"`
	// Namespace of the parent. Unset, it is the same.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace: lower case letters, digits and dashes, a letter or digit at both ends"
	Namespace *string `json:"namespace,omitempty"`
	// SectionName is the name of the listener.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a listener: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	SectionName *string `json:"sectionName,omitempty"`
	// Port of the listener, where its name is not enough.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`
}

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
)

// ServingSpec contains the fields that control planes and workspace proxies share because both
// serve HTTP. It is inlined into their specs.
//
// +kubebuilder:validation:XValidation:rule="!has(self.livenessProbe) || !has(self.livenessProbe.successThreshold) || self.livenessProbe.successThreshold == 1",message="spec.livenessProbe.successThreshold: must be 1, because Kubernetes allows nothing else for a liveness probe"
// +kubebuilder:validation:XValidation:rule="!has(self.service) || !has(self.service.httpsNodePort) || (has(self.tls) && has(self.tls.secretNames) && size(self.tls.secretNames) > 0)",message="spec.service.httpsNodePort: there is no HTTPS port without spec.tls.secretNames; give a certificate or remove the node port"
// +kubebuilder:validation:XValidation:rule="!has(self.expose) || !has(self.service) || !has(self.service.enabled) || self.service.enabled",message="spec.expose: an Ingress or HTTPRoute leads to the Service, which spec.service.enabled=false removes; enable the Service or remove spec.expose"
type ServingSpec struct {
	// Service configures the Service inside the cluster.
	// +optional
	// +kubebuilder:default={}
	Service ServiceSpec `json:"service,omitzero"`
	// TLS makes Coder itself serve TLS, in addition to HTTP. Clients inside the cluster still use
	// HTTP.
	// +optional
	// +kubebuilder:default={}
	TLS TLSSpec `json:"tls,omitzero"`
	// ReadinessProbe configures the probe that decides whether a pod receives traffic. It is
	// enabled by default.
	// +optional
	// +kubebuilder:default={enabled: true}
	ReadinessProbe ProbeSpec `json:"readinessProbe,omitzero"`
	// LivenessProbe configures the probe that decides whether a pod is restarted. It is disabled by
	// default. In a control plane it begins when Coder has answered once, so that it does not stop a
	// migration of the database. A pod that has not answered after 30 minutes is restarted. Running
	// pods get that start-up time when the image changes. A startup probe in spec.podTemplate replaces it.
	// +optional
	// +kubebuilder:default={enabled: false}
	LivenessProbe ProbeSpec `json:"livenessProbe,omitzero"`
	// Expose makes Coder reachable from outside the cluster, through an Ingress or an HTTPRoute. It
	// also sets the access URL and the wildcard access URL, unless extraEnv or envFrom set them.
	// +optional
	Expose *ExposeSpec `json:"expose,omitempty"`
}

// ServiceSpec configures the Service for the pods.
//
// +kubebuilder:validation:XValidation:rule="!has(self.externalTrafficPolicy) || self.type != 'ClusterIP'",message="externalTrafficPolicy has an effect with type NodePort or LoadBalancer only; remove it or set one of these types",messageExpression="'externalTrafficPolicy has an effect with type NodePort or LoadBalancer only; remove it or set one of these types' + ' instead of ' + self.type"
// +kubebuilder:validation:XValidation:rule="!(has(self.loadBalancerIP) || has(self.loadBalancerClass) || has(self.loadBalancerSourceRanges)) || self.type == 'LoadBalancer'",message="loadBalancerIP, loadBalancerClass and loadBalancerSourceRanges have an effect with type LoadBalancer only; remove them or set that type",messageExpression="'loadBalancerIP, loadBalancerClass and loadBalancerSourceRanges have an effect with type LoadBalancer only; remove them or set that type' + ' instead of ' + self.type"
// +kubebuilder:validation:XValidation:rule="!(has(self.httpNodePort) || has(self.httpsNodePort)) || self.type != 'ClusterIP'",message="httpNodePort and httpsNodePort have an effect with type NodePort or LoadBalancer only; remove them or set one of these types",messageExpression="'httpNodePort and httpsNodePort have an effect with type NodePort or LoadBalancer only; remove them or set one of these types' + ' instead of ' + self.type"
// +kubebuilder:validation:XValidation:rule="!(has(self.httpNodePort) && has(self.httpsNodePort)) || self.httpNodePort != self.httpsNodePort",message="httpNodePort and httpsNodePort must differ; change one of them"
// +kubebuilder:validation:XValidation:rule="!(self.type == 'LoadBalancer' && oldSelf.type == 'LoadBalancer') || (has(self.loadBalancerClass) == has(oldSelf.loadBalancerClass) && (!has(self.loadBalancerClass) || self.loadBalancerClass == oldSelf.loadBalancerClass))",message="loadBalancerClass cannot change while the type is LoadBalancer, because Kubernetes does not allow it; set another type first"
// +kubebuilder:validation:XValidation:rule="!(has(self.ipFamilyPolicy) && self.ipFamilyPolicy == 'SingleStack' && has(self.ipFamilies) && size(self.ipFamilies) > 1)",message="ipFamilies names two families, but ipFamilyPolicy is SingleStack; name one, or set PreferDualStack or RequireDualStack"
// +kubebuilder:validation:XValidation:rule="!(has(self.ipFamilies) && size(self.ipFamilies) > 0 && has(oldSelf.ipFamilies) && size(oldSelf.ipFamilies) > 0) || self.ipFamilies[0] == oldSelf.ipFamilies[0]",message="ipFamilies: the first family cannot change, because Kubernetes does not allow it; add the other one after it"
type ServiceSpec struct {
	// Enabled creates the Service. Without it the operator cannot call Coder. Defaults to true.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// Type is the type of the Service. Defaults to ClusterIP.
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`
	// Port is the HTTP port of the Service. If it is 443 and TLS is configured, the Service serves
	// HTTPS on 443 and HTTP on 80. Defaults to 80.
	// +optional
	// +kubebuilder:default=80
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// SessionAffinity is the session affinity of the Service. ClientIP sends all connections of a
	// client to the same pod. If it is unset, Kubernetes uses None.
	// +optional
	// +kubebuilder:validation:Enum=None;ClientIP
	SessionAffinity corev1.ServiceAffinity `json:"sessionAffinity,omitempty"`
	// ExternalTrafficPolicy is the external traffic policy of the Service. Local preserves the
	// client's IP address. If it is unset, Kubernetes uses Cluster.
	// +optional
	// +kubebuilder:validation:Enum=Cluster;Local
	ExternalTrafficPolicy corev1.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`
	// LoadBalancerIP is the IP address to request from the load balancer.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || isIP(self)",message="must be an IP address, for example 203.0.113.10"
	LoadBalancerIP string `json:"loadBalancerIP,omitempty"`
	// LoadBalancerClass is the class of the load balancer. It cannot be changed while the type is
	// LoadBalancer.
	// +optional
	// +kubebuilder:validation:MinLength=1
	LoadBalancerClass *string `json:"loadBalancerClass,omitempty"`
	// LoadBalancerSourceRanges are the networks from which the load balancer accepts clients, in
	// CIDR notation. If it is unset, all clients are accepted.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self)",message="must be a network, for example 203.0.113.0/24"
	LoadBalancerSourceRanges []string `json:"loadBalancerSourceRanges,omitempty"`
	// IPFamilyPolicy decides whether the Services have IP addresses of one family or of both. If it
	// is unset, Kubernetes uses SingleStack.
	// +optional
	// +kubebuilder:validation:Enum=SingleStack;PreferDualStack;RequireDualStack
	IPFamilyPolicy *corev1.IPFamilyPolicy `json:"ipFamilyPolicy,omitempty"`
	// IPFamilies are the IP families of the Services, with the primary one first. If it is unset,
	// Kubernetes chooses. The primary family cannot be changed later.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:Enum=IPv4;IPv6
	IPFamilies []corev1.IPFamily `json:"ipFamilies,omitempty"`
	// HTTPNodePort is the port for HTTP on the nodes. If it is unset, Kubernetes chooses one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	HTTPNodePort int32 `json:"httpNodePort,omitempty"`
	// HTTPSNodePort is the port for HTTPS on the nodes. If it is unset, Kubernetes chooses one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	HTTPSNodePort int32 `json:"httpsNodePort,omitempty"`
	// Annotations are added to the Service, for example to configure a load balancer.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels are added to the Service, in addition to the operator's own labels.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// TLSSpec makes Coder itself serve TLS.
type TLSSpec struct {
	// SecretNames are the names of Secrets of type kubernetes.io/tls in the same namespace. TLS is
	// enabled if there is at least one.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	SecretNames []string `json:"secretNames,omitempty"`
}

// ProbeSpec configures a health check of Coder at /healthz, over HTTP.
type ProbeSpec struct {
	// Enabled enables the probe. Defaults to true for a readiness probe, and to false for a
	// liveness probe.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// InitialDelaySeconds is the delay before the first check, in seconds. Defaults to 0.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	InitialDelaySeconds int32 `json:"initialDelaySeconds,omitempty"`
	// PeriodSeconds is the interval between checks, in seconds. Defaults to 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	PeriodSeconds *int32 `json:"periodSeconds,omitempty"`
	// TimeoutSeconds is the timeout of one check, in seconds. Defaults to 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// SuccessThreshold is the number of consecutive successful checks after which the probe
	// succeeds. It must be 1 for a liveness probe. Defaults to 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	SuccessThreshold *int32 `json:"successThreshold,omitempty"`
	// FailureThreshold is the number of consecutive failed checks after which the probe fails.
	// Defaults to 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	FailureThreshold *int32 `json:"failureThreshold,omitempty"`
}

// ExposeSpec makes Coder reachable from outside the cluster, through either an Ingress or an
// HTTPRoute.
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

// IngressSpec configures an Ingress for Coder.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.tls) && has(self.tls.wildcardSecretName) && size(self.tls.wildcardSecretName) > 0) || (has(self.wildcardHost) && size(self.wildcardHost) > 0)",message="tls.wildcardSecretName holds the certificate of wildcardHost, which is not set; set it, or remove the certificate"
type IngressSpec struct {
	// ClassName is the name of the IngressClass. If it is unset, the cluster's default class is
	// used.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of an IngressClass; leave it out for the default class of the cluster"
	ClassName *string `json:"className,omitempty"`
	// Host is the host name of Coder, for example coder.example.com.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$')",message="must be a DNS name in lower case without scheme, port or path, for example coder.example.com"
	// +kubebuilder:validation:XValidation:rule="!isIP(self)",message="must be a name and not an IP address, because an Ingress and an HTTPRoute choose by the name that was asked for"
	Host string `json:"host"`
	// WildcardHost is the wildcard host name of workspace applications, for example
	// *.coder.example.com or *-apps.example.com.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[*](-[-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)+$')",message="must be a * in front of a domain, with or without a suffix, for example *.coder.example.com or *-apps.example.com"
	WildcardHost string `json:"wildcardHost,omitempty"`
	// Annotations are added to the Ingress.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// TLS configures the certificates of the Ingress.
	// +optional
	TLS *IngressTLSSpec `json:"tls,omitempty"`
}

// IngressTLSSpec configures the certificates of an Ingress.
type IngressTLSSpec struct {
	// SecretName is the name of the Secret with the certificate of the host. If it is set, the
	// access URL uses https.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	SecretName string `json:"secretName,omitempty"`
	// WildcardSecretName is the name of the Secret with the certificate of the wildcard host.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	WildcardSecretName string `json:"wildcardSecretName,omitempty"`
}

// GatewaySpec configures an HTTPRoute for Coder.
type GatewaySpec struct {
	// Host is the host name of Coder, for example coder.example.com.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$')",message="must be a DNS name in lower case without scheme, port or path, for example coder.example.com"
	// +kubebuilder:validation:XValidation:rule="!isIP(self)",message="must be a name and not an IP address, because an Ingress and an HTTPRoute choose by the name that was asked for"
	Host string `json:"host"`
	// WildcardHost is the wildcard host name of workspace applications, for example
	// *.coder.example.com or *-apps.example.com.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[*](-[-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)+$')",message="must be a * in front of a domain, with or without a suffix, for example *.coder.example.com or *-apps.example.com"
	WildcardHost string `json:"wildcardHost,omitempty"`
	// ParentRefs are the Gateways or ListenerSets to which the HTTPRoute attaches.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, b.name == a.name && (has(a.kind) ? a.kind : 'Gateway') == (has(b.kind) ? b.kind : 'Gateway') && has(a.__namespace__) == has(b.__namespace__) && (!has(a.__namespace__) || a.__namespace__ == b.__namespace__) && has(a.sectionName) == has(b.sectionName) && (!has(a.sectionName) || a.sectionName == b.sectionName) && has(a.port) == has(b.port) && (!has(a.port) || a.port == b.port)))",message="the list contains the same parent twice; remove one of them, or choose different listeners by sectionName or port"
	ParentRefs []GatewayParentReference `json:"parentRefs"`
	// Scheme is the URL scheme that the Gateway serves. It is used for the access URL. Defaults to
	// https.
	// +optional
	// +kubebuilder:default=https
	// +kubebuilder:validation:Enum=http;https
	Scheme string `json:"scheme,omitempty"`
	// Annotations are added to the HTTPRoute.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// GatewayParentReference refers to a Gateway, or to a ListenerSet of a Gateway.
type GatewayParentReference struct {
	// Kind is the kind of the parent. Defaults to Gateway.
	// +optional
	// +kubebuilder:validation:Enum=Gateway;ListenerSet
	Kind *string `json:"kind,omitempty"`
	// Name is the name of the parent.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Gateway or ListenerSet: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	Name string `json:"name"`
	// Namespace is the namespace of the parent. Defaults to the namespace of this object.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace: lower case letters, digits and dashes, a letter or digit at both ends"
	Namespace *string `json:"namespace,omitempty"`
	// SectionName is the name of the listener. If it is unset, the HTTPRoute attaches to all
	// listeners that accept it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a listener: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	SectionName *string `json:"sectionName,omitempty"`
	// Port is the port of the listener, for listeners that the name does not identify.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`
}

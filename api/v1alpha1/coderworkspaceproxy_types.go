package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CoderWorkspaceProxy is a workspace proxy of one Coder: the Deployment, the Service, and the
// registration in Coder.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=coderworkspaceproxies,shortName=cwp,categories=coder
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Proxy",type=string,JSONPath=`.status.proxyName`
// +kubebuilder:printcolumn:name="Registered",type=boolean,JSONPath=`.status.registered`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.')",message="metadata.name: must not contain a dot, because it becomes a part of the name of a Service; use a dash",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="has(self.spec.proxySessionTokenSecretRef) || (has(self.spec.bootstrap) && has(self.spec.bootstrap.proxyName) && size(self.spec.bootstrap.proxyName) > 0) || self.metadata.name != 'primary'",message="metadata.name: primary is the name of Coder itself in its list of proxies; choose another, or name the proxy in spec.bootstrap.proxyName",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.proxyName) || (has(self.spec.controlPlaneRef) == has(oldSelf.spec.controlPlaneRef) && (!has(self.spec.controlPlaneRef) || self.spec.controlPlaneRef.name == oldSelf.spec.controlPlaneRef.name))",message="spec.controlPlaneRef: cannot change after the proxy was registered; create a new CoderWorkspaceProxy and delete this one",fieldPath=".spec.controlPlaneRef"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.proxyName) || (has(self.spec.bootstrap) && has(self.spec.bootstrap.coderURL) && size(self.spec.bootstrap.coderURL) > 0 ? self.spec.bootstrap.coderURL : '.') == (has(oldSelf.spec.bootstrap) && has(oldSelf.spec.bootstrap.coderURL) && size(oldSelf.spec.bootstrap.coderURL) > 0 ? oldSelf.spec.bootstrap.coderURL : '.')",message="spec.bootstrap.coderURL: cannot change after the proxy was registered; create a new CoderWorkspaceProxy and delete this one",fieldPath=".spec.bootstrap.coderURL"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.proxyName) || (has(self.spec.bootstrap) && has(self.spec.bootstrap.generatedTokenSecretName) && size(self.spec.bootstrap.generatedTokenSecretName) > 0 ? self.spec.bootstrap.generatedTokenSecretName : self.metadata.name + '-proxy-token') == (has(oldSelf.spec.bootstrap) && has(oldSelf.spec.bootstrap.generatedTokenSecretName) && size(oldSelf.spec.bootstrap.generatedTokenSecretName) > 0 ? oldSelf.spec.bootstrap.generatedTokenSecretName : self.metadata.name + '-proxy-token')",message="spec.bootstrap.generatedTokenSecretName: cannot change after the proxy was registered; create a new CoderWorkspaceProxy and delete this one",fieldPath=".spec.bootstrap.generatedTokenSecretName"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.replicas) || oldSelf.status.replicas == 0 || (has(self.spec.serviceAccount) && has(self.spec.serviceAccount.name) && size(self.spec.serviceAccount.name) > 0 ? self.spec.serviceAccount.name : size(self.metadata.name) <= 55 ? 'wsproxy-' + self.metadata.name : '.') == (has(oldSelf.spec.serviceAccount) && has(oldSelf.spec.serviceAccount.name) && size(oldSelf.spec.serviceAccount.name) > 0 ? oldSelf.spec.serviceAccount.name : size(self.metadata.name) <= 55 ? 'wsproxy-' + self.metadata.name : '.')",message="spec.serviceAccount.name: cannot change while pods run with this ServiceAccount; create a new CoderWorkspaceProxy and delete this one, or set spec.replicas to 0 until its pods are gone",fieldPath=".spec.serviceAccount.name"
type CoderWorkspaceProxy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state of the proxy.
	Spec CoderWorkspaceProxySpec `json:"spec"`
	// Status is the observed state of the proxy.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status CoderWorkspaceProxyStatus `json:"status,omitzero"`
}

// CoderWorkspaceProxyList is a list of workspace proxies.
//
// +kubebuilder:object:root=true
type CoderWorkspaceProxyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CoderWorkspaceProxy `json:"items"`
}

// CoderWorkspaceProxySpec is the desired state of a workspace proxy. Its session token has exactly
// one of three sources: the operator's access to a control plane (controlPlaneRef), the URL of
// another Coder and a token of an owner there (bootstrap.coderURL), or a session token that you
// created (proxySessionTokenSecretRef).
//
// +kubebuilder:validation:XValidation:rule="(has(self.controlPlaneRef) ? 1 : 0) + (has(self.bootstrap) && has(self.bootstrap.coderURL) && size(self.bootstrap.coderURL) > 0 ? 1 : 0) + (has(self.proxySessionTokenSecretRef) ? 1 : 0) == 1",message="spec: the proxy is registered through controlPlaneRef, through bootstrap.coderURL, or by yourself with proxySessionTokenSecretRef; give exactly one"
// +kubebuilder:validation:XValidation:rule="!has(self.proxySessionTokenSecretRef) || (has(self.primaryAccessURL) && size(self.primaryAccessURL) > 0)",message="spec.primaryAccessURL: is needed with proxySessionTokenSecretRef; give the access URL of the Coder that made the token"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || (has(self.bootstrap.coderURL) && size(self.bootstrap.coderURL) > 0) == has(self.bootstrap.credentialsSecretRef)",message="spec.bootstrap: coderURL and credentialsSecretRef belong together; give both, or controlPlaneRef instead of both"
// +kubebuilder:validation:XValidation:rule="!has(self.extraEnv) || !self.extraEnv.exists(e, e.name == 'CODER_PROXY_SESSION_TOKEN')",message="spec.extraEnv: CODER_PROXY_SESSION_TOKEN is not set here; give a token of your own in spec.proxySessionTokenSecretRef"
// +kubebuilder:validation:XValidation:rule="!has(self.podTemplate) || !has(self.podTemplate.spec) || !has(self.podTemplate.spec.containers) || self.podTemplate.spec.containers.all(c, c.name == 'workspace-proxy' || (has(c.image) && size(c.image) > 0))",message="spec.podTemplate.spec.containers: a container that is added needs an image; the container of Coder, into which an entry is merged, has the name workspace-proxy"
type CoderWorkspaceProxySpec struct {
	// ControlPlaneRef refers to the control plane that the proxy belongs to. It cannot change after
	// the operator has registered the proxy.
	// +optional
	ControlPlaneRef *ControlPlaneReference `json:"controlPlaneRef,omitempty"`
	// PrimaryAccessURL is the access URL of the Coder that the proxy belongs to. The proxy
	// redirects browsers to it. Defaults to the access URL of the control plane, or to
	// bootstrap.coderURL.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || (isURL(self) && url(self).getScheme() in ['http', 'https'] && size(url(self).getHost()) > 0)",message="must be an address that begins with http:// or https://, for example https://coder.example.com"
	PrimaryAccessURL string `json:"primaryAccessURL,omitempty"`
	// ProxySessionTokenSecretRef refers to the session token of a proxy that you registered
	// yourself.
	// +optional
	ProxySessionTokenSecretRef *TokenSecretReference `json:"proxySessionTokenSecretRef,omitempty"`
	// Bootstrap configures how the operator registers the proxy.
	// +optional
	// +kubebuilder:default={}
	Bootstrap ProxyBootstrapSpec `json:"bootstrap,omitzero"`
	// DerpOnly makes the proxy only relay connections (DERP). It then serves no workspace
	// applications. Defaults to false.
	// +optional
	// +kubebuilder:default=false
	DerpOnly bool `json:"derpOnly,omitempty"`
	// Image is the container image of Coder. Defaults to status.image of the control plane, the
	// image of the running Coder. Without a control plane it defaults to
	// ghcr.io/coder/coder:v2.34.8.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.contains(' ')",message="must be an image without blanks, for example ghcr.io/coder/coder:v2.34.8"
	Image string `json:"image,omitempty"`

	WorkloadSpec `json:",inline"`
	ServingSpec  `json:",inline"`
}

// ProxyBootstrapSpec configures how the operator registers a proxy.
type ProxyBootstrapSpec struct {
	// CoderURL is the URL of a Coder that is not a control plane in this namespace. The operator does not
	// connect to loopback and link-local addresses, nor to metadata servers of clouds. It cannot
	// change after the operator has registered the proxy.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || (isURL(self) && url(self).getScheme() in ['http', 'https'] && size(url(self).getHost()) > 0)",message="must be an address that begins with http:// or https://, for example https://coder.example.com"
	CoderURL string `json:"coderURL,omitempty"`
	// CredentialsSecretRef refers to a token of a user with the role owner in that Coder.
	// +optional
	CredentialsSecretRef *TokenSecretReference `json:"credentialsSecretRef,omitempty"`
	// ProxyName is the name of the proxy in Coder. Defaults to the name of the CoderWorkspaceProxy.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*$')",message="must consist of letters, digits and single dashes between them"
	// +kubebuilder:validation:XValidation:rule="self.lowerAscii() != 'primary'",message="is the name of Coder itself in its list of proxies; choose another"
	ProxyName string `json:"proxyName,omitempty"`
	// DisplayName is the name that Coder shows to users. Defaults to the name of the proxy.
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// Icon is the URL or path of an icon, for example /emojis/1f30d.png. Defaults to
	// /emojis/1f5fa.png.
	// +optional
	Icon string `json:"icon,omitempty"`
	// GeneratedTokenSecretName is the name of the Secret in which the operator stores the session
	// token, under the key token. Defaults to <name>-proxy-token. It cannot change after the
	// operator has registered the proxy.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	GeneratedTokenSecretName string `json:"generatedTokenSecretName,omitempty"`
}

// CoderWorkspaceProxyStatus is the observed state of a workspace proxy.
type CoderWorkspaceProxyStatus struct {
	WorkloadStatus `json:",inline"`

	// URL is the URL of the proxy inside the cluster.
	// +optional
	URL string `json:"url,omitempty"`
	// AccessURL is the access URL that the proxy is configured with.
	// +optional
	AccessURL string `json:"accessURL,omitempty"`
	// Registered is true if the proxy is registered in Coder and Coder accepts its token.
	// +optional
	Registered bool `json:"registered,omitempty"`
	// ProxyID and ProxyName identify the registration in Coder. ProxyName is set before the proxy is
	// registered. From then on, the fields that identify the registration cannot change.
	// +optional
	ProxyID string `json:"proxyID,omitempty"`
	// +optional
	ProxyName string `json:"proxyName,omitempty"`
	// ProxyTokenSecretRef refers to the key of the Secret that contains the session token.
	// +optional
	ProxyTokenSecretRef *TokenSecretReference `json:"proxyTokenSecretRef,omitempty"`
}

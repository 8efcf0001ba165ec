package apiserver

// The permissions of the aggregated API in kube-apiserver, besides those for the delegation
// of authentication and authorization (system:auth-delegator, and
// extension-apiserver-authentication-reader in kube-system).
//
// Namespaces: admission rejects objects in namespaces that are being deleted,
// and the storage releases the objects in them.
//+kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
//
// Admission policies and webhooks of the cluster apply to our objects as well.
//+kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations;validatingadmissionpolicies;validatingadmissionpolicybindings;mutatingadmissionpolicies;mutatingadmissionpolicybindings,verbs=get;list;watch
//
// Quotas: admission reads them, and counts new objects until kube-controller-manager
// counts again.
//+kubebuilder:rbac:groups="",resources=resourcequotas,verbs=get;list;watch
//+kubebuilder:rbac:groups="",resources=resourcequotas/status,verbs=update
//
// Pods of workspaces, by their label, and the Events that report why a volume cannot be
// mounted: for the condition PodsHealthy.
//+kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
//+kubebuilder:rbac:groups="",resources=events,verbs=list
//
// Events on workspaces and templates, in the namespaces of their control planes.
//+kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create
//
// The tests of templates with spec.activation AfterTest, in the namespaces of their control planes.
//+kubebuilder:rbac:groups=coder.com,resources=codertemplatetests,verbs=get;create
//
// Priority and fairness.
//+kubebuilder:rbac:groups=flowcontrol.apiserver.k8s.io,resources=prioritylevelconfigurations;flowschemas,verbs=get;list;watch
//+kubebuilder:rbac:groups=flowcontrol.apiserver.k8s.io,resources=flowschemas/status,verbs=patch
//
// The CA of the serving certificate, in our own APIService only.
//+kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,resourceNames=v1alpha1.aggregation.coder.com,verbs=get;patch
//
// The serving certificate, in our own namespace only. RBAC cannot restrict
// create to a name.
//+kubebuilder:rbac:groups="",namespace=coder-system,resources=secrets,resourceNames=coder-k8s-apiserver-tls,verbs=get;update
//+kubebuilder:rbac:groups="",namespace=coder-system,resources=secrets,verbs=create

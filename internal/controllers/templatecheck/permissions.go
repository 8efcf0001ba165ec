package templatecheck

// Permissions of the controller in addition to those of package connections.
//
// +kubebuilder:rbac:groups=coder.com,resources=codertemplatetests,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=coder.com,resources=codertemplatetests/status,verbs=patch
// +kubebuilder:rbac:groups=coder.com,resources=codercontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

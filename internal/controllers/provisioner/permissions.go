package provisioner

// What the controller does besides the shared steps. Updates of its finalizers let
// it be the owner of its children where the cluster checks that. Secrets hold the
// keys that it makes, and the tokens of the control planes in which it makes them.
//
// +kubebuilder:rbac:groups=coder.com,resources=coderprovisioners,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=coder.com,resources=coderprovisioners/status,verbs=patch
// +kubebuilder:rbac:groups=coder.com,resources=coderprovisioners/finalizers,verbs=update
// +kubebuilder:rbac:groups=coder.com,resources=codercontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;delete

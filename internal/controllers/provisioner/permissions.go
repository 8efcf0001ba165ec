package provisioner

// Permissions of the controller in addition to those of the shared steps. The operator sets the
// provisioner as the owner of its children. If the cluster checks that
// (OwnerReferencesPermissionEnforcement), this requires the permission to update its finalizers.
// Secrets contain the keys that the controller creates, and the tokens of the control planes in
// which it creates them. It creates provisioners only in dry runs, with which package author tests
// the policy that protects authors.
//
// +kubebuilder:rbac:groups=coder.com,resources=coderprovisioners,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=coder.com,resources=coderprovisioners/status,verbs=patch
// +kubebuilder:rbac:groups=coder.com,resources=coderprovisioners/finalizers,verbs=update
// +kubebuilder:rbac:groups=coder.com,resources=codercontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;delete

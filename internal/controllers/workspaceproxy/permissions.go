package workspaceproxy

// Permissions of the controller in addition to those of the shared steps. It reads control planes,
// and stores session tokens in Secrets.
//
// +kubebuilder:rbac:groups=coder.com,resources=coderworkspaceproxies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=coder.com,resources=coderworkspaceproxies/status,verbs=patch
// +kubebuilder:rbac:groups=coder.com,resources=coderworkspaceproxies/finalizers,verbs=update
// +kubebuilder:rbac:groups=coder.com,resources=codercontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;delete

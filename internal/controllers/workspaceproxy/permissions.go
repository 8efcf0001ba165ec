package workspaceproxy

// What the controller itself does, besides the shared steps: it reads control
// planes, and keeps session tokens in Secrets.
//
// +kubebuilder:rbac:groups=coder.com,resources=coderworkspaceproxies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=coder.com,resources=coderworkspaceproxies/status,verbs=patch
// +kubebuilder:rbac:groups=coder.com,resources=coderworkspaceproxies/finalizers,verbs=update
// +kubebuilder:rbac:groups=coder.com,resources=codercontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;delete

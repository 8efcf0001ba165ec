package controlplane

// What the controller itself does, and package access with it, besides what the
// shared steps do. Updates of its own control planes' finalizers let it be the owner
// of their children where the cluster checks that.
//
// +kubebuilder:rbac:groups=coder.com,resources=codercontrolplanes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=coder.com,resources=codercontrolplanes/status,verbs=patch
// +kubebuilder:rbac:groups=coder.com,resources=codercontrolplanes/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete

// What it grants to Coder, and must hold for that. Deployments are its own
// children too.
//
// +kubebuilder:rbac:groups="",resources=pods;persistentvolumeclaims,verbs=get;list;watch;create;update;patch;delete;deletecollection
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update;patch;delete;deletecollection

package controlplane

// Permissions of the controller itself and of package access, in addition to those of the shared
// steps. The operator sets the control plane as the owner of its children. If the cluster checks
// that (OwnerReferencesPermissionEnforcement), this requires the permission to update its
// finalizers. It creates control planes only in dry runs, with which package author tests the policy
// that protects authors.
//
// +kubebuilder:rbac:groups=coder.com,resources=codercontrolplanes,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=coder.com,resources=codercontrolplanes/status,verbs=patch
// +kubebuilder:rbac:groups=coder.com,resources=codercontrolplanes/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=internal.coder.com,resources=codermirrorstates,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete

// Permissions that the operator grants to Coder, and must therefore have itself. Deployments are
// also its own children, and it reads the PersistentVolumeClaim of a backup before an upgrade.
//
// +kubebuilder:rbac:groups="",resources=pods;persistentvolumeclaims,verbs=get;list;watch;create;update;patch;delete;deletecollection
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update;patch;delete;deletecollection

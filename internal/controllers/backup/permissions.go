package backup

// Permissions of this controller, in addition to those of the shared steps and of package
// controlplane, which include Jobs and pods. Those on Backups of CloudNativePG are in the chart
// (rbac.yaml), and only granted with the value backups.cloudNativePG.
//
// +kubebuilder:rbac:groups=coder.com,resources=coderbackups,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=coder.com,resources=coderbackups/status,verbs=patch
// +kubebuilder:rbac:groups=coder.com,resources=coderbackups/finalizers,verbs=update
// +kubebuilder:rbac:groups=coder.com,resources=coderbackupschedules,verbs=get;list;watch
// +kubebuilder:rbac:groups=coder.com,resources=coderbackupschedules/status,verbs=patch
// +kubebuilder:rbac:groups=coder.com,resources=codercontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete

package v1alpha1

const (
	// AnnotationReplicas on a Deployment is the number of pods in the spec when it was last
	// applied. As long as the spec still has this number, another field manager may scale the
	// Deployment.
	AnnotationReplicas = "coder.com/replicas"
	// AnnotationConfigChecksum on a pod template is a checksum of the Secrets and ConfigMaps that
	// the pods use. A change restarts the pods in a rollout.
	AnnotationConfigChecksum = "coder.com/config-checksum"

	// AnnotationAdopt on an object that the operator did not create transfers it to the operator.
	// Its value is the kind and name of the custom resource in the same namespace that becomes the
	// owner, for example CoderControlPlane/coder. It has no effect on an object that has a
	// controller.
	AnnotationAdopt = "coder.com/adopt"
	// AnnotationAdoptedChecksum on a Deployment that was taken over is the value that
	// AnnotationConfigChecksum would have on its pods. The pods get that annotation only when the
	// content changes, so that taking over does not restart them.
	AnnotationAdoptedChecksum = "coder.com/adopted-checksum"
	// AnnotationWorkloadName on a CoderProvisioner or CoderWorkspaceProxy is the name of its
	// Deployment and Service, if objects with other names were taken over. Changing it creates new
	// objects.
	AnnotationWorkloadName = "coder.com/workload-name"
	// AnnotationRBACAuthor on a CoderControlPlane or CoderProvisioner is the user whose permissions
	// are compared with spec.rbac: the name in the first line, and one group in each further line.
	// On a CoderBackup or CoderBackupSchedule it is the user who last changed the spec.
	// An admission policy of the operator writes it.
	AnnotationRBACAuthor = "coder.com/rbac-author"

	// LabelComponent distinguishes the Service for the metrics from the Service of the workload. As
	// an annotation of the pods, it is the component that runs in them, as in Coder's own chart.
	LabelComponent = "app.kubernetes.io/component"
	// ComponentMetrics is the value of LabelComponent on objects for the metrics.
	ComponentMetrics = "metrics"
)

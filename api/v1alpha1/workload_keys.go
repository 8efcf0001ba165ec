package v1alpha1

const (
	// AnnotationReplicas on a Deployment is the number of pods that the spec asked
	// for when it was last applied. As long as the spec asks for that number still,
	// another field manager may scale the Deployment.
	AnnotationReplicas = "coder.com/replicas"
	// AnnotationConfigChecksum on a pod template identifies the content of the
	// Secrets and ConfigMaps that the pods refer to. A change of it rolls the pods.
	AnnotationConfigChecksum = "coder.com/config-checksum"

	// AnnotationAdopt on an object that somebody else made hands it over: its value is
	// the kind and name of the custom resource in the same namespace that is to own it,
	// for example CoderControlPlane/coder. An object that has a controller is not
	// handed over by it.
	AnnotationAdopt = "coder.com/adopt"
	// AnnotationAdoptedChecksum on a Deployment that was handed over is what
	// AnnotationConfigChecksum would be on its pods. They get that only when the
	// content changes, so that to be handed over does not roll them.
	AnnotationAdoptedChecksum = "coder.com/adopted-checksum"
	// AnnotationWorkloadName on a CoderProvisioner or CoderWorkspaceProxy is the name
	// of its Deployment and Service, where objects of other names than the operator's
	// were handed over. Whoever changes it gets new ones.
	AnnotationWorkloadName = "coder.com/workload-name"
	// AnnotationRBACAuthor on a CoderControlPlane or CoderProvisioner is the user whose
	// rights spec.rbac is compared with: the name in the first line, a group in each
	// further line. An admission policy of the operator writes it.
	AnnotationRBACAuthor = "coder.com/rbac-author"

	// LabelComponent tells the Service of the metrics from that of the workload. As
	// an annotation of the pods it says what runs in them, as in Coder's own chart.
	LabelComponent = "app.kubernetes.io/component"
	// ComponentMetrics is its value on what belongs to the metrics.
	ComponentMetrics = "metrics"
)

package v1alpha1

const (
	// AnnotationReplicas on a Deployment is the number of pods that the spec asked
	// for when it was last applied. As long as the spec asks for that number still,
	// another field manager may scale the Deployment.
	AnnotationReplicas = "coder.com/replicas"
	// AnnotationConfigChecksum on a pod template identifies the content of the
	// Secrets and ConfigMaps that the pods refer to. A change of it rolls the pods.
	AnnotationConfigChecksum = "coder.com/config-checksum"

	// LabelComponent tells the Service of the metrics from that of the workload. As
	// an annotation of the pods it says what runs in them, as in Coder's own chart.
	LabelComponent = "app.kubernetes.io/component"
	// ComponentMetrics is its value on what belongs to the metrics.
	ComponentMetrics = "metrics"
)

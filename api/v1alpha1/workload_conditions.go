package v1alpha1

// Conditions that the three kinds share, besides Ready, Reconciling, Stalled,
// ResourcesApplied, DeploymentAvailable, WorkspaceAccess and Exposed.
const (
	// ConditionMetricsExported is there where the spec asks for a ServiceMonitor, and
	// true when it was applied. It does not decide about Ready.
	ConditionMetricsExported = "MetricsExported"
)

// Reasons that the three kinds share.
const (
	// ReasonExposed: an Ingress or HTTPRoute leads to the Service.
	ReasonExposed = "Exposed"
	// ReasonMetricsExported: a ServiceMonitor leads to the metrics.
	ReasonMetricsExported = "MetricsExported"
	// ReasonKindMissing: the cluster does not know the kind of an object that the
	// spec asks for, because its custom resource definition is not installed.
	ReasonKindMissing = "KindMissing"
	// ReasonRouteRefused: a Gateway refuses the HTTPRoute.
	ReasonRouteRefused = "RouteRefused"

	// ReasonNamespaceNotWatched: the operator does not work in a namespace of
	// spec.rbac, because it was told to restrict itself to others.
	ReasonNamespaceNotWatched = "NamespaceNotWatched"

	// ReasonSecretMissing and ReasonConfigMapMissing: the pods refer to a Secret or
	// ConfigMap, or to a key of it, that does not exist.
	ReasonSecretMissing    = "SecretMissing"
	ReasonConfigMapMissing = "ConfigMapMissing"
	// ReasonDatabaseSecretMissing: the Secret of spec.database does not exist, or has
	// not the key that holds the address.
	ReasonDatabaseSecretMissing = "DatabaseSecretMissing"
)

package v1alpha1

// Conditions that the kinds of this group share, in addition to Ready, Reconciling, Stalled,
// ResourcesApplied, DeploymentAvailable, WorkspaceAccess and Exposed.
const (
	// ConditionMetricsExported is present if the spec requests a ServiceMonitor. It is true when
	// the ServiceMonitor is applied. It does not affect Ready.
	ConditionMetricsExported = "MetricsExported"
	// ConditionEvictable is present, and false, only while spec.podDisruptionBudget allows no
	// eviction even if all pods are ready, so that kubectl drain of their nodes never ends. It does
	// not affect Ready.
	ConditionEvictable = "Evictable"
)

// Reasons that the kinds of this group share.
const (
	// ReasonExposed: an Ingress or HTTPRoute routes to the Service.
	ReasonExposed = "Exposed"
	// ReasonMetricsExported: a ServiceMonitor selects the Service of the metrics.
	ReasonMetricsExported = "MetricsExported"
	// ReasonBudgetBlocksDrain: the PodDisruptionBudget requires as many available pods as there are, or allows
	// no unavailable one.
	ReasonBudgetBlocksDrain = "BudgetBlocksDrain"
	// ReasonKindMissing: the cluster does not serve the kind of an object that the spec requests,
	// because its custom resource definition is not installed.
	ReasonKindMissing = "KindMissing"
	// ReasonRouteRefused: a Gateway does not accept the HTTPRoute.
	ReasonRouteRefused = "RouteRefused"

	// ReasonNamespaceNotWatched: the operator is configured not to watch a namespace of spec.rbac.
	ReasonNamespaceNotWatched = "NamespaceNotWatched"

	// ReasonSecretMissing: the spec or the pods refer to a Secret, or to a key of it, that does not
	// exist.
	ReasonSecretMissing = "SecretMissing"
	// ReasonConfigMapMissing: the pods refer to a ConfigMap, or to a key of it, that does not
	// exist.
	ReasonConfigMapMissing = "ConfigMapMissing"
	// ReasonDatabaseSecretMissing: the Secret of spec.database does not exist, or does not contain
	// the key with the connection URL.
	ReasonDatabaseSecretMissing = "DatabaseSecretMissing"
)

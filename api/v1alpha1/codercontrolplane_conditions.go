package v1alpha1

// Conditions of a CoderControlPlane. Each contains the generation that it describes. kstatus
// evaluates Ready, Reconciling and Stalled: Ready is derived from the other conditions; Reconciling
// and Stalled are present only while they are true.
const (
	// ConditionReady is true when everything that the spec requests works.
	ConditionReady = "Ready"
	// ConditionReconciling is true while the operator applies the spec.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is true when a user must act. Until then the problem is reported as Reconciling:
	// a missing Secret, image or database until the rollout's deadline, a crashing container until its
	// fifth restart, after about five minutes.
	ConditionStalled = "Stalled"

	// ConditionResourcesApplied is true when all objects in the cluster that the spec requires are
	// applied.
	ConditionResourcesApplied = "ResourcesApplied"
	// ConditionWorkspaceAccess is true when Coder's ServiceAccount has the permissions of spec.rbac
	// in all of its namespaces. It does not affect Ready.
	ConditionWorkspaceAccess = "WorkspaceAccess"
	// ConditionVersionAllowed is present, and false, only while the image of the spec is refused,
	// because Coder cannot migrate its database to that version, or because the version is not known.
	// The pods keep their image; all other changes of the spec are applied. It does not prevent the
	// first image of a control plane.
	ConditionVersionAllowed = "VersionAllowed"
	// ConditionVersionSupported is true when status.version is one of the versions of Coder that this
	// release of coder-k8s supports, and unknown if it is not a release. It is present as soon as the
	// version is known. It does not affect Ready, and nothing is blocked while it is false.
	ConditionVersionSupported = "VersionSupported"
	// ConditionDeploymentAvailable is true when the requested number of pods is ready and all of
	// them have the newest revision. If the reason names a missing Secret or ConfigMap, the
	// current pods keep running, but no new pod can start.
	ConditionDeploymentAvailable = "DeploymentAvailable"
	// ConditionCoderReachable is true when Coder's API responds at status.url.
	ConditionCoderReachable = "CoderReachable"
	// ConditionOperatorAccess is true when Coder accepts the operator's token.
	ConditionOperatorAccess = "OperatorAccess"
	// ConditionServed is true when the aggregated API serves the templates and workspaces of this
	// control plane. Ready waits until the aggregated API has read them for the first time. After
	// that, and in an installation without the aggregated API, Served does not affect Ready.
	ConditionServed = "Served"
	// ConditionDatabaseExclusive is present, and false, only while an older CoderControlPlane of the
	// namespace takes the connection URL of its database from the same key of the same Secret. It does
	// not affect Ready.
	ConditionDatabaseExclusive = "DatabaseExclusive"
	// ConditionExposed is true when the Ingress or HTTPRoute of spec.expose exists.
	ConditionExposed = "Exposed"
	// ConditionLicenseApplied is true when Coder has the license of spec.licenseSecretRef and the
	// license is valid.
	ConditionLicenseApplied = "LicenseApplied"
	// ConditionHighAvailabilityEntitled is present if the spec requests more than one replica. It
	// is true when the licenses of the running Coder allow that. It does not affect Ready: each
	// replica works, but a user may not reach a workspace that is connected to another replica.
	ConditionHighAvailabilityEntitled = "HighAvailabilityEntitled"
)

// Reasons of the conditions and of the Events about them.
const (
	// ReasonReady: everything that the spec requests works.
	ReasonReady = "Ready"
	// ReasonReconciling: the operator is applying the spec, and there is no problem.
	ReasonReconciling = "Reconciling"
	// ReasonDeleting: the object is being deleted; the message says what the deletion is waiting
	// for.
	ReasonDeleting = "Deleting"
	// ReasonApplied: the requested state is applied.
	ReasonApplied = "Applied"
	// ReasonAvailable: the requested number of pods is ready.
	ReasonAvailable = "Available"
	// ReasonReachable: Coder's API responds.
	ReasonReachable = "Reachable"
	// ReasonGranted: the permissions for workspaces are granted.
	ReasonGranted = "Granted"
	// ReasonServed: the aggregated API serves templates and workspaces.
	ReasonServed = "Served"
	// ReasonScaledToZero: zero pods are requested, so none runs.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonWaiting: the operator is waiting for something else; the message says for what.
	ReasonWaiting = "Waiting"
	// ReasonDisabled: the feature is disabled in the spec.
	ReasonDisabled = "Disabled"
	// ReasonProgressing: a rollout of the pods is in progress.
	ReasonProgressing = "Progressing"
	// ReasonNotChecked: the operator does not check this, or the state is not known.
	ReasonNotChecked = "NotChecked"

	// ReasonInvalidName: the name is not a valid name of a Service.
	ReasonInvalidName = "InvalidName"
	// ReasonInvalidSpec: the API server refused an object that was created from the spec.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonNotOwned: an object with the required name belongs to someone else and was not changed.
	ReasonNotOwned = "NotOwned"
	// ReasonApplyFailed: the API server did not accept an object; the operator retries.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonGrantForbidden: the operator has no permission to grant a rule of spec.rbac.
	ReasonGrantForbidden = "GrantForbidden"
	// ReasonOrphaned: the object was deleted with --cascade=orphan; the message names what its pods
	// still need in Coder and in other namespaces, or why there are none (Event).
	ReasonOrphaned = "Orphaned"
	// ReasonGrantsLeftBehind: the object was deleted without revoking its permissions in a namespace that
	// the operator does not watch, or in which it has no permissions (Event).
	ReasonGrantsLeftBehind = "GrantsLeftBehind"
	// ReasonAuthorForbidden: the author of spec.rbac has no permission to grant one of its rules, or that
	// of a backup may not create Backups of CloudNativePG.
	ReasonAuthorForbidden = "AuthorForbidden"
	// ReasonAuthorUnknown: the author of spec.rbac, or of a backup with CloudNativePG, is not known with
	// certainty, so nothing is granted.
	ReasonAuthorUnknown = "AuthorUnknown"
	// ReasonNamespaceMissing: a namespace of spec.rbac does not exist.
	ReasonNamespaceMissing = "NamespaceMissing"

	// ReasonDowngrade: the image is of an older minor version than the Coder that has migrated the
	// database.
	ReasonDowngrade = "Downgrade"
	// ReasonUnsupportedUpgrade: the image is of another major version of Coder.
	ReasonUnsupportedUpgrade = "UnsupportedUpgrade"
	// ReasonVersionUnknown: the image changes, and the tag of the image is not a version of Coder, or
	// the version of the running Coder is not known or not that of a release.
	ReasonVersionUnknown = "VersionUnknown"
	// ReasonSupported: this release supports the version of Coder.
	ReasonSupported = "Supported"
	// ReasonOlderVersion: Coder is older than the versions that this release supports.
	ReasonOlderVersion = "OlderVersion"
	// ReasonNewerVersion: Coder is newer than the versions that this release supports.
	ReasonNewerVersion = "NewerVersion"
	// ReasonDatabaseSchemaNewer: a newer Coder has migrated the database, so this one does not start.
	ReasonDatabaseSchemaNewer = "DatabaseSchemaNewer"

	// ReasonImagePullFailed: a node cannot pull the image.
	ReasonImagePullFailed = "ImagePullFailed"
	// ReasonDatabaseUnreachable: Coder reports that it cannot reach its database.
	ReasonDatabaseUnreachable = "DatabaseUnreachable"
	// ReasonDatabaseShared: another CoderControlPlane of the namespace uses the same database.
	ReasonDatabaseShared = "DatabaseShared"
	// ReasonDatabaseMissing: the spec configures no database.
	ReasonDatabaseMissing = "DatabaseMissing"
	// ReasonCrashLooping: the container of Coder exits repeatedly.
	ReasonCrashLooping = "CrashLooping"
	// ReasonContainerConfigInvalid: a Secret, ConfigMap or key that the pod refers to does not
	// exist.
	ReasonContainerConfigInvalid = "ContainerConfigInvalid"
	// ReasonUnschedulable: the scheduler finds no node for the pods.
	ReasonUnschedulable = "Unschedulable"
	// ReasonNodeLost: the node of a pod does not report any more.
	ReasonNodeLost = "NodeLost"
	// ReasonPodsRefused: the API server refuses the pods, for example because of a quota.
	ReasonPodsRefused = "PodsRefused"
	// ReasonProgressDeadlineExceeded: the rollout did not complete in time.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"

	// ReasonUnreachable: Coder's API does not respond.
	ReasonUnreachable = "Unreachable"
	// ReasonTokenMinted: the operator created a token in Coder (Event).
	ReasonTokenMinted = "TokenMinted"
	// ReasonTokenRotated: the operator replaced its token in Coder (Event).
	ReasonTokenRotated = "TokenRotated"
	// ReasonTokenRevoked: the operator revoked its token in Coder (Event).
	ReasonTokenRevoked = "TokenRevoked"
	// ReasonAccountSuspended: the operator suspended an account that an earlier control plane left
	// behind in Coder (Event).
	ReasonAccountSuspended = "AccountSuspended"
	// ReasonTokenAccepted: Coder accepts the operator's token.
	ReasonTokenAccepted = "TokenAccepted"
	// ReasonTokenExpiring: Coder accepts the token of spec.operatorAccess.tokenSecretRef, but the
	// token expires soon and the operator cannot renew it.
	ReasonTokenExpiring = "TokenExpiring"
	// ReasonTokenRefused: Coder does not accept a token of the operator or of a proxy, or the user
	// of the operator's token does not have the role owner.
	ReasonTokenRefused = "TokenRefused"
	// ReasonTokenSecretMissing: the Secret of spec.operatorAccess.tokenSecretRef or its key does
	// not exist.
	ReasonTokenSecretMissing = "TokenSecretMissing"
	// ReasonCredentialsRefused: Coder does not accept the operator's own account.
	ReasonCredentialsRefused = "CredentialsRefused"
	// ReasonAdminJobRunning: a Job is creating the operator's account in a Coder that already has
	// users.
	ReasonAdminJobRunning = "AdminJobRunning"
	// ReasonAdminJobFailed: the Job that creates the operator's account failed.
	ReasonAdminJobFailed = "AdminJobFailed"
	// ReasonInitialAdminCreated: the initial admin account and its Secret <name>-initial-admin were
	// created.
	ReasonInitialAdminCreated = "InitialAdminCreated"
	// ReasonRevocationSkipped: the control plane was deleted while Coder could not be reached; its
	// token was not revoked and expires by itself.
	ReasonRevocationSkipped = "RevocationSkipped"
)

package v1alpha1

// Conditions of a CoderControlPlane. Each carries the generation that it is
// about. Ready, Reconciling and Stalled are what kstatus reads: Ready is
// derived from the parts below; Reconciling and Stalled are present only while
// they are true.
const (
	// ConditionReady is true when every part that the spec asks for works.
	ConditionReady = "Ready"
	// ConditionReconciling is true while the operator works towards the spec.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is true when only a person can help.
	ConditionStalled = "Stalled"

	// ConditionResourcesApplied is true when every object in the cluster that
	// the spec asks for was applied.
	ConditionResourcesApplied = "ResourcesApplied"
	// ConditionWorkspaceAccess is true when Coder's ServiceAccount holds the
	// rights that spec.rbac asks for, in every namespace that it names. It does
	// not decide about Ready.
	ConditionWorkspaceAccess = "WorkspaceAccess"
	// ConditionDeploymentAvailable is true when as many pods are ready as the
	// spec asks for, all of the newest revision.
	ConditionDeploymentAvailable = "DeploymentAvailable"
	// ConditionCoderReachable is true when Coder's API answers at status.url.
	ConditionCoderReachable = "CoderReachable"
	// ConditionOperatorAccess is true when Coder accepts the operator's token.
	ConditionOperatorAccess = "OperatorAccess"
	// ConditionServed is true when the aggregated API serves the templates and
	// workspaces of this control plane. It does not decide about Ready.
	ConditionServed = "Served"
	// ConditionExposed is true when the Ingress or HTTPRoute that spec.expose asks
	// for is there.
	ConditionExposed = "Exposed"
	// ConditionLicenseApplied is true when Coder has the license that
	// spec.licenseSecretRef asks for, and it counts.
	ConditionLicenseApplied = "LicenseApplied"
	// ConditionHighAvailabilityEntitled is there where more than one replica is asked
	// for, and true when the licenses of the running Coder allow that. It does not
	// decide about Ready: each replica works, but a user whose workspace is connected
	// to another replica may not reach it.
	ConditionHighAvailabilityEntitled = "HighAvailabilityEntitled"
)

// Reasons of conditions and of the Events that tell of them.
const (
	// ReasonReady: everything that the spec asks for works.
	ReasonReady = "Ready"
	// ReasonReconciling: the operator is at work, and nothing is wrong.
	ReasonReconciling = "Reconciling"
	// ReasonDeleting: the object is being deleted; the message says what that waits
	// for.
	ReasonDeleting = "Deleting"
	// ReasonApplied: what the spec asks for was applied.
	ReasonApplied = "Applied"
	// ReasonAvailable: as many pods are ready as are wanted.
	ReasonAvailable = "Available"
	// ReasonReachable: Coder's API answers.
	ReasonReachable = "Reachable"
	// ReasonGranted: the rights for workspaces are granted.
	ReasonGranted = "Granted"
	// ReasonServed: the aggregated API serves templates and workspaces.
	ReasonServed = "Served"
	// ReasonScaledToZero: no pod is wanted, so none runs.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonWaiting: another part has to come first; the message says which.
	ReasonWaiting = "Waiting"
	// ReasonDisabled: the spec switches it off.
	ReasonDisabled = "Disabled"
	// ReasonProgressing: pods are on their way.
	ReasonProgressing = "Progressing"
	// ReasonNotChecked: the operator cannot know, or does not ask.
	ReasonNotChecked = "NotChecked"

	// ReasonInvalidName: the name cannot be that of a Service.
	ReasonInvalidName = "InvalidName"
	// ReasonInvalidSpec: the API server refused an object made from the spec.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonNotOwned: an object of the name that is needed belongs to someone
	// else and was not touched.
	ReasonNotOwned = "NotOwned"
	// ReasonApplyFailed: the API server did not accept an object for now.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonGrantForbidden: the operator may not grant a rule of spec.rbac.
	ReasonGrantForbidden = "GrantForbidden"
	// ReasonAuthorForbidden: the author of spec.rbac may not grant one of its rules.
	ReasonAuthorForbidden = "AuthorForbidden"
	// ReasonAuthorUnknown: it is not known for certain who wrote spec.rbac, so nothing
	// is granted.
	ReasonAuthorUnknown = "AuthorUnknown"
	// ReasonNamespaceMissing: a namespace of spec.rbac.workspaceNamespaces does
	// not exist.
	ReasonNamespaceMissing = "NamespaceMissing"

	// ReasonImagePullFailed: a node cannot fetch the image.
	ReasonImagePullFailed = "ImagePullFailed"
	// ReasonDatabaseUnreachable: Coder says that it cannot reach its database.
	ReasonDatabaseUnreachable = "DatabaseUnreachable"
	// ReasonDatabaseMissing: the spec names no database.
	ReasonDatabaseMissing = "DatabaseMissing"
	// ReasonCrashLooping: the coderd container keeps ending.
	ReasonCrashLooping = "CrashLooping"
	// ReasonContainerConfigInvalid: a Secret, ConfigMap or key that the pod
	// refers to does not exist.
	ReasonContainerConfigInvalid = "ContainerConfigInvalid"
	// ReasonUnschedulable: no node takes the pods.
	ReasonUnschedulable = "Unschedulable"
	// ReasonPodsRefused: the API server refuses the pods, for example because of
	// a quota.
	ReasonPodsRefused = "PodsRefused"
	// ReasonProgressDeadlineExceeded: the rollout did not end in time.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"

	// ReasonUnreachable: no answer from Coder's API.
	ReasonUnreachable = "Unreachable"
	// ReasonTokenMinted, ReasonTokenRotated and ReasonTokenRevoked tell of the
	// operator's token.
	ReasonTokenMinted  = "TokenMinted"
	ReasonTokenRotated = "TokenRotated"
	ReasonTokenRevoked = "TokenRevoked"
	// ReasonTokenAccepted: Coder accepts the operator's token.
	ReasonTokenAccepted = "TokenAccepted"
	// ReasonTokenExpiring: Coder accepts the token of spec.operatorAccess.tokenSecretRef,
	// but it expires soon and the operator cannot renew it.
	ReasonTokenExpiring = "TokenExpiring"
	// ReasonTokenRefused: Coder no longer accepts it.
	ReasonTokenRefused = "TokenRefused"
	// ReasonTokenSecretMissing: the Secret of spec.operatorAccess.tokenSecretRef
	// or its key does not exist.
	ReasonTokenSecretMissing = "TokenSecretMissing"
	// ReasonCredentialsRefused: Coder does not know the operator's own account.
	ReasonCredentialsRefused = "CredentialsRefused"
	// ReasonAdminJobRunning and ReasonAdminJobFailed tell of the Job that makes
	// the operator's account in a Coder that already has users.
	ReasonAdminJobRunning = "AdminJobRunning"
	ReasonAdminJobFailed  = "AdminJobFailed"
	// ReasonInitialAdminCreated: <name>-initial-admin was made.
	ReasonInitialAdminCreated = "InitialAdminCreated"
	// ReasonRevocationSkipped: the control plane was deleted while Coder could
	// not be reached; its token runs out by itself.
	ReasonRevocationSkipped = "RevocationSkipped"
)

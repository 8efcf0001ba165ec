package v1alpha1

// Conditions that only a CoderWorkspaceProxy has, besides those that all
// workloads share and ConditionControlPlaneReady.
const (
	// ConditionRegistered is true when Coder knows the proxy under the name, the
	// display name and the icon of the spec, and accepts its token.
	ConditionRegistered = "Registered"
)

// Reasons of that condition, and of the Events that tell of a registration.
const (
	// ReasonRegistered: Coder knows the proxy and accepts its token.
	ReasonRegistered = "Registered"
	// ReasonNameTaken: another proxy in Coder has the name.
	ReasonNameTaken = "NameTaken"
	// ReasonCoderRefused: Coder answered, and does not do what is asked, for a
	// reason that no other constant names.
	ReasonCoderRefused = "CoderRefused"
	// ReasonRegistrationChanged: name, display name or icon were brought in line.
	ReasonRegistrationChanged = "RegistrationChanged"
	// ReasonTokenRegenerated: Coder no longer accepted the session token, or the
	// Secret had lost it, so that Coder made a new one.
	ReasonTokenRegenerated = "TokenRegenerated"
	// ReasonUnregistered: a registration of the operator was removed in Coder.
	ReasonUnregistered = "Unregistered"
	// ReasonUnregistrationSkipped: a registration stays behind in Coder.
	ReasonUnregistrationSkipped = "UnregistrationSkipped"
)

const (
	// WorkspaceProxyName is the value of LabelName on a workspace proxy's objects.
	WorkspaceProxyName = "coder-workspace-proxy"

	// FinalizerWorkspaceProxy holds a workspace proxy back until it is no longer
	// registered in Coder.
	FinalizerWorkspaceProxy = "coder.com/workspace-proxy-cleanup"
)

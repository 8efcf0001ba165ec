package v1alpha1

// Conditions that only a CoderWorkspaceProxy has, in addition to those that all workloads share and
// ConditionControlPlaneReady.
const (
	// ConditionRegistered is true when the proxy is registered in Coder with the name, the display
	// name and the icon of the spec, and Coder accepts its token.
	ConditionRegistered = "Registered"
)

// Reasons of that condition, and of the Events about the registration.
const (
	// ReasonRegistered: the proxy is registered in Coder, and Coder accepts its token.
	ReasonRegistered = "Registered"
	// ReasonNameTaken: another proxy in Coder has the name.
	ReasonNameTaken = "NameTaken"
	// ReasonCoderRefused: Coder refused a request for a reason without a constant of its own.
	ReasonCoderRefused = "CoderRefused"
	// ReasonRegistrationChanged: the operator updated the name, the display name or the icon in
	// Coder.
	ReasonRegistrationChanged = "RegistrationChanged"
	// ReasonTokenRegenerated: Coder no longer accepted the session token, or the Secret no longer
	// contained it, so Coder created a new one.
	ReasonTokenRegenerated = "TokenRegenerated"
	// ReasonUnregistered: the operator removed its registration from Coder.
	ReasonUnregistered = "Unregistered"
	// ReasonUnregistrationSkipped: the operator did not remove its registration from Coder.
	ReasonUnregistrationSkipped = "UnregistrationSkipped"
)

const (
	// WorkspaceProxyName is the value of LabelName on a workspace proxy's objects.
	WorkspaceProxyName = "coder-workspace-proxy"

	// FinalizerWorkspaceProxy blocks the deletion of a workspace proxy until it is no longer
	// registered in Coder.
	FinalizerWorkspaceProxy = "coder.com/workspace-proxy-cleanup"
)

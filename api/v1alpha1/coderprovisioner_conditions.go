package v1alpha1

// Conditions of a CoderProvisioner, besides those that all kinds have.
const (
	// ConditionControlPlaneReady is true when the Coder to which the daemons belong
	// is known, and the operator may ask it where it has to.
	ConditionControlPlaneReady = "ControlPlaneReady"
	// ConditionExternalProvisionersEntitled is true when the licenses of that Coder
	// allow external provisioners. Where it is false, no new key is made; the key and
	// the pods that there are stay, and the pods follow the spec. It is unknown, and
	// does not decide about Ready, where the operator does not ask Coder.
	ConditionExternalProvisionersEntitled = "ExternalProvisionersEntitled"
	// ConditionProvisionerKeyReady is true when Coder knows the key with which the
	// daemons log in, and it is the one that the spec asks for.
	ConditionProvisionerKeyReady = "ProvisionerKeyReady"
	// ConditionProvisionerKeySecretReady is true when the Secret holds what the
	// daemons log in with.
	ConditionProvisionerKeySecretReady = "ProvisionerKeySecretReady"
)

// Reasons of those conditions and of the Events that tell of them.
const (
	// ReasonControlPlaneAvailable: the control plane is there and can be asked.
	ReasonControlPlaneAvailable = "ControlPlaneAvailable"
	// ReasonControlPlaneUnavailable: it does not exist, is being deleted, or does not
	// run yet.
	ReasonControlPlaneUnavailable = "ControlPlaneUnavailable"
	// ReasonExternalURL: the daemons belong to the Coder of spec.url, which the
	// operator does not ask.
	ReasonExternalURL = "ExternalURL"
	// ReasonOperatorAccessNotReady: the control plane has no token of the operator
	// yet.
	ReasonOperatorAccessNotReady = "OperatorAccessNotReady"
	// ReasonOperatorAccessDisabled: spec.operatorAccess.disabled of the control
	// plane is set, so nothing can be asked or made there.
	ReasonOperatorAccessDisabled = "OperatorAccessDisabled"
	// ReasonOperatorTokenSecretUnavailable: the Secret with the operator's token
	// cannot be read, or holds none.
	ReasonOperatorTokenSecretUnavailable = "OperatorTokenSecretUnavailable"

	// ReasonEntitled: the licenses allow it.
	ReasonEntitled = "Entitled"
	// ReasonNotEntitled: no license allows it.
	ReasonNotEntitled = "NotEntitled"
	// ReasonEntitlementsQueryFailed: Coder does not tell what its licenses allow.
	ReasonEntitlementsQueryFailed = "EntitlementsQueryFailed"
	// ReasonNotSupported: the Coder is the AGPL build, or too old.
	ReasonNotSupported = "NotSupported"
	// ReasonForbidden: the operator's token may not do it.
	ReasonForbidden = "Forbidden"

	// ReasonProvisionerKeyReady: Coder knows the key, and it is the right one.
	ReasonProvisionerKeyReady = "ProvisionerKeyReady"
	// ReasonProvisionerKeyFailed: Coder refused to tell of a key or to make one.
	ReasonProvisionerKeyFailed = "ProvisionerKeyFailed"
	// ReasonRateLimited: Coder asks for fewer requests.
	ReasonRateLimited = "RateLimited"
	// ReasonKeyNameTaken: a key of that name exists in Coder and is someone else's.
	ReasonKeyNameTaken = "KeyNameTaken"
	// ReasonDuplicateKeyName: an older CoderProvisioner has the key of that name.
	ReasonDuplicateKeyName = "DuplicateKeyName"
	// ReasonOrganizationNotFound: Coder has no organization of that name.
	ReasonOrganizationNotFound = "OrganizationNotFound"
	// ReasonOrganizationNotSelectable: daemons with a pre-shared key work for the
	// default organization.
	ReasonOrganizationNotSelectable = "OrganizationNotSelectable"
	// ReasonOwnKey and ReasonPreSharedKey: the daemons log in with what a Secret of
	// the spec holds, which the operator does not ask Coder about.
	ReasonOwnKey       = "OwnKey"
	ReasonPreSharedKey = "PreSharedKey"

	// ReasonSecretReady: the Secret holds the key.
	ReasonSecretReady = "SecretReady"

	// ReasonProvisionerKeyCreated, ReasonProvisionerKeyRotated,
	// ReasonProvisionerKeyDeleted and ReasonProvisionerKeyLeftBehind are Events.
	ReasonProvisionerKeyCreated    = "ProvisionerKeyCreated"
	ReasonProvisionerKeyRotated    = "ProvisionerKeyRotated"
	ReasonProvisionerKeyDeleted    = "ProvisionerKeyDeleted"
	ReasonProvisionerKeyLeftBehind = "ProvisionerKeyLeftBehind"
)

// Labels, annotations and finalizers of a CoderProvisioner's objects.
const (
	// ProvisionerName is the value of LabelName on them.
	ProvisionerName = "coder-provisioner"
	// FinalizerProvisionerKey holds a CoderProvisioner back until its jobs ended
	// and its key is deleted in Coder. It is that of the public predecessor.
	FinalizerProvisionerKey = "coder.com/provisioner-key-cleanup"
	// LabelProvisioner and LabelProvisionerNamespace name the owner of an object
	// that lives in another namespace.
	LabelProvisioner          = "coder.com/provisioner"
	LabelProvisionerNamespace = "coder.com/provisioner-namespace"
	// AnnotationProvisionerKeyID is on the key's Secret and on the pods: the id in
	// Coder of the key that they hold.
	AnnotationProvisionerKeyID = "coder.com/provisioner-key-id"
)

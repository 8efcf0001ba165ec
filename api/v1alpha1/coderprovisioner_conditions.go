package v1alpha1

// Conditions of a CoderProvisioner, in addition to those that all kinds have.
const (
	// ConditionControlPlaneReady is true when the Coder of the daemons or of the proxy is known,
	// and the operator can call its API if it needs to.
	ConditionControlPlaneReady = "ControlPlaneReady"
	// ConditionExternalProvisionersEntitled is true when the licenses of that Coder allow external
	// provisioners. While it is false, the operator creates no new key; an existing key and its
	// pods stay, and the pods follow the spec. It is unknown, and does not affect Ready, if the
	// operator does not call that Coder.
	ConditionExternalProvisionersEntitled = "ExternalProvisionersEntitled"
	// ConditionProvisionerKeyReady is true when Coder accepts the key with which the daemons
	// authenticate, and the key matches the spec.
	ConditionProvisionerKeyReady = "ProvisionerKeyReady"
	// ConditionProvisionerKeySecretReady is true when the Secret contains the credential with which
	// the daemons authenticate.
	ConditionProvisionerKeySecretReady = "ProvisionerKeySecretReady"
)

// Reasons of those conditions and of the Events about them.
const (
	// ReasonControlPlaneAvailable: the control plane exists and its API can be called.
	ReasonControlPlaneAvailable = "ControlPlaneAvailable"
	// ReasonControlPlaneUnavailable: the control plane does not exist, is being deleted, or is not
	// running yet.
	ReasonControlPlaneUnavailable = "ControlPlaneUnavailable"
	// ReasonExternalURL: the daemons belong to the Coder of spec.url, which the operator does not
	// call.
	ReasonExternalURL = "ExternalURL"
	// ReasonOperatorAccessNotReady: the operator has no token for the control plane yet.
	ReasonOperatorAccessNotReady = "OperatorAccessNotReady"
	// ReasonOperatorAccessDisabled: spec.operatorAccess.disabled of the control plane is set, so
	// the operator cannot call its API.
	ReasonOperatorAccessDisabled = "OperatorAccessDisabled"
	// ReasonOperatorTokenSecretUnavailable: the Secret with the operator's token cannot be read, or
	// contains no token.
	ReasonOperatorTokenSecretUnavailable = "OperatorTokenSecretUnavailable"

	// ReasonEntitled: the licenses allow the feature.
	ReasonEntitled = "Entitled"
	// ReasonNotEntitled: no license allows the feature.
	ReasonNotEntitled = "NotEntitled"
	// ReasonEntitlementsQueryFailed: Coder does not return what its licenses allow.
	ReasonEntitlementsQueryFailed = "EntitlementsQueryFailed"
	// ReasonNotSupported: this Coder is the AGPL build, or too old.
	ReasonNotSupported = "NotSupported"
	// ReasonForbidden: the operator's token lacks the permission.
	ReasonForbidden = "Forbidden"

	// ReasonProvisionerKeyReady: Coder accepts the key, and the key matches the spec.
	ReasonProvisionerKeyReady = "ProvisionerKeyReady"
	// ReasonProvisionerKeyFailed: Coder refused to return or to create a key.
	ReasonProvisionerKeyFailed = "ProvisionerKeyFailed"
	// ReasonRateLimited: Coder asks for fewer requests.
	ReasonRateLimited = "RateLimited"
	// ReasonKeyNameTaken: a key of that name exists in Coder and belongs to someone else.
	ReasonKeyNameTaken = "KeyNameTaken"
	// ReasonDuplicateKeyName: an older CoderProvisioner uses the key of that name.
	ReasonDuplicateKeyName = "DuplicateKeyName"
	// ReasonOrganizationNotFound: Coder has no organization of that name.
	ReasonOrganizationNotFound = "OrganizationNotFound"
	// ReasonOrganizationNotSelectable: daemons with a pre-shared key can only run jobs of the
	// default organization.
	ReasonOrganizationNotSelectable = "OrganizationNotSelectable"
	// ReasonOwnKey: the daemons authenticate with the provisioner key of spec.key.secretRef, which
	// the operator does not check in Coder.
	ReasonOwnKey = "OwnKey"
	// ReasonPreSharedKey: the daemons authenticate with the pre-shared key of spec.pskSecretRef,
	// which the operator does not check in Coder.
	ReasonPreSharedKey = "PreSharedKey"

	// ReasonSecretReady: the Secret contains the key.
	ReasonSecretReady = "SecretReady"

	// ReasonProvisionerKeyCreated: the operator created a key in Coder (Event).
	ReasonProvisionerKeyCreated = "ProvisionerKeyCreated"
	// ReasonProvisionerKeyRotated: the operator replaced the key in Coder (Event).
	ReasonProvisionerKeyRotated = "ProvisionerKeyRotated"
	// ReasonProvisionerKeyDeleted: the operator deleted a key in Coder (Event).
	ReasonProvisionerKeyDeleted = "ProvisionerKeyDeleted"
	// ReasonProvisionerKeyLeftBehind: a key of the operator was not deleted in Coder (Event).
	ReasonProvisionerKeyLeftBehind = "ProvisionerKeyLeftBehind"
)

// Labels, annotations and finalizers of a CoderProvisioner's objects.
const (
	// ProvisionerName is the value of LabelName on these objects.
	ProvisionerName = "coder-provisioner"
	// FinalizerProvisionerKey blocks the deletion of a CoderProvisioner until its jobs have ended
	// and its key is deleted in Coder. The name is that of the public predecessor.
	FinalizerProvisionerKey = "coder.com/provisioner-key-cleanup"
	// LabelProvisioner and LabelProvisionerNamespace identify the owner of an object in another
	// namespace.
	LabelProvisioner          = "coder.com/provisioner"
	LabelProvisionerNamespace = "coder.com/provisioner-namespace"
	// AnnotationProvisionerKeyID on the key's Secret and on the pods is the id in Coder of the key
	// that they contain.
	AnnotationProvisionerKeyID = "coder.com/provisioner-key-id"
)

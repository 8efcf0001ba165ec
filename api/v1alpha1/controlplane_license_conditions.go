package v1alpha1

// Reasons of the condition LicenseApplied and of the Events about the license.
//
// The condition is present if spec.licenseSecretRef is set, and until the last license that the
// operator added is removed. It is True with the reasons Applied, LicenseExpiring and
// LicenseInGracePeriod. If spec.licenseSecretRef is set, it affects Ready, except with the reason
// NotSupported. It shares SecretMissing, Forbidden and NotSupported with other conditions.
const (
	// ReasonPending: the license is not applied yet because the operator is waiting, for example
	// for Coder.
	ReasonPending = "Pending"
	// ReasonError: Coder did not respond, or failed.
	ReasonError = "Error"

	// ReasonInvalidLicense: the Secret contains no license, or Coder does not accept the license.
	ReasonInvalidLicense = "InvalidLicense"
	// ReasonLicenseExpiring: the license expires within 30 days, or within 7 days if it is a trial.
	ReasonLicenseExpiring = "LicenseExpiring"
	// ReasonLicenseInGracePeriod: the license has expired; its features work until the end of its
	// grace period.
	ReasonLicenseInGracePeriod = "LicenseInGracePeriod"
	// ReasonLicenseExpired: the license and its grace period have expired; its features no longer
	// work.
	ReasonLicenseExpired = "LicenseExpired"

	// ReasonLicenseAdded: the operator added a license to Coder (Event).
	ReasonLicenseAdded = "LicenseAdded"
	// ReasonLicenseRemoved: the operator removed a license from Coder (Event).
	ReasonLicenseRemoved = "LicenseRemoved"
)

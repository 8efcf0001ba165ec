package v1alpha1

// Reasons of the condition LicenseApplied and of the Events about the license.
//
// The condition is there where spec.licenseSecretRef asks for a license, and
// until the last license that the operator added is removed again. It is True
// with the reasons Applied, LicenseExpiring and LicenseInGracePeriod. It decides
// about Ready where a license is asked for, except with the reason NotSupported.
// It shares SecretMissing, Forbidden and NotSupported with other conditions.
const (
	// ReasonPending: the license waits for something, for example for Coder.
	ReasonPending = "Pending"
	// ReasonError: Coder could not be asked, or failed.
	ReasonError = "Error"

	// ReasonInvalidLicense: the Secret holds no license, or one that Coder does not
	// accept.
	ReasonInvalidLicense = "InvalidLicense"
	// ReasonLicenseExpiring: the license ends within 30 days, or within 7 if it is
	// a trial.
	ReasonLicenseExpiring = "LicenseExpiring"
	// ReasonLicenseInGracePeriod: the license has ended; what it allowed works for
	// a last while.
	ReasonLicenseInGracePeriod = "LicenseInGracePeriod"
	// ReasonLicenseExpired: the license has ended, and allows nothing any more.
	ReasonLicenseExpired = "LicenseExpired"

	// ReasonLicenseAdded and ReasonLicenseRemoved tell of what the operator did in
	// Coder.
	ReasonLicenseAdded   = "LicenseAdded"
	ReasonLicenseRemoved = "LicenseRemoved"
)

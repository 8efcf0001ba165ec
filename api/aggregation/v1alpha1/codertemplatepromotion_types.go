package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CoderTemplatePromotion makes a version of a template active. It is the body of a POST to the
// subresource promote of codertemplates. It is not stored: the response is the template. The body may
// be an empty object, which promotes status.candidate. With an earlier version, for example one of
// status.history, it rolls the template back.
//
// +kubebuilder:object:root=true
type CoderTemplatePromotion struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata. If a name or a UID is set, it must be that of the template.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// versionID is the UUID of the version. It must be a version of the template whose build
	// succeeded, and must not be archived. Exactly this version becomes active, also if there is
	// another candidate meanwhile. If versionID and versionName are unset, the candidate becomes
	// active, whichever it is then.
	// +optional
	VersionID string `json:"versionID,omitempty"`
	// versionName is the name of the version. If versionID is set too, both must be of one version;
	// otherwise the response is 409.
	// +optional
	VersionName string `json:"versionName,omitempty"`
	// activeVersionID is the UUID of the version that is replaced. If another version is active, the
	// response is 409, and nothing is changed.
	// +optional
	ActiveVersionID string `json:"activeVersionID,omitempty"`
}

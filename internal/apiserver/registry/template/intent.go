package template

import (
	"github.com/google/uuid"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
)

// intent is the intent in the record of a template: the part of the spec that Coder cannot store,
// and the requested version. It never contains the value of a Secret.
type intent struct {
	Activation                 string                                 `json:"activation,omitempty"`
	Tests                      []aggregationv1alpha1.TemplateTest     `json:"tests,omitempty"`
	VersionName                string                                 `json:"versionName,omitempty"`
	VersionMessage             string                                 `json:"versionMessage,omitempty"`
	FailedVersionsHistoryLimit *int32                                 `json:"failedVersionsHistoryLimit,omitempty"`
	Variables                  []aggregationv1alpha1.TemplateVariable `json:"variables,omitempty"`
	ProvisionerTags            map[string]string                      `json:"provisionerTags,omitempty"`
	// Salt is part of every hash of content, so that the value of a Secret cannot be found by
	// hashing guesses.
	Salt string `json:"salt,omitempty"`
	// Release is the version that was requested last. Before is the version that was active then,
	// if this program created it.
	Release *release `json:"release,omitempty"`
	Before  *release `json:"before,omitempty"`
	// DeletedBy is the Coder user who requested the deletion.
	DeletedBy *impersonation.As `json:"deletedBy,omitempty"`
}

// release is a version that will become active, or did.
type release struct {
	FileID uuid.UUID `json:"fileID"`
	// Content is the hash of the inputs of the version: files, variables, tags.
	Content string `json:"content"`
	// Name is the name of the version in Coder. It is unique in a template, so a version is found
	// by its name if the response to its creation was lost.
	Name    string            `json:"name"`
	Message string            `json:"message,omitempty"`
	Tags    map[string]string `json:"tags,omitempty"`
	// Inherited are values of the previous version that the spec does not contain. They are not
	// secret: Coder shows them.
	Inherited []plainVariable `json:"inherited,omitempty"`
	// VersionID is zero until the version was created in Coder.
	VersionID uuid.UUID `json:"versionID,omitzero"`
	// Over is the version that was active when this one was requested. If another one became active
	// since, that is a newer decision, and this version does not become active by itself.
	Over uuid.UUID `json:"over,omitzero"`
	// Settled is true if nothing is left to do: the version became active, or was superseded.
	Settled bool `json:"settled,omitempty"`
	// Refused is the reason why Coder does not accept the version, or does not make it active.
	Refused string `json:"refused,omitempty"`
	// Manual is true if the version is a candidate: it becomes active only by a promotion.
	Manual bool `json:"manual,omitempty"`
	// AfterTest is true if the candidate is promoted when its tests have succeeded. Tests are their states.
	AfterTest bool         `json:"afterTest,omitempty"`
	Tests     []testResult `json:"tests,omitempty"`
	// Activated is true if this program made the version active after its build.
	Activated bool `json:"activated,omitempty"`
	// By is the Coder user who requested the version. It is created, and without Manual or with AfterTest
	// made active, as this user.
	By *impersonation.As `json:"by,omitempty"`
}

// plainVariable is a variable whose value is not secret.
type plainVariable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// open reports whether the release is requested and not active yet. A candidate also is while another
// version becomes active.
func (r *release) open(active uuid.UUID) bool {
	return r != nil && !r.Settled && r.VersionID != active && (r.Manual || r.Over == active)
}

// waits reports whether the release is a candidate.
func (r *release) waits(active uuid.UUID) bool { return r.open(active) && r.Manual }

// asCandidate returns the release as a candidate that somebody must promote.
func (r *release) asCandidate() *release {
	candidate := *r
	candidate.Settled, candidate.Manual, candidate.Activated = false, true, false
	candidate.AfterTest, candidate.Tests = false, nil
	return &candidate
}

// keepSpec copies the fields of a spec that Coder cannot store.
func (in *intent) keepSpec(spec aggregationv1alpha1.CoderTemplateSpec) {
	kept := spec.DeepCopy()
	in.Activation, in.Tests = kept.Activation, kept.Tests
	in.VersionName, in.VersionMessage = kept.VersionName, kept.VersionMessage
	in.FailedVersionsHistoryLimit = kept.FailedVersionsHistoryLimit
	in.Variables, in.ProvisionerTags = kept.Variables, kept.ProvisionerTags
}

// replace makes r the requested release. The previous release is kept while it is active, so that
// its content is not built again.
func (in *intent) replace(r *release, active uuid.UUID) {
	for _, old := range []*release{in.Release, in.Before} {
		if old != nil && old.VersionID != uuid.Nil && old.VersionID == active && old != r {
			before := *old
			before.Settled = true
			in.Before = &before
			break
		}
	}
	in.Release = r
}

// known returns the release with this content, as a candidate, if its version was created, or nil.
func (in *intent) known(content string) *release {
	for _, old := range []*release{in.Release, in.Before} {
		if old != nil && old.Content == content && old.VersionID != uuid.Nil && old.Refused == "" {
			return old.asCandidate()
		}
	}
	return nil
}

// shown returns the release whose source spec.files shows, or nil.
func (in *intent) shown(active uuid.UUID) *release {
	for _, r := range []*release{in.Release, in.Before} {
		if r.open(active) || r != nil && r.VersionID == active {
			return r
		}
	}
	return nil
}

// built returns the release with this content if it was built and is active, or nil.
func (in *intent) built(content string, active uuid.UUID) *release {
	for _, old := range []*release{in.Release, in.Before} {
		if old != nil && old.Content == content && old.VersionID == active && active != uuid.Nil {
			settled := *old
			settled.Settled = true
			return &settled
		}
	}
	return nil
}

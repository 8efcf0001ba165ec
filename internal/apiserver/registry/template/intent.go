package template

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/acting"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// intent is what a record remembers of a template: the part of the spec that Coder
// has no place for, and the version that was asked for. It never holds the value
// of a Secret.
type intent struct {
	VersionName                string                                 `json:"versionName,omitempty"`
	VersionMessage             string                                 `json:"versionMessage,omitempty"`
	FailedVersionsHistoryLimit *int32                                 `json:"failedVersionsHistoryLimit,omitempty"`
	Variables                  []aggregationv1alpha1.TemplateVariable `json:"variables,omitempty"`
	ProvisionerTags            map[string]string                      `json:"provisionerTags,omitempty"`
	// Salt goes into every hash of content, so that nobody finds the value of a
	// Secret by hashing guesses made elsewhere.
	Salt string `json:"salt,omitempty"`
	// Release is the version that was asked for last, Before the one that was
	// active then, if we made it.
	Release *release `json:"release,omitempty"`
	Before  *release `json:"before,omitempty"`
	// DeletedBy is the user of Coder who asked for the deletion.
	DeletedBy *acting.As `json:"deletedBy,omitempty"`
}

// release is a version that shall become, or became, the active one.
type release struct {
	FileID uuid.UUID `json:"fileID"`
	// Content is the hash of all that a version is made of: files, variables, tags.
	Content string `json:"content"`
	// Name is that of the version in Coder. No two versions of a template share one,
	// so by it a version is found whose creation was not answered.
	Name    string            `json:"name"`
	Message string            `json:"message,omitempty"`
	Tags    map[string]string `json:"tags,omitempty"`
	// Inherited are values that the version before was built with, and the spec does
	// not name. Coder shows them to everybody.
	Inherited []plainVariable `json:"inherited,omitempty"`
	// VersionID is zero until Coder was told.
	VersionID uuid.UUID `json:"versionID,omitzero"`
	// Over is the version that was active when this one was asked for. Where another
	// one has become active since, somebody else has decided.
	Over uuid.UUID `json:"over,omitzero"`
	// Settled says that nothing more is to be done: the version became active, or was
	// overtaken.
	Settled bool `json:"settled,omitempty"`
	// Refused is why Coder does not take the version, or does not make it active.
	Refused string `json:"refused,omitempty"`
	// By is the user of Coder who asked for the version, and as whom it is made and made
	// active.
	By *acting.As `json:"by,omitempty"`
}

// plainVariable is a variable whose value is no secret.
type plainVariable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// open says that the release is what the template shall be, and is not yet.
func (r *release) open(active uuid.UUID) bool {
	return r != nil && !r.Settled && r.VersionID != active && r.Over == active
}

// intentOf reads what a record remembers.
func intentOf(record *metadata.Record) (intent, error) {
	var in intent
	if record == nil || len(record.Intent) == 0 {
		return in, nil
	}
	if err := json.Unmarshal(record.Intent, &in); err != nil {
		return in, fmt.Errorf("the record of template %q cannot be read; its field intent was changed by hand, or by a newer version: %w", record.Name, err)
	}
	return in, nil
}

// into writes the intent into a record that may be changed.
func (in intent) into(record *metadata.Record) error {
	data, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("the intent of template %q: %w", record.Name, err)
	}
	record.Intent = nil
	if string(data) != "{}" {
		record.Intent = data
	}
	return nil
}

// keepSpec takes over the part of a spec that Coder has no place for.
func (in *intent) keepSpec(spec aggregationv1alpha1.CoderTemplateSpec) {
	kept := spec.DeepCopy()
	in.VersionName, in.VersionMessage = kept.VersionName, kept.VersionMessage
	in.FailedVersionsHistoryLimit = kept.FailedVersionsHistoryLimit
	in.Variables, in.ProvisionerTags = kept.Variables, kept.ProvisionerTags
}

// showIn writes that part into a spec.
func (in *intent) showIn(spec *aggregationv1alpha1.CoderTemplateSpec) {
	spec.VersionName, spec.VersionMessage = in.VersionName, in.VersionMessage
	spec.FailedVersionsHistoryLimit = in.FailedVersionsHistoryLimit
	spec.Variables, spec.ProvisionerTags = in.Variables, in.ProvisionerTags
}

// replace makes r the release that is asked for. The one before is remembered
// while it is the active one: its content need not be built again.
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

// built gives the release of a content that was built and is active.
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

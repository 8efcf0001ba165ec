package keys

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
)

// Annotations of the key's Secret, in addition to coderv1alpha1.AnnotationProvisionerKeyID. None of
// them contains a secret.
const (
	AnnotationName           = "coder.com/provisioner-key-name"
	AnnotationOrganizationID = "coder.com/provisioner-key-organization-id"
	AnnotationTagsHash       = "coder.com/provisioner-key-tags-hash"
	AnnotationCreatedAt      = "coder.com/provisioner-key-created-at"
	// AnnotationIntent is the key that is about to be created, as JSON.
	AnnotationIntent = "coder.com/provisioner-key-intent"
	// AnnotationReplaced are the keys that must be deleted in Coder, as JSON.
	AnnotationReplaced = "coder.com/provisioner-keys-replaced"
)

// Record describes a key in Coder. It contains no secret.
type Record struct {
	ID             string `json:"id,omitempty"`
	Name           string `json:"name"`
	OrganizationID string `json:"organizationID"`
	TagsHash       string `json:"tagsHash,omitempty"`
	CreatedAt      string `json:"createdAt,omitempty"`
}

// stored is the content of the Secret.
type stored struct {
	secret *corev1.Secret
	// text is the provisioner key, and field its entry in the Secret's data.
	text, field string
	record      *Record
	intent      *Record
	replaced    []Record
}

// readStored reads the content of a Secret. Invalid annotations are treated as missing.
func readStored(secret *corev1.Secret, field string) *stored {
	a := secret.Annotations
	s := &stored{secret: secret, field: field}
	s.text = strings.TrimSpace(string(secret.Data[s.field]))
	if id := a[coderv1alpha1.AnnotationProvisionerKeyID]; id != "" {
		s.record = &Record{
			ID: id, Name: a[AnnotationName], OrganizationID: a[AnnotationOrganizationID],
			TagsHash: a[AnnotationTagsHash], CreatedAt: a[AnnotationCreatedAt],
		}
	}
	intent := &Record{}
	if json.Unmarshal([]byte(a[AnnotationIntent]), intent) == nil && intent.Name != "" {
		s.intent = intent
	}
	if json.Unmarshal([]byte(a[AnnotationReplaced]), &s.replaced) != nil {
		s.replaced = nil
	}
	return s
}

// replace records that a key must be deleted, unless it is the current one.
func (s *stored) replace(r *Record) {
	known := func(other Record) bool { return other.ID == r.ID }
	if r == nil || r.ID == "" || s.record != nil && s.record.ID == r.ID || slices.ContainsFunc(s.replaced, known) {
		return
	}
	s.replaced = append(s.replaced, Record{ID: r.ID, Name: r.Name, OrganizationID: r.OrganizationID})
}

// knows reports whether the operator owns the key with this id.
func (s *stored) knows(id string) bool {
	if s == nil {
		return false
	}
	return s.record != nil && s.record.ID == id ||
		slices.ContainsFunc(s.replaced, func(r Record) bool { return r.ID == id })
}

// made returns when the key was created, and whether that is known.
func (r *Record) made() (time.Time, bool) {
	made, err := time.Parse(time.RFC3339, r.CreatedAt)
	return made, err == nil
}

func asJSON(value any, empty bool) string {
	if empty {
		return ""
	}
	// The values contain only strings, so encoding them cannot fail.
	raw, _ := json.Marshal(value)
	return string(raw)
}

// save writes the Secret with the record of the key. It fails if the Secret was changed since it
// was read. The next pass reads it again.
func (p *pass) save(ctx context.Context, s *stored) error {
	r := Record{}
	if s.record != nil {
		r = *s.record
	}
	ensure.Annotate(s.secret, map[string]string{
		coderv1alpha1.AnnotationProvisionerKeyID: r.ID,
		AnnotationName:                           r.Name,
		AnnotationOrganizationID:                 r.OrganizationID,
		AnnotationTagsHash:                       r.TagsHash,
		AnnotationCreatedAt:                      r.CreatedAt,
		AnnotationIntent:                         asJSON(s.intent, s.intent == nil),
		AnnotationReplaced:                       asJSON(s.replaced, len(s.replaced) == 0),
	})
	return p.secrets.Save(ctx, s.secret)
}

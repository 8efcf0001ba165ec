package template

import (
	"slices"

	"github.com/google/uuid"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
)

// maxHistory is the number of activations in the history of a template.
const maxHistory = 10

// historyOf returns the history of a template: that of the previous object, preceded by the active version if another one
// was active before. Coder keeps no history. The previous object comes from the record, so the history survives restarts.
func historyOf(s *snapshot, old object) []aggregationv1alpha1.TemplateActivation {
	var history []aggregationv1alpha1.TemplateActivation
	if old != nil {
		history = slices.Clone(old.Status.History)
	}
	active := s.page.active
	now := aggregationv1alpha1.TemplateActivation{VersionID: active.ID.String(), VersionName: active.Name}
	if len(history) > 0 {
		if history[0].VersionID == now.VersionID {
			return history
		}
		now.Since = ptr.To(registry.Seconds(s.template.UpdatedAt))
	}
	again := slices.ContainsFunc(history, func(a aggregationv1alpha1.TemplateActivation) bool { return a.VersionID == now.VersionID })
	if r := s.intent.Release; r != nil && r.Activated && r.By != nil && r.VersionID == active.ID && !again {
		now.By = r.By.Username
	}
	history = slices.Insert(history, 0, now)
	return history[:min(len(history), maxHistory)]
}

// activatedBy records as which Coder user the active version was made active.
func activatedBy(tmpl object, as *impersonation.As) {
	if as != nil {
		tmpl.Status.History[0].By = as.Username
	}
}

// candidateOf returns the version that waits until it is promoted, or nil.
func candidateOf(s *snapshot) *aggregationv1alpha1.TemplateCandidate {
	r, v := s.intent.Release, s.shown
	if !r.waits(s.page.active.ID) || v.ID == s.page.active.ID {
		return nil
	}
	candidate := &aggregationv1alpha1.TemplateCandidate{Name: v.Name, Status: v.Status, Error: v.Error, CreatedBy: v.CreatedBy}
	if r.Refused != "" {
		candidate.Error = r.Refused
	}
	if s.intent.tested(s.page.active.ID) {
		for _, t := range r.Tests {
			candidate.Tests = append(candidate.Tests, t.TemplateTestState)
		}
	}
	if v.ID != uuid.Nil {
		candidate.ID, candidate.CreatedAt = v.ID.String(), ptr.To(registry.Seconds(v.CreatedAt))
	}
	return candidate
}

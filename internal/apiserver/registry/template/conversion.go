package template

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// Object implements mirror.Kind.
func (k *Kind) Object(
	ctx context.Context, connection connections.Connection, item coderd.Template, record *metadata.Record, previous records.Object,
) (records.Object, error) {
	old, _ := previous.(object)
	s, err := k.load(ctx, connection, item, record, shownIn(old), old)
	if err != nil {
		return nil, err
	}
	if old == nil && (building(s.shown) || building(s.page.latest())) {
		// A build in progress is not in the record, so the mirror must be notified.
		k.Hint(connection.ControlPlane, item.ID)
	}
	return k.fromCoder(s, old), nil
}

// fromCoder converts a snapshot to an object.
func (k *Kind) fromCoder(s *snapshot, old object) object {
	t := s.template
	tmpl := &aggregationv1alpha1.CoderTemplate{
		ObjectMeta: k.NewMeta(s.connection,
			metadata.JoinName(s.connection.NamePrefix, t.OrganizationName, t.Name), t.ID, t.CreatedAt),
		Spec:   specOf(s),
		Status: statusOf(s),
	}
	if old != nil {
		// The organization is immutable. It keeps the value from which the object got its name.
		tmpl.Spec.Organization = old.Spec.Organization
	}
	metadata.Overlay(tmpl, s.record)
	k.Continue(tmpl, old)
	tmpl.Status.ObservedGeneration = tmpl.Generation
	if s.waits() && tmpl.Generation > 1 {
		// The release is only in the record so far.
		tmpl.Status.ObservedGeneration = tmpl.Generation - 1
	}
	var before []metav1.Condition
	if old != nil {
		before = old.Status.Conditions
	}
	tmpl.Status.Candidate = candidateOf(s)
	tmpl.Status.History = historyOf(s, old)
	tmpl.Status.Versions = s.versions
	tmpl.Status.Conditions = conditionsOf(s, tmpl.Status.ObservedGeneration, before, k.Clock.Now())
	k.showDeletion(tmpl, before)
	return tmpl
}

// showDeletion shows what the deletion of a template waits for. Coder deletes no template with workspaces.
func (k *Kind) showDeletion(tmpl object, before []metav1.Condition) {
	if tmpl.DeletionTimestamp == nil {
		return
	}
	k.ShowDeletion(tmpl, before, "deleted", k.WorkspacesDeleted(tmpl, func(ws aggregationv1alpha1.CoderWorkspaceStatus) bool {
		return strings.EqualFold(ws.OrganizationName, tmpl.Status.OrganizationName) && strings.EqualFold(ws.TemplateName, tmpl.Status.TemplateName)
	}))
}

func specOf(s *snapshot) aggregationv1alpha1.CoderTemplateSpec {
	t := s.template
	spec := aggregationv1alpha1.CoderTemplateSpec{
		Organization:                 t.OrganizationName,
		VersionID:                    t.ActiveVersionID.String(),
		DisplayName:                  t.DisplayName,
		Description:                  t.Description,
		Icon:                         t.Icon,
		Files:                        s.source.files,
		DefaultTTLMillis:             ptr.To(t.DefaultTTL.Milliseconds()),
		ActivityBumpMillis:           ptr.To(t.ActivityBump.Milliseconds()),
		AllowUserCancelWorkspaceJobs: ptr.To(t.AllowUserCancelWorkspaceJobs),
		CORSBehavior:                 t.CORSBehavior,
		UseClassicParameterFlow:      ptr.To(t.UseClassicParameterFlow),
	}
	s.intent.showIn(&spec)
	return spec
}

func statusOf(s *snapshot) aggregationv1alpha1.CoderTemplateStatus {
	t, latest := s.template, s.latest
	status := aggregationv1alpha1.CoderTemplateStatus{
		ID:                  t.ID.String(),
		TemplateName:        t.Name,
		OrganizationName:    t.OrganizationName,
		ActiveVersionID:     t.ActiveVersionID.String(),
		ActiveVersionName:   s.page.active.Name,
		LatestVersionID:     latest.ID.String(),
		LatestVersionName:   latest.Name,
		LatestVersionStatus: latest.Status,
		LatestVersionError:  latest.Error,
		Deprecated:          t.Deprecated,
		DeprecationMessage:  t.DeprecationMessage,
		UpdatedAt:           ptr.To(registry.Seconds(t.UpdatedAt)),
		Source: &aggregationv1alpha1.TemplateSource{
			FileID:    s.source.file.String(),
			Inline:    s.source.inline,
			FileCount: int32(s.source.fileCount), //nolint:gosec // An archive that was read has at most 20,000 entries.
			SizeBytes: s.source.size,
		},
	}
	if s.shown.Status != "" {
		status.Source.VersionID = s.shown.ID.String()
	}
	return status
}

package template

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
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

func (k *Kind) fromCoder(s *snapshot, old object) object {
	t, latest := s.template, s.latest
	tmpl := &aggregationv1alpha1.CoderTemplate{
		ObjectMeta: k.NewMeta(s.connection,
			metadata.JoinName(s.connection.NamePrefix, t.OrganizationName, t.Name), t.ID, t.CreatedAt),
		Spec: specOf(s),
		Status: aggregationv1alpha1.CoderTemplateStatus{
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
			Candidate: candidateOf(s),
			History:   historyOf(s, old),
			Versions:  s.versions,
		},
	}
	if s.shown.Status != "" {
		tmpl.Status.Source.VersionID = s.shown.ID.String()
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
	t, in := s.template, s.intent
	return aggregationv1alpha1.CoderTemplateSpec{
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
		// Coder does not store these.
		Activation: in.Activation, Tests: in.Tests, VersionName: in.VersionName, VersionMessage: in.VersionMessage,
		FailedVersionsHistoryLimit: in.FailedVersionsHistoryLimit, Variables: in.Variables, ProvisionerTags: in.ProvisionerTags,
	}
}

// snapshot holds the data from which an object is built.
type snapshot struct {
	connection connections.Connection
	template   coderd.Template
	page       page
	// latest is the newest version, active or not.
	latest coderd.TemplateVersion
	intent intent
	record *metadata.Record
	// shown is the version whose source spec.files shows. If it was not created in Coder yet, it
	// has no ID and no status.
	shown  coderd.TemplateVersion
	source source
	// versions are those with an object of their own.
	versions *aggregationv1alpha1.TemplateVersions
}

// waits reports whether the requested version was not created in Coder yet.
func (s *snapshot) waits() bool {
	r := s.intent.Release
	return r.open(s.page.active.ID) && r.VersionID == uuid.Nil
}

// refused returns the reason why Coder does not accept the requested version, or "".
func (s *snapshot) refused() string {
	if !s.intent.Release.open(s.page.active.ID) {
		return ""
	}
	return s.intent.Release.Refused
}

// load reads the data that belongs to a template. The known source and the previous object may be nil.
func (k *Kind) load(
	ctx context.Context, connection connections.Connection, t coderd.Template, record *metadata.Record,
	known *source, old object,
) (*snapshot, error) {
	in, err := registry.ReadIntent[intent](record)
	if err != nil {
		return nil, err
	}
	p, fresh, err := k.versions.read(ctx, connection, t, in.Release, old == nil || old.Status.Versions == nil)
	if err != nil {
		return nil, err
	}
	s := &snapshot{connection: connection, template: t, page: p, latest: p.latest(), intent: in, record: record}
	if s.shown, err = shownOf(ctx, connection.Client, p, in.Release); err != nil {
		return nil, err
	}
	if s.shown.Status == buildPending && fresh {
		// Only a request for the single version reports whether a provisioner can build it.
		if v, err := connection.Client.TemplateVersion(ctx, s.shown.ID); err == nil {
			s.shown = v
		}
	}
	s.shown = k.withCause(ctx, connection, s.shown)
	if s.latest.ID == s.shown.ID {
		// The build may have ended since the list was read.
		s.latest = s.shown
	} else {
		s.latest = k.withCause(ctx, connection, s.latest)
	}
	if s.source, err = readSource(ctx, connection, s.shown.FileID, known, fresh); err != nil {
		return nil, err
	}
	s.versions = k.versionsOf(ctx, s, old)
	return s, nil
}

// shownOf returns the version whose source spec.files shows: the requested one, or the active one.
func shownOf(ctx context.Context, client *coderd.Client, p page, r *release) (coderd.TemplateVersion, error) {
	if !r.open(p.active.ID) {
		return p.active, nil
	}
	if r.VersionID == uuid.Nil {
		return coderd.TemplateVersion{Name: r.Name, FileID: r.FileID, UpdatedAt: p.active.UpdatedAt}, nil
	}
	if v, ok := p.find(r.VersionID); ok {
		return v, nil
	}
	// An archived version is not in the list.
	v, err := client.TemplateVersion(ctx, r.VersionID)
	if coderd.IsNotFound(err) {
		return p.active, nil
	}
	return v, err
}

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

package template

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// decision is what an update of a template means: the difference, as whom it is made, and the plan.
type decision struct {
	kind        *Kind
	was, wanted *aggregationv1alpha1.CoderTemplate
	record      *metadata.Record
	// as is the Coder user who makes the change.
	as *impersonation.As
	// spec is true if the spec changes or the archive is replaced, and deletes if the deletion is
	// requested. asks is true if more changes than data that only the record holds.
	spec, deletes, asks bool

	// The template in Coder, if the change asks Coder.
	connection connections.Connection
	id         uuid.UUID
	page       page
	template   coderd.Template
	// newer is the error of a change that is based on an outdated object, with the newer one.
	newer error

	// before is the recorded intent, and intent the one after the change.
	before, intent intent
	// edit and active are the policy and the version that are set in Coder.
	edit   coderd.TemplateEdit
	active uuid.UUID
	// builds is true if a version with content is requested. Its file is zero if the archive must be uploaded.
	// shown is the archive whose text spec.files shows.
	builds  bool
	content content
	shown   uuid.UUID
	// source is the source of the wanted archive, if it is known.
	source *source
}

// decide returns what an update means, with the context in which Coder is changed. It checks all that can be
// checked without a change: the caller's permission, whether the update is based on the template as it is in
// Coder now, and the new version. It only reads.
func (k *Kind) decide(ctx context.Context, was, wanted object) (context.Context, *decision, error) {
	d := &decision{kind: k, was: was, wanted: wanted, record: k.RecordOf(was), deletes: registry.Deletes(ctx, was, wanted)}
	d.spec = !equality.Semantic.DeepEqual(was.Spec, wanted.Spec) || !sameSource(was, wanted)
	// These fields are only in the record.
	others := wanted.Spec
	others.VersionMessage, others.FailedVersionsHistoryLimit = was.Spec.VersionMessage, was.Spec.FailedVersionsHistoryLimit
	d.asks = !equality.Semantic.DeepEqual(was.Spec, others) || !sameSource(was, wanted)
	ctx, err := d.authorize(ctx)
	if err != nil || !d.spec && !d.deletes {
		return ctx, d, err
	}
	if d.before, err = registry.ReadIntent[intent](d.record); err != nil {
		return ctx, d, apierrors.NewInternalError(err)
	}
	d.intent = d.before
	if d.deletes {
		d.intent.DeletedBy = d.as
	}
	if d.asks {
		err = d.plan(ctx)
	}
	if d.spec {
		d.keepSpec()
	}
	return ctx, d, err
}

// keepSpec completes the intent: it copies the fields that Coder cannot store. With Manual and AfterTest, the requested
// version is a candidate. With AfterTest it is tested if this change requested it, or if it was to become active by itself
// before. Others, such as one that was rolled back, wait until somebody promotes them.
func (d *decision) keepSpec() {
	d.intent.keepSpec(d.wanted.Spec)
	r := d.intent.Release
	if !d.asks || !manual(d.wanted) || !r.open(d.page.active.ID) {
		return
	}
	held := r.asCandidate()
	switch {
	case !afterTest(d.wanted):
	case d.builds && r != d.before.Release:
		held.AfterTest, held.Over, held.By = true, d.page.active.ID, d.as
	case r.AfterTest || !r.Manual:
		held.AfterTest, held.Tests = true, r.Tests
	}
	d.intent.Release = held
}

// authorize determines the Coder user that the caller acts as. Each change of the spec, and of who owns its fields,
// requires the permission to update the template in Coder, also if nothing is sent to Coder.
func (d *decision) authorize(ctx context.Context) (_ context.Context, err error) {
	k, s := d.kind, subjectOf(d.was.Name)
	if !d.spec && !registry.ChangesFieldOwners(d.was, d.wanted) {
		// Of the other changes, only the start of a deletion and a new owner reference need a user.
		if !d.deletes && !registry.AddsOwner(d.was, d.wanted) {
			return ctx, nil
		}
		connection, id, err := k.LocateToChange(ctx, d.was, d.deletes)
		if err == nil {
			ctx, d.as, err = k.BeginAt(ctx, connection, id, d.was, d.wanted, s)
		}
		return ctx, err
	}
	if d.connection, d.id, err = k.Locate(ctx, d.was); err != nil {
		return ctx, err
	}
	if err := k.mayPromote(ctx, d.was, d.wanted); err != nil {
		return ctx, err
	}
	if err := k.checkTests(ctx, d.connection, d.was, d.wanted); err != nil {
		return ctx, err
	}
	if ctx, d.as, err = k.BeginAt(ctx, d.connection, d.id, d.was, d.wanted, s); err != nil || d.as == nil {
		return ctx, err
	}
	return ctx, impersonation.May(ctx, d.connection.Client, s, coderd.Permission{Resource: k.InCoder, Action: "update", ID: d.id})
}

// plan reads the template from Coder, and plans the requests that change it.
func (d *decision) plan(ctx context.Context) (err error) {
	k := d.kind
	if d.template, err = d.connection.Client.Template(ctx, d.id); err != nil {
		return fault(d.was.Name, err)
	}
	k.versions.forget(d.connection.ControlPlane, d.id)
	s, err := k.load(ctx, d.connection, d.template, d.record, shownIn(d.was), d.was)
	if err != nil {
		return fault(d.was.Name, err)
	}
	d.page = s.page
	if now := k.fromCoder(s, d.was); !equality.Semantic.DeepEqual(now.Spec, d.was.Spec) || !sameSource(now, d.was) {
		// The update is based on an outdated object.
		d.newer = k.Newer(d.connection.ControlPlane, d.id, now)
	}
	d.edit = editOf(d.was.Spec, d.wanted.Spec)
	if d.wanted.Spec.VersionID != d.was.Spec.VersionID {
		if err := d.planActive(ctx); err != nil || !manual(d.wanted) {
			return err
		}
	}
	if d.builds = changesContent(d.wanted, d.was) || d.retryRequested(); !d.builds {
		return nil
	}
	if err := d.planContent(ctx); err != nil {
		return err
	}
	d.intent, err = d.choose(ctx)
	return err
}

// editOf returns the policy fields that change. A field that is unset keeps its value in Coder.
func editOf(was, wanted aggregationv1alpha1.CoderTemplateSpec) coderd.TemplateEdit {
	text := func(was, wanted string) *string {
		if was == wanted || wanted == "" {
			return nil
		}
		return ptr.To(wanted)
	}
	return coderd.TemplateEdit{
		DisplayName:                  text(was.DisplayName, wanted.DisplayName),
		Description:                  text(was.Description, wanted.Description),
		Icon:                         text(was.Icon, wanted.Icon),
		CORSBehavior:                 text(was.CORSBehavior, wanted.CORSBehavior),
		DefaultTTL:                   registry.Millis(ifChanged(was.DefaultTTLMillis, wanted.DefaultTTLMillis)),
		ActivityBump:                 registry.Millis(ifChanged(was.ActivityBumpMillis, wanted.ActivityBumpMillis)),
		AllowUserCancelWorkspaceJobs: ifChanged(was.AllowUserCancelWorkspaceJobs, wanted.AllowUserCancelWorkspaceJobs),
		UseClassicParameterFlow:      ifChanged(was.UseClassicParameterFlow, wanted.UseClassicParameterFlow),
	}
}

// ifChanged returns the wanted value, or nil if it does not change.
func ifChanged[T comparable](was, wanted *T) *T {
	if ptr.Equal(was, wanted) {
		return nil
	}
	return wanted
}

// changesContent reports whether the update requires a new version.
func changesContent(wanted, was object) bool {
	return !maps.Equal(wanted.Spec.Files, was.Spec.Files) ||
		!equality.Semantic.DeepEqual(byName(wanted.Spec.Variables), byName(was.Spec.Variables)) ||
		!equality.Semantic.DeepEqual(wanted.Spec.ProvisionerTags, was.Spec.ProvisionerTags) ||
		!sameSource(was, wanted)
}

// byName indexes variables by name, because their order is irrelevant.
func byName(variables []aggregationv1alpha1.TemplateVariable) map[string]aggregationv1alpha1.TemplateVariable {
	out := map[string]aggregationv1alpha1.TemplateVariable{}
	for _, v := range variables {
		out[v.Name] = v
	}
	return out
}

// choose returns the intent after the release of the wanted content has become the requested one: an existing
// release with the same content, or a new one.
func (d *decision) choose(ctx context.Context) (intent, error) {
	in := d.before
	in.DeletedBy, in.Salt = d.intent.DeletedBy, d.intent.Salt
	next := d.content.release(in.Salt, d.wanted.Spec.VersionMessage, d.page.active.ID)
	next.By = d.as
	again := d.retryRequested() && in.Release.Content == next.Content
	if d.reuse(&in, next) && !again {
		return in, nil
	}
	if next.Name = d.wanted.Spec.VersionName; next.Name == "" {
		next.Name = versionNameOf(next.Content)
	} else {
		// Coder accepts no name that an archived version has.
		versions, err := d.connection.Client.AllTemplateVersions(ctx, d.id)
		if err != nil {
			return d.intent, fault(d.was.Name, err)
		}
		if slices.ContainsFunc(versions, func(v coderd.TemplateVersion) bool { return strings.EqualFold(v.Name, next.Name) }) {
			return d.intent, invalid(d.wanted, field.Invalid(versionNamePath, next.Name,
				"is the name of an existing version, which may be archived; set another name, or omit the field"))
		}
	}
	in.replace(next, d.page.active.ID)
	return in, nil
}

// retryRequested reports whether the user asks to build the same content again, if it is still
// wanted: its build or a test failed or it was refused, and the version name is another one.
func (d *decision) retryRequested() bool {
	r := d.before.Release
	name := d.wanted.Spec.VersionName
	if name == "" || name == d.was.Spec.VersionName || r == nil || r.Name == name || !r.open(d.page.active.ID) {
		return false
	}
	if r.Refused != "" {
		return true
	}
	i := slices.IndexFunc(d.page.versions, func(v coderd.TemplateVersion) bool { return v.ID == r.VersionID })
	return i >= 0 && failed(d.page.versions[i]) || slices.ContainsFunc(r.Tests, testResult.failed)
}

// reuse makes an existing release with the same content the requested one, and reports whether there
// is one. So nothing is built twice.
func (d *decision) reuse(in *intent, next *release) bool {
	r := in.Release
	if r.open(d.page.active.ID) && r.Content == next.Content && r.Refused == "" {
		return true
	}
	if built := in.built(next.Content, d.page.active.ID); built != nil {
		in.replace(built, d.page.active.ID)
		return true
	}
	plain := len(d.wanted.Spec.Variables) == 0 && len(d.was.Spec.Variables) == 0
	if next.FileID == d.page.active.FileID && plain && maps.Equal(next.Tags, givenTags(d.page.active.ProvisionerTags)) {
		// Another client created the active version, with the same content.
		next.VersionID, next.Name, next.Settled = d.page.active.ID, d.page.active.Name, true
		in.replace(next, d.page.active.ID)
		return true
	}
	if candidate := in.known(next.Content); manual(d.wanted) && candidate != nil {
		in.replace(candidate, d.page.active.ID)
		return true
	}
	return false
}

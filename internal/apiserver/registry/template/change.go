package template

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// change is a decided change of a template: the difference, as whom it is made, and the plan.
type change struct {
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
// checked without a change: the caller's permission, that the update is based on the template as it is in
// Coder now, and the new version. It only reads.
func (k *Kind) decide(ctx context.Context, was, wanted object) (context.Context, *change, error) {
	c := &change{kind: k, was: was, wanted: wanted, record: k.RecordOf(was), deletes: registry.Deletes(ctx, was, wanted)}
	c.spec = !equality.Semantic.DeepEqual(was.Spec, wanted.Spec) || !sameSource(was, wanted)
	c.asks = c.spec && asksCoder(was, wanted)
	ctx, err := c.authorize(ctx)
	if err != nil || !c.spec && !c.deletes {
		return ctx, c, err
	}
	if c.before, err = intentOf(c.record); err != nil {
		return ctx, c, apierrors.NewInternalError(err)
	}
	c.intent = c.before
	if c.deletes {
		c.intent.DeletedBy = c.as
	}
	if c.asks {
		err = c.plan(ctx)
	}
	if c.spec {
		c.intent.keepSpec(wanted.Spec)
	}
	return ctx, c, err
}

// authorize determines the Coder user that the caller acts as. Each change of the spec, and of who owns its fields,
// requires the permission to update the template in Coder, also if nothing is sent to Coder.
func (c *change) authorize(ctx context.Context) (_ context.Context, err error) {
	k, s := c.kind, subjectOf(c.was.Name)
	if !c.spec && !registry.ChangesFieldOwners(c.was, c.wanted) {
		ctx, c.as, err = k.BeginChange(ctx, c.was, c.wanted, s)
		return ctx, err
	}
	if c.connection, c.id, err = k.Locate(ctx, c.was); err != nil {
		return ctx, err
	}
	if ctx, c.as, err = k.BeginAt(ctx, c.connection, c.id, c.was, c.wanted, s); err != nil || c.as == nil {
		return ctx, err
	}
	return ctx, impersonation.May(ctx, c.connection.Client, s, coderd.Permission{Resource: k.InCoder, Action: "update", ID: c.id})
}

// asksCoder reports whether an update changes more than data that only the record holds.
func asksCoder(was, wanted object) bool {
	a, b := was.Spec.DeepCopy(), wanted.Spec.DeepCopy()
	for _, spec := range []*aggregationv1alpha1.CoderTemplateSpec{a, b} {
		spec.VersionMessage, spec.FailedVersionsHistoryLimit = "", nil
	}
	return !equality.Semantic.DeepEqual(a, b) || !sameSource(was, wanted)
}

// plan reads the template from Coder, and plans the requests that change it.
func (c *change) plan(ctx context.Context) error {
	if err := c.read(ctx); err != nil {
		return err
	}
	c.edit = editOf(c.was.Spec, c.wanted.Spec)
	if c.wanted.Spec.VersionID != c.was.Spec.VersionID {
		return c.planActive(ctx)
	}
	if c.builds = changesContent(c.wanted, c.was) || c.retryRequested(); !c.builds {
		return nil
	}
	if err := c.planContent(ctx); err != nil {
		return err
	}
	next, err := c.choose(c.content)
	c.intent = next
	return err
}

// read reads the template from Coder. If it is not as the object shows it, the update is based on an outdated
// object, and the error has the newer one.
func (c *change) read(ctx context.Context) error {
	k := c.kind
	t, err := c.connection.Client.Template(ctx, c.id)
	if err != nil {
		return fault(c.was.Name, err)
	}
	k.versions.forget(c.connection.ControlPlane, c.id)
	s, err := k.load(ctx, c.connection, t, c.record, shownIn(c.was))
	if err != nil {
		return fault(c.was.Name, err)
	}
	c.template, c.page = t, s.page
	if now := k.fromCoder(s, c.was); !equality.Semantic.DeepEqual(now.Spec, c.was.Spec) || !sameSource(now, c.was) {
		return k.Newer(c.connection.ControlPlane, c.id, now)
	}
	return nil
}

// planActive plans to make an existing version active. A requested version is no longer wanted then.
func (c *change) planActive(ctx context.Context) error {
	version, err := promotable(ctx, c.connection, c.id, c.wanted)
	if err != nil {
		return err
	}
	c.active = version.ID
	if r := c.intent.Release; r != nil {
		settled := *r
		settled.Settled = true
		c.intent.replace(&settled, version.ID)
	}
	return nil
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

// choose returns the intent after the release of a content has become the requested one: an existing
// release with the same content, or a new one.
func (c *change) choose(of content) (intent, error) {
	in := c.before
	in.DeletedBy, in.Salt = c.intent.DeletedBy, c.intent.Salt
	next := of.release(in.Salt, c.wanted.Spec.VersionMessage, c.page.active.ID)
	next.By = c.as
	again := c.retryRequested() && in.Release.Content == next.Content
	if c.reuse(&in, next) && !again {
		return in, nil
	}
	var err error
	if next.Name, err = c.name(next); err != nil {
		return c.intent, err
	}
	in.replace(next, c.page.active.ID)
	return in, nil
}

// retryRequested reports whether the user asks to build the same content again, if it is still
// wanted: its build failed or was refused, and the version name is another one.
func (c *change) retryRequested() bool {
	r := c.before.Release
	name := c.wanted.Spec.VersionName
	if name == "" || name == c.was.Spec.VersionName || r == nil || r.Name == name || !r.open(c.page.active.ID) {
		return false
	}
	if r.Refused != "" {
		return true
	}
	i := slices.IndexFunc(c.page.versions, func(v coderd.TemplateVersion) bool { return v.ID == r.VersionID })
	return i >= 0 && failed(c.page.versions[i])
}

// reuse makes an existing release with the same content the requested one, and reports whether there
// is one. So nothing is built twice.
func (c *change) reuse(in *intent, next *release) bool {
	r := in.Release
	if r.open(c.page.active.ID) && r.Content == next.Content && r.Refused == "" {
		return true
	}
	if built := in.built(next.Content, c.page.active.ID); built != nil {
		in.replace(built, c.page.active.ID)
		return true
	}
	plain := len(c.wanted.Spec.Variables) == 0 && len(c.was.Spec.Variables) == 0
	if next.FileID == c.page.active.FileID && plain && maps.Equal(next.Tags, givenTags(c.page.active.ProvisionerTags)) {
		// Another client created the active version, with the same content.
		next.VersionID, next.Name, next.Settled = c.page.active.ID, c.page.active.Name, true
		in.replace(next, c.page.active.ID)
		return true
	}
	return false
}

// name returns the name of a new version.
func (c *change) name(next *release) (string, error) {
	if c.wanted.Spec.VersionName == "" {
		return versionNameOf(next.Content), nil
	}
	if problem := nameTaken(c.page.versions, c.wanted.Spec.VersionName); problem != nil {
		return "", invalid(c.wanted, problem)
	}
	return c.wanted.Spec.VersionName, nil
}

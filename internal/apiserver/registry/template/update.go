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

// updating is one update of a template.
type updating struct {
	kind        *Kind
	connection  connections.Connection
	template    coderd.Template
	page        page
	was, wanted *aggregationv1alpha1.CoderTemplate
	// as is the Coder user who makes the update.
	as     *impersonation.As
	record *metadata.Record
	intent intent
	// source is the source of a file that was just uploaded.
	source *source
}

// update updates a template. The requests that Coder is most likely to refuse, and the data that
// only Coder stores, go first. If an update is interrupted, repeating the same request completes
// it.
func (k *Kind) update(ctx context.Context, was, wanted object) (object, error) {
	connection, id, err := k.Locate(ctx, was)
	if err != nil {
		return nil, err
	}
	ctx, as, err := k.beginUpdate(ctx, connection, id, was, wanted)
	if err != nil {
		return nil, err
	}
	u, err := k.newUpdate(connection, was, wanted)
	if err != nil {
		return nil, err
	}
	u.as = as
	if !u.asksCoder() {
		return u.keepIntent(ctx)
	}
	if err := u.read(ctx, id); err != nil {
		return nil, fault(was.Name, err)
	}
	for _, step := range []func(context.Context) error{u.edit, u.activate, u.release} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return u.result(ctx, id)
}

func (k *Kind) newUpdate(connection connections.Connection, was, wanted object) (*updating, error) {
	u := &updating{kind: k, connection: connection, was: was, wanted: wanted, record: k.RecordOf(was)}
	var err error
	if u.intent, err = intentOf(u.record); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return u, nil
}

// asksCoder reports whether the update changes more than data that only the record holds.
func (u *updating) asksCoder() bool {
	a, b := u.was.Spec.DeepCopy(), u.wanted.Spec.DeepCopy()
	for _, spec := range []*aggregationv1alpha1.CoderTemplateSpec{a, b} {
		spec.VersionMessage, spec.FailedVersionsHistoryLimit = "", nil
	}
	return !equality.Semantic.DeepEqual(a, b) || !sameSource(u.was, u.wanted)
}

// keepIntent updates the data that only the record holds.
func (u *updating) keepIntent(ctx context.Context) (object, error) {
	u.intent.keepSpec(u.wanted.Spec)
	if err := u.save(ctx); err != nil {
		return nil, err
	}
	out := u.wanted.DeepCopy()
	u.kind.observe(u.was, out)
	if id, err := uuid.Parse(u.was.Status.ID); err == nil {
		u.kind.Hint(u.record.ControlPlane, id)
	}
	return out, nil
}

// read reads the current state of the template from Coder.
func (u *updating) read(ctx context.Context, id uuid.UUID) (err error) {
	if u.template, err = u.connection.Client.Template(ctx, id); err != nil {
		return err
	}
	u.kind.versions.forget(u.connection.ControlPlane, id)
	u.page, _, err = u.kind.versions.read(ctx, u.connection, u.template, u.intent.Release)
	return err
}

// save writes the record with the wanted metadata and intent.
func (u *updating) save(ctx context.Context) error {
	saved, err := u.kind.Save(ctx, u.record, u.wanted, u.intent)
	if err != nil {
		return fault(u.was.Name, err)
	}
	u.record = saved
	return nil
}

// edit updates the policy fields in Coder.
func (u *updating) edit(ctx context.Context) error {
	change := editOf(u.was.Spec, u.wanted.Spec)
	if change == (coderd.TemplateEdit{}) {
		return nil
	}
	_, err := u.connection.Client.UpdateTemplate(ctx, u.template.ID, change)
	return fault(u.was.Name, err)
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

// activate makes an existing version active. A requested version is no longer wanted then.
func (u *updating) activate(ctx context.Context) error {
	if u.wanted.Spec.VersionID == u.was.Spec.VersionID {
		return nil
	}
	version, err := promotable(ctx, u.connection, u.template.ID, u.wanted)
	if err != nil {
		return err
	}
	if err := u.connection.Client.SetActiveVersion(ctx, u.template.ID, version.ID); err != nil {
		return fault(u.was.Name, err)
	}
	if r := u.intent.Release; r != nil {
		settled := *r
		settled.Settled = true
		u.intent.replace(&settled, version.ID)
	}
	return nil
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

// release requests a version with the wanted content, and records the rest of the spec.
func (u *updating) release(ctx context.Context) error {
	if !u.rebuilds() {
		u.intent.keepSpec(u.wanted.Spec)
		return u.save(ctx)
	}
	before, beforeIntent := u.record, u.intent
	file, err := u.file(ctx)
	if err != nil {
		return err
	}
	variables, err := u.choose(ctx, file)
	if err != nil {
		return err
	}
	u.intent.keepSpec(u.wanted.Spec)
	// From here on, the version will be created: if this process ends, the next leader does it.
	if err := u.save(ctx); err != nil {
		return err
	}
	if r := u.intent.Release; r.VersionID != uuid.Nil || !r.open(u.page.active.ID) {
		return nil
	}
	version, err := submit(ctx, u.connection.Client, u.template, u.intent.Release, variables)
	if err != nil && refusal(err) {
		return u.takeBack(ctx, before, beforeIntent, versionFault(u.was.Name, err))
	}
	if err != nil {
		return fault(u.was.Name, err)
	}
	submitted := *u.intent.Release
	submitted.VersionID = version.ID
	u.intent.Release = &submitted
	return u.save(ctx)
}

// rebuilds reports whether the update may need a new version.
func (u *updating) rebuilds() bool {
	return changesContent(u.wanted, u.was) || u.retryRequested()
}

// choose makes the release of the wanted content, with an archive, the requested one: an existing
// release with the same content, or a new one. It returns the values of all variables for its build.
func (u *updating) choose(ctx context.Context, file uuid.UUID) ([]coderd.Variable, error) {
	next, variables, err := u.plan(ctx, file)
	if err != nil {
		return nil, err
	}
	next.By = u.as
	again := u.retryRequested() && u.intent.Release.Content == next.Content
	if u.reuse(next) && !again {
		return variables, nil
	}
	if next.Name, err = u.name(next); err != nil {
		return nil, err
	}
	u.intent.replace(next, u.page.active.ID)
	return variables, nil
}

// retryRequested reports whether the user asks to build the same content again, if it is still
// wanted: its build failed or was refused, and the version name is another one.
func (u *updating) retryRequested() bool {
	r := u.intent.Release
	name := u.wanted.Spec.VersionName
	if name == "" || name == u.was.Spec.VersionName || r == nil || r.Name == name || !r.open(u.page.active.ID) {
		return false
	}
	if r.Refused != "" {
		return true
	}
	i := slices.IndexFunc(u.page.versions, func(v coderd.TemplateVersion) bool { return v.ID == r.VersionID })
	return i >= 0 && failed(u.page.versions[i])
}

// reuse makes an existing release with the same content the requested one, and reports whether there
// is one. So nothing is built twice.
func (u *updating) reuse(next *release) bool {
	r := u.intent.Release
	if r.open(u.page.active.ID) && r.Content == next.Content && r.Refused == "" {
		return true
	}
	if built := u.intent.built(next.Content, u.page.active.ID); built != nil {
		u.intent.replace(built, u.page.active.ID)
		return true
	}
	plain := len(u.wanted.Spec.Variables) == 0 && len(u.was.Spec.Variables) == 0
	if next.FileID == u.page.active.FileID && plain && maps.Equal(next.Tags, givenTags(u.page.active.ProvisionerTags)) {
		// Another client created the active version, with the same content.
		next.VersionID, next.Name, next.Settled = u.page.active.ID, u.page.active.Name, true
		u.intent.replace(next, u.page.active.ID)
		return true
	}
	return false
}

// name returns the name of a new version.
func (u *updating) name(next *release) (string, error) {
	if u.wanted.Spec.VersionName == "" {
		return versionNameOf(next.Content), nil
	}
	if problem := nameTaken(u.page.versions, u.wanted.Spec.VersionName); problem != nil {
		return "", invalid(u.wanted, problem)
	}
	return u.wanted.Spec.VersionName, nil
}

// takeBack restores the record, because Coder refused the version.
func (u *updating) takeBack(ctx context.Context, before *metadata.Record, beforeIntent intent, refused error) error {
	record := before.DeepCopy()
	record.Version = u.record.Version
	if _, err := u.kind.Save(ctx, record, nil, beforeIntent); err != nil {
		return fault(u.was.Name, err)
	}
	return refused
}

// result reads the updated template and returns its object.
func (u *updating) result(ctx context.Context, id uuid.UUID) (object, error) {
	u.kind.versions.forget(u.connection.ControlPlane, id)
	t, err := u.connection.Client.Template(ctx, id)
	if err != nil {
		return nil, fault(u.was.Name, err)
	}
	out, err := u.kind.objectWith(ctx, u.connection, t, u.record, u.was, u.source)
	if err != nil {
		return nil, fault(u.was.Name, err)
	}
	u.kind.Hint(u.connection.ControlPlane, id)
	return out, nil
}

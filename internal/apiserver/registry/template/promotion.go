package template

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// promoteSubresource is the name of the subresource that makes a version active.
const promoteSubresource = "promote"

// promoteREST implements codertemplates/promote: POST makes a version active, with a change of
// spec.versionID. An earlier version rolls the template back.
type promoteREST struct {
	registry.Body
	*reader
}

var (
	_ rest.NamedCreater    = (*promoteREST)(nil)
	_ rest.StorageMetadata = (*promoteREST)(nil)
)

func newPromotion() runtime.Object { return &aggregationv1alpha1.CoderTemplatePromotion{} }

// ProducesMIMETypes implements rest.StorageMetadata.
func (*promoteREST) ProducesMIMETypes(string) []string { return nil }

// ProducesObject implements rest.StorageMetadata. The response is the template.
func (*promoteREST) ProducesObject(string) any { return aggregationv1alpha1.CoderTemplate{} }

// Create implements rest.NamedCreater.
func (r *promoteREST) Create(
	ctx context.Context, name string, body runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (_ runtime.Object, err error) {
	defer coderfault.Name(ctx, &err)
	asked, err := registry.BodyOf[*aggregationv1alpha1.CoderTemplatePromotion](ctx, name, body, validate)
	if err != nil {
		return nil, err
	}
	p := promotion{*asked}
	if asked.VersionName != "" {
		if p.VersionID, err = r.versionNamed(ctx, name, asked); err != nil {
			return nil, err
		}
	}
	out, _, err := r.store.Update(ctx, name, p, nil, nil, false, &metav1.UpdateOptions{DryRun: options.DryRun, FieldManager: options.FieldManager})
	return out, err
}

// versionNamed returns the ID of the version with the requested name. It must have the requested ID, if any. Coder has names
// that differ only in case, so the case must be the same: otherwise the author of another version could have it promoted.
func (r *promoteREST) versionNamed(ctx context.Context, name string, asked *aggregationv1alpha1.CoderTemplatePromotion) (string, error) {
	found, err := r.subject(ctx, name)
	if err != nil {
		return "", err
	}
	versions, err := found.Connection.Client.AllTemplateVersions(ctx, found.ID)
	if err != nil {
		return "", fault(name, err)
	}
	i := slices.IndexFunc(versions, func(v coderd.TemplateVersion) bool { return v.Name == asked.VersionName })
	if i < 0 {
		missing := apierrors.NewNotFound(aggregationv1alpha1.Resource(VersionPlural), asked.VersionName)
		missing.ErrStatus.Message = fmt.Sprintf("template %q has no version %q; its CoderTemplateVersions are the newest ones", name, asked.VersionName)
		return "", missing
	}
	id := versions[i].ID.String()
	if asked.VersionID != "" && registry.CanonicalID(asked.VersionID) != id {
		return "", apierrors.NewConflict(resource, name, fmt.Errorf("version %q has the id %s, not %s", asked.VersionName, id, asked.VersionID))
	}
	return id, nil
}

// promotion is the update that sets spec.versionID.
type promotion struct {
	aggregationv1alpha1.CoderTemplatePromotion
}

var _ rest.UpdatedObjectInfo = promotion{}

// Preconditions implements rest.UpdatedObjectInfo.
func (p promotion) Preconditions() *metav1.Preconditions {
	if p.UID == "" {
		return nil
	}
	return &metav1.Preconditions{UID: &p.UID}
}

// UpdatedObject implements rest.UpdatedObjectInfo. It is called again if the template has changed in Coder.
func (p promotion) UpdatedObject(_ context.Context, old runtime.Object) (runtime.Object, error) {
	tmpl, err := info.Cast(old.DeepCopyObject())
	if err != nil {
		return nil, err
	}
	conflict := func(format string, args ...any) error {
		return apierrors.NewConflict(resource, tmpl.Name, fmt.Errorf(format, args...))
	}
	if active := tmpl.Status.ActiveVersionID; p.ActiveVersionID != "" && registry.CanonicalID(p.ActiveVersionID) != active {
		return nil, conflict("version %q (%s) is active now, not %s: review the template again", tmpl.Status.ActiveVersionName, active, p.ActiveVersionID)
	}
	if p.VersionID == "" {
		candidate := tmpl.Status.Candidate
		switch {
		case candidate == nil:
			return nil, conflict("there is no candidate to promote: set spec.activation to Manual or AfterTest, and new files make one; to make another version active, give versionID or versionName")
		case candidate.ID == "":
			return nil, conflict("the candidate %q does not exist in Coder yet; condition Synced says why", candidate.Name)
		}
		p.VersionID = candidate.ID
	}
	tmpl.Spec.VersionID = p.VersionID
	return tmpl, nil
}

// manual reports whether new versions become candidates. With AfterTest some are promoted after their tests.
func manual(tmpl object) bool { return makesCandidates(tmpl.Spec.Activation) }

func makesCandidates(activation string) bool {
	return activation == aggregationv1alpha1.ActivationManual || activation == aggregationv1alpha1.ActivationAfterTest
}

// planActive plans to make an existing version active. A requested version is no longer wanted then.
// With Manual, spec.files describes the same version as before, which is now the candidate unless it is
// the one that becomes active.
func (d *decision) planActive(ctx context.Context) error {
	version, err := promotable(ctx, d.connection, d.id, d.wanted)
	if err != nil {
		return err
	}
	was := d.page.active
	d.active, d.page.active = version.ID, version
	if manual(d.wanted) {
		shown := d.intent.shown(was.ID)
		if shown == nil && was.Status == buildSucceeded {
			// The version was not created here.
			shown = &release{FileID: was.FileID, Name: was.Name, Tags: givenTags(was.ProvisionerTags), VersionID: was.ID}
		}
		if shown != nil && shown.VersionID != version.ID {
			d.intent.replace(shown.asCandidate(), version.ID)
			return nil
		}
	}
	if r := d.intent.Release; r != nil {
		settled := *r
		settled.Settled = true
		d.intent.replace(&settled, version.ID)
	}
	return nil
}

// mayPromote checks the permission for a change that spec.activation Manual and AfterTest reserve for those who may promote: a
// change of the active version, of spec.activation itself, and of the tests that promote.
func (k *Kind) mayPromote(ctx context.Context, was, wanted object) error {
	sameTests := !afterTest(was) || equality.Semantic.DeepEqual(was.Spec.Tests, wanted.Spec.Tests)
	if k.authorizer == nil || !manual(was) || was.Spec.Activation == wanted.Spec.Activation && wanted.Spec.VersionID == was.Spec.VersionID && sameTests {
		return nil
	}
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return apierrors.NewInternalError(errors.New("bug: a promotion by nobody"))
	}
	allowed, err := impersonation.Allowed(ctx, k.authorizer, authorizer.AttributesRecord{
		User: caller, Verb: "create", Namespace: was.Namespace, ResourceRequest: true,
		APIGroup: aggregationv1alpha1.GroupVersion.Group, APIVersion: aggregationv1alpha1.GroupVersion.Version,
		Resource: Plural, Subresource: promoteSubresource, Name: was.Name,
	})
	if err != nil || allowed {
		return err
	}
	return apierrors.NewForbidden(resource, was.Name, fmt.Errorf(
		"spec.activation is %s, so a change of spec.versionID, spec.activation or spec.tests needs the verb create on %s/%s of group %s in namespace %q, which %q lacks",
		was.Spec.Activation, Plural, promoteSubresource, aggregationv1alpha1.GroupVersion.Group, was.Namespace, caller.GetName()))
}

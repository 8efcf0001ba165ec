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
	"k8s.io/apimachinery/pkg/util/validation/field"
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
	p := *asked
	if asked.VersionName != "" {
		if p.VersionID, err = r.versionNamed(ctx, name, asked); err != nil {
			return nil, err
		}
	}
	// The function is called again if the template has changed in Coder.
	update := rest.DefaultUpdatedObjectInfo(&aggregationv1alpha1.CoderTemplate{ObjectMeta: metav1.ObjectMeta{UID: asked.UID}},
		func(_ context.Context, _, old runtime.Object) (runtime.Object, error) { return promoted(old, p) })
	out, _, err := r.store.Update(ctx, name, update, nil, nil, false, &metav1.UpdateOptions{DryRun: options.DryRun, FieldManager: options.FieldManager})
	return out, err
}

// versionNamed returns the ID of the version with the requested name. It must have the requested ID, if any. Coder has names
// that differ only in case, so the case must be the same: otherwise the author of another version could have it promoted.
func (r *promoteREST) versionNamed(ctx context.Context, name string, asked *aggregationv1alpha1.CoderTemplatePromotion) (string, error) {
	found, err := r.kind.Find(ctx, r.store, name)
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

// promoted returns a template with the spec.versionID of a promotion.
func promoted(old runtime.Object, p aggregationv1alpha1.CoderTemplatePromotion) (runtime.Object, error) {
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
	version, err := readVersion(ctx, d.connection, d.wanted)
	problem := ""
	switch {
	case err != nil:
		return err
	case version.TemplateID == nil || *version.TemplateID != d.id:
		problem = "is not a version of this template"
	case version.Status != buildSucceeded:
		problem = fmt.Sprintf("cannot become active, because its build is %s and not %s", version.Status, buildSucceeded)
	case version.Archived:
		problem = "cannot become active, because it is archived; unarchive it in Coder first"
	}
	if problem != "" {
		return invalid(d.wanted, field.Invalid(versionPath, d.wanted.Spec.VersionID, problem))
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
	if !manual(was) || was.Spec.Activation == wanted.Spec.Activation && wanted.Spec.VersionID == was.Spec.VersionID && sameTests {
		return nil
	}
	change := "spec.activation is " + was.Spec.Activation + ", so a change of spec.versionID, spec.activation or spec.tests"
	return k.mayCreate(ctx, was, change, authorizer.AttributesRecord{
		APIGroup: aggregationv1alpha1.GroupVersion.Group, APIVersion: aggregationv1alpha1.GroupVersion.Version,
		Resource: Plural, Subresource: promoteSubresource, Name: was.Name,
	})
}

// mayCreate checks whether the caller has the verb create on the resource that a change of a template needs.
func (k *Kind) mayCreate(ctx context.Context, tmpl object, change string, needed authorizer.AttributesRecord) error {
	if k.authorizer == nil {
		return nil
	}
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return apierrors.NewInternalError(errors.New("bug: a change by nobody"))
	}
	needed.User, needed.Verb, needed.Namespace, needed.ResourceRequest = caller, "create", tmpl.Namespace, true
	allowed, err := impersonation.Allowed(ctx, k.authorizer, needed)
	if err != nil || allowed {
		return err
	}
	on := needed.Resource
	if needed.Subresource != "" {
		on += "/" + needed.Subresource
	}
	return apierrors.NewForbidden(resource, tmpl.Name, fmt.Errorf(
		"%s needs the verb create on %s of group %s in namespace %q, which %q lacks",
		change, on, needed.APIGroup, tmpl.Namespace, caller.GetName()))
}

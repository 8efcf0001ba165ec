package template

import (
	"context"
	"strings"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

type creating struct {
	kind   *Kind
	plan   plan
	wanted *aggregationv1alpha1.CoderTemplate
	// as is the Coder user who creates the template.
	as *impersonation.As
	// record is the pending record. retried is true if it is left from an earlier attempt.
	record  *metadata.Record
	retried bool
	intent  intent
	source  *source
	// variables are all values for the first version.
	variables []coderd.Variable
}

// create creates a template. It does not wait for the build. Coder requires a first version, so the
// template exists with its first version at once, and its conditions report the build.
func (k *Kind) create(ctx context.Context, wanted object) (object, error) {
	ctx, as, p, err := k.beginCreate(ctx, wanted)
	if err != nil {
		return nil, err
	}
	c := &creating{kind: k, plan: p, wanted: wanted, as: as}
	c.record = &metadata.Record{ControlPlane: p.connection.ControlPlane, Kind: k.Kind, Name: wanted.Name}
	if known, ok := k.Records.PendingFor(p.connection.ControlPlane, k.Kind, wanted.Name); ok {
		c.record, c.retried = known.DeepCopy(), true
	}
	if c.intent, err = registry.ReadIntent[intent](c.record); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	c.intent.keepSpec(wanted.Spec)
	if p.existing != nil {
		// If the response to an earlier attempt was lost, the template exists with the version that was created for it.
		r := c.intent.Release
		if !c.retried || r == nil || r.VersionID == uuid.Nil || r.VersionID != p.existing.ActiveVersionID {
			return nil, apierrors.NewAlreadyExists(resource, wanted.Name)
		}
		return c.finish(ctx, *p.existing)
	}
	if err := c.prepare(ctx); err != nil {
		return nil, c.giveUp(ctx, err)
	}
	created, err := p.connection.Client.CreateTemplate(ctx, p.organization.ID, c.plan.request)
	if c.retried && coderd.IsConflict(err) {
		// The template that has the name may be the result of an earlier attempt.
		return nil, k.CreateFault(wanted.Name, err)
	}
	if err != nil {
		return nil, c.giveUp(ctx, k.CreateFault(wanted.Name, err))
	}
	return c.finish(ctx, created)
}

// prepare uploads the files to Coder and records the intent. It also creates the first version, unless an
// earlier attempt created it.
func (c *creating) prepare(ctx context.Context) error {
	if len(c.wanted.Spec.Files) == 0 {
		return c.save(ctx)
	}
	if err := c.release(ctx); err != nil {
		return err
	}
	if err := c.save(ctx); err != nil {
		return err
	}
	if r := c.intent.Release; r.VersionID == uuid.Nil {
		version, err := c.orphan(ctx)
		if err != nil {
			return versionFault(c.wanted.Name, err)
		}
		submitted := *r
		// The template is created with this version, so no promotion is needed.
		submitted.VersionID, submitted.Settled = version.ID, true
		c.intent.Release = &submitted
		if err := c.save(ctx); err != nil {
			return err
		}
	}
	c.plan.request.VersionID = c.intent.Release.VersionID
	return nil
}

// release determines the content of the first version.
func (c *creating) release(ctx context.Context) (err error) {
	spec := c.wanted.Spec
	of := content{tags: givenTags(spec.ProvisionerTags)}
	if of.variables, err = c.kind.resolve(ctx, c.wanted.Namespace, spec.Variables, nil); err != nil {
		return fault(c.wanted.Name, err)
	}
	if of.file, c.source, err = upload(ctx, c.plan.connection, c.wanted, nil); err != nil {
		return err
	}
	if c.intent.Salt == "" {
		if c.intent.Salt, err = newSalt(); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	c.variables = of.variables
	next := of.release(c.intent.Salt, spec.VersionMessage, uuid.Nil)
	next.By = c.as
	next.Name = spec.VersionName
	if next.Name == "" {
		next.Name = versionNameOf(next.Content)
	}
	if old := c.intent.Release; old == nil || old.Content != next.Content || old.Name != next.Name {
		c.intent.Release = next
	}
	return nil
}

func (c *creating) save(ctx context.Context) error {
	saved, err := c.kind.Save(ctx, c.record, c.wanted, c.intent)
	if err != nil {
		return fault(c.wanted.Name, err)
	}
	c.record = saved
	return nil
}

// orphan returns the first version. Coder cannot list versions without a template, so if the
// response of an earlier creation was lost, the version is searched among the running builds. A
// version whose build has finished meanwhile is not found.
func (c *creating) orphan(ctx context.Context) (coderd.TemplateVersion, error) {
	client, r := c.plan.connection.Client, c.intent.Release
	if c.retried {
		jobs, err := client.ActiveJobs(ctx, c.plan.organization.ID)
		if err != nil && isTemporary(err) {
			return coderd.TemplateVersion{}, err
		}
		for _, job := range jobs {
			if job.TemplateVersion == uuid.Nil {
				continue
			}
			v, err := client.TemplateVersion(ctx, job.TemplateVersion)
			if err == nil && v.TemplateID == nil && v.FileID == r.FileID && strings.EqualFold(v.Name, r.Name) {
				return v, nil
			}
		}
	}
	return client.CreateTemplateVersion(ctx, c.plan.organization.ID, newVersion(nil, r, c.variables))
}

// finish binds the record to the template.
func (c *creating) finish(ctx context.Context, t coderd.Template) (object, error) {
	bound, err := c.kind.BindPending(ctx, c.record, c.wanted, c.intent, t.ID)
	if err != nil {
		return nil, fault(c.wanted.Name, err)
	}
	c.kind.versions.forget(c.plan.connection.ControlPlane, t.ID)
	out, err := c.kind.objectWith(ctx, c.plan.connection, t, bound, nil, c.source)
	if err != nil {
		return nil, fault(c.wanted.Name, err)
	}
	// The first version is active from the beginning.
	out.Status.History[0].Since = out.CreationTimestamp.DeepCopy()
	activatedBy(out, c.as)
	c.kind.Hint(c.plan.connection.ControlPlane, t.ID)
	return out, nil
}

// giveUp deletes the record if Coder has refused the template. If it is not known whether the
// template was created, the record stays.
func (c *creating) giveUp(ctx context.Context, err error) error {
	// These errors prove that nothing was created.
	certain := apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsForbidden(err) ||
		apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
	if c.record.Version == "" || c.record.UID != "" || !certain {
		return err
	}
	if failed := c.kind.Records.Delete(ctx, c.record); failed != nil {
		log.FromContext(ctx).V(1).Info("Could not remove the record of a template that Coder rejected; retrying later",
			"controlPlane", c.record.ControlPlane, "template", c.record.Name, "reason", failed.Error())
	}
	return err
}

// plan is the request that creates a template, with the objects it refers to. Building a plan only
// reads.
type plan struct {
	connection   connections.Connection
	organization coderd.Organization
	// request has no version if the version will be created from files.
	request coderd.NewTemplate
	// existing is the template that already has the name, or nil.
	existing *coderd.Template
}

// beginCreate determines the Coder user that the caller acts as to create a template, and plans the
// creation. It only reads. It returns an error if Coder would refuse the template, before files are uploaded.
func (k *Kind) beginCreate(ctx context.Context, tmpl object) (_ context.Context, as *impersonation.As, p plan, err error) {
	if p.connection, err = k.LocateNew(ctx, tmpl); err != nil {
		return ctx, nil, p, err
	}
	client, spec, s := p.connection.Client, tmpl.Spec, subjectOf(tmpl.Name)
	if ctx, as, err = k.Actors.Begin(ctx, p.connection, s); err != nil {
		return ctx, as, p, err
	}
	// LocateNew has checked the name.
	name, _ := metadata.ParseTemplateName(tmpl.Name)
	p.organization, err = registry.Organization(ctx, p.connection, spec.Organization, name.Organization)
	if err != nil {
		return ctx, as, p, fault(tmpl.Name, err)
	}
	p.request = coderd.NewTemplate{
		Name: name.Name, DisplayName: spec.DisplayName, Description: spec.Description, Icon: spec.Icon,
		DefaultTTL: registry.Millis(spec.DefaultTTLMillis), ActivityBump: registry.Millis(spec.ActivityBumpMillis),
		AllowUserCancelWorkspaceJobs: spec.AllowUserCancelWorkspaceJobs,
		UseClassicParameterFlow:      spec.UseClassicParameterFlow,
	}
	if spec.CORSBehavior != "" {
		p.request.CORSBehavior = ptr.To(spec.CORSBehavior)
	}
	// Check the name first, so that no unused version is created.
	existing, err := client.TemplateByName(ctx, p.organization.ID, name.Name)
	switch {
	case err == nil:
		p.existing = &existing
	case !coderd.IsNotFound(err):
		return ctx, as, p, fault(tmpl.Name, err)
	case spec.VersionID != "":
		version, err := readVersion(ctx, p.connection, tmpl)
		if err == nil && version.TemplateID != nil {
			err = invalid(tmpl, field.Invalid(versionPath, spec.VersionID, "belongs to another template"))
		}
		if err != nil {
			return ctx, as, p, err
		}
		p.request.VersionID = version.ID
	}
	if err := k.checkTests(ctx, p.connection, nil, tmpl); err != nil {
		return ctx, as, p, err
	}
	return ctx, as, p, impersonation.May(ctx, client, s, coderd.Permission{
		Resource: k.InCoder, Action: "create", Organization: p.organization.ID,
	})
}

func readVersion(ctx context.Context, connection connections.Connection, tmpl object) (coderd.TemplateVersion, error) {
	// The validation has checked that it is a UUID.
	id, _ := uuid.Parse(tmpl.Spec.VersionID)
	version, err := connection.Client.TemplateVersion(ctx, id)
	if coderd.IsNotFound(err) {
		return version, invalid(tmpl, field.Invalid(versionPath, tmpl.Spec.VersionID, "there is no such version in Coder"))
	}
	return version, fault(tmpl.Name, err)
}

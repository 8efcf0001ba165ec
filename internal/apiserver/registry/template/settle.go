package template

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// defaultFailedVersions is the number of failed versions that are kept if the spec sets no limit.
const defaultFailedVersions = 3

// Settle implements mirror.Kind. Each step is idempotent, and its result is stored in Coder or in
// the record before the next step.
func (k *Kind) Settle(
	ctx context.Context, connection connections.Connection, item coderd.Template, record *metadata.Record,
) (again bool, err error) {
	in, err := registry.ReadIntent[intent](record)
	if err != nil {
		return false, err
	}
	if record.DeletionDue() {
		ctx, err = k.Actors.Later(ctx, connection, in.DeletedBy, subjectOf(record.Name))
		if err == nil {
			err = connection.Client.DeleteTemplate(ctx, item.ID)
		}
		if coderd.IsNotFound(err) && coderd.ActedAs(err) == "" {
			err = connection.Client.Absent(ctx, k.InCoder, err)
		}
		if err != nil {
			return true, err
		}
		k.versions.forget(connection.ControlPlane, item.ID)
		return true, k.Records.Delete(ctx, record)
	}
	p, _, err := k.versions.read(ctx, connection, item, in.Release, false)
	if err != nil {
		return false, err
	}
	work := &settling{kind: k, connection: connection, template: item, page: p, record: record, intent: in}
	for _, step := range []func(context.Context) error{work.rotate, work.submit, work.test, work.promote, work.archive} {
		if err := step(ctx); err != nil {
			return true, err
		}
		if work.changed {
			k.versions.forget(connection.ControlPlane, item.ID)
			return true, nil
		}
	}
	r := work.intent.Release
	waits := r.open(work.page.active.ID) && r.VersionID == uuid.Nil && r.Refused == ""
	return waits || work.testing || building(work.page.active) || slices.ContainsFunc(work.page.versions, building), nil
}

type settling struct {
	kind       *Kind
	connection connections.Connection
	template   coderd.Template
	page       page
	record     *metadata.Record
	intent     intent
	// changed is true if a step changed something, so that the data read before is out of date.
	changed bool
	// testing is true if a test of the candidate has no result yet.
	testing bool
}

func (w *settling) save(ctx context.Context) error {
	saved, err := w.kind.Save(ctx, w.record, nil, w.intent)
	if err != nil {
		return err
	}
	w.record, w.changed = saved, true
	return nil
}

// submit creates the requested version in Coder, if that has not been done.
func (w *settling) submit(ctx context.Context) error {
	r := w.intent.Release
	if !r.open(w.page.active.ID) || r.VersionID != uuid.Nil || r.Refused != "" {
		return nil
	}
	next := *r
	variables, err := w.kind.resolve(ctx, w.connection.ControlPlane.Namespace, w.intent.Variables, r.Inherited)
	var wrong *field.Error
	switch {
	case errors.As(err, &wrong):
		next.Refused = wrong.Error()
	case err != nil:
		return err
	default:
		var version coderd.TemplateVersion
		ctx, err := w.as(ctx, r)
		if err == nil {
			version, err = submit(ctx, w.connection.Client, w.template, r, variables)
		}
		if err != nil && (!refusal(err) || coderd.IsUnauthorized(err)) {
			// The next attempt creates another token, if Coder does not accept this one.
			return err
		}
		if err != nil {
			next.Refused = err.Error()
		}
		next.VersionID = version.ID
	}
	w.intent.Release = &next
	w.logRelease(ctx, "Sent a template version to Coder", next)
	return w.save(ctx)
}

// as returns a context in which requests are made as the user who requested a release.
func (w *settling) as(ctx context.Context, r *release) (context.Context, error) {
	return w.kind.Actors.Later(ctx, w.connection, r.By, subjectOf(w.record.Name))
}

// logRelease logs a step. The mirror's logger has the control plane.
func (w *settling) logRelease(ctx context.Context, what string, r release) {
	log.FromContext(ctx).Info(what, "template", w.template.Name, "version", r.Name, "refused", r.Refused)
}

// promote makes the requested version active if its build succeeded, and marks the release as
// settled. A candidate waits for its tests or a client.
func (w *settling) promote(ctx context.Context) error {
	r := w.intent.Release
	if r == nil || r.Settled || r.Refused != "" || r.waits(w.page.active.ID) && !w.intent.passed(w.page.active.ID) {
		return nil
	}
	next := *r
	next.Settled = true
	if r.open(w.page.active.ID) {
		if r.VersionID == uuid.Nil {
			return nil
		}
		version, err := w.versionOf(ctx, r)
		switch {
		case coderd.IsNotFound(err):
		case err != nil:
			return err
		case version.Status != buildSucceeded:
			return nil
		default:
			now, err := w.connection.Client.Template(ctx, w.template.ID)
			if err != nil {
				return err
			}
			if now.ActiveVersionID != w.page.active.ID {
				// This is a newer decision. The template is read again.
				w.changed = true
				return nil
			}
			if err := w.activate(ctx, &next); err != nil {
				return err
			}
		}
	}
	w.intent.Release = &next
	return w.save(ctx)
}

// activate makes the version of a release active, as the user who requested it. The release records
// whether Coder refuses that to the user.
func (w *settling) activate(ctx context.Context, r *release) error {
	as, err := w.as(ctx, r)
	if err == nil {
		err = w.connection.Client.SetActiveVersion(as, w.template.ID, r.VersionID)
	}
	if err != nil && (!refusesUser(err) || coderd.IsUnauthorized(err)) {
		return err
	}
	r.Activated = err == nil
	if err != nil {
		r.Refused, r.Settled = err.Error(), false
	}
	w.logRelease(ctx, "Finished a template version", *r)
	return nil
}

func (w *settling) versionOf(ctx context.Context, r *release) (coderd.TemplateVersion, error) {
	if v, ok := w.page.find(r.VersionID); ok {
		return v, nil
	}
	return w.connection.Client.TemplateVersion(ctx, r.VersionID)
}

// archive archives old versions whose build failed. It ignores templates whose files were never set
// through Kubernetes.
func (w *settling) archive(ctx context.Context) error {
	if w.intent.Release == nil && w.intent.FailedVersionsHistoryLimit == nil {
		return nil
	}
	for _, v := range superfluous(w.page, w.intent) {
		err := w.connection.Client.ArchiveVersion(ctx, v.ID)
		if err != nil && !coderd.IsInvalid(err) && !coderd.IsConflict(err) {
			return err
		}
		log.FromContext(ctx).V(1).Info("Archived a template version", "template", w.template.Name, "version", v.Name)
		// If Coder refuses to archive it now, it is tried again after the page expires.
		w.changed = w.changed || err == nil
	}
	return nil
}

// superfluous returns the failed versions that exceed the limit, newest first. It never returns the
// active or the requested version.
func superfluous(p page, in intent) []coderd.TemplateVersion {
	left := defaultFailedVersions
	if in.FailedVersionsHistoryLimit != nil {
		left = int(*in.FailedVersionsHistoryLimit)
	}
	var out []coderd.TemplateVersion
	for i := len(p.versions) - 1; i >= 0; i-- {
		v := p.versions[i]
		switch {
		case !failed(v) || v.Archived || v.ID == p.active.ID:
		case left > 0:
			left--
		case in.Release.open(p.active.ID) && in.Release.VersionID == v.ID:
		default:
			out = append(out, v)
		}
	}
	return out
}

// rotationInterval is the interval at which the Secrets of a template are read.
const rotationInterval = time.Minute

// rotate requests a new version of the same files if a Secret has changed. A Secret that was
// deleted changes nothing: the active version was built with its last content.
func (w *settling) rotate(ctx context.Context) error {
	r := w.intent.Release
	usesSecret := func(v aggregationv1alpha1.TemplateVariable) bool { return secretOf(v) != nil }
	if r == nil || r.Content == "" || !slices.ContainsFunc(w.intent.Variables, usesSecret) ||
		r.VersionID != w.page.active.ID && !r.open(w.page.active.ID) || r.VersionID == uuid.Nil && r.Refused == "" {
		return nil
	}
	key, now := pageKey{w.connection.ControlPlane, w.template.ID}, w.kind.Clock.Now()
	if last, ok := w.kind.secretsRead.Get(key); ok && now.Sub(last.(time.Time)) < rotationInterval {
		return nil
	}
	w.kind.secretsRead.Add(key, now)
	variables, err := w.kind.resolve(ctx, w.connection.ControlPlane.Namespace, w.intent.Variables, r.Inherited)
	if err != nil {
		log.FromContext(ctx).V(1).Info("Could not read the variables of a template; retrying later", "template", w.template.Name, "reason", err.Error())
		return nil
	}
	hash := content{file: r.FileID, variables: variables, tags: r.Tags}.hash(w.intent.Salt)
	if hash == r.Content && r.Refused == "" {
		return nil
	}
	w.intent.replace(&release{
		FileID: r.FileID, Content: hash, Name: versionNameOf(hash), Message: r.Message, Tags: r.Tags,
		Inherited: r.Inherited, Over: w.page.active.ID, By: r.By,
		// A candidate stays one, also if activation has changed to Automatic since.
		Manual:    makesCandidates(w.intent.Activation) || r.waits(w.page.active.ID),
		AfterTest: w.intent.Activation == aggregationv1alpha1.ActivationAfterTest && (r.AfterTest || !r.waits(w.page.active.ID)),
	}, w.page.active.ID)
	w.logRelease(ctx, "Creating a template version because a Secret changed", *w.intent.Release)
	return w.save(ctx)
}

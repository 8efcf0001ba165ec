package template

import (
	"cmp"
	"context"
	"fmt"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// Write implements records.Writer.
func (k *Kind) Write(ctx context.Context, key string, current, wanted records.Object) (records.Object, error) {
	return registry.Operations[object]{
		Create: k.create,
		Update: func(ctx context.Context, was, wanted object) (object, error) {
			ctx, d, err := k.decide(ctx, was, wanted)
			if err = cmp.Or(d.newer, err); err != nil {
				return nil, err
			}
			return d.apply(ctx)
		},
		Delete: func(ctx context.Context, was object) (object, error) { return nil, k.remove(ctx, was) },
	}.Write(ctx, key, current, wanted)
}

// CheckCreate implements registry.Checker.
func (k *Kind) CheckCreate(ctx context.Context, obj runtime.Object) error {
	tmpl := obj.(object)
	ctx, _, p, err := k.beginCreate(ctx, tmpl)
	if err != nil {
		return err
	}
	if p.existing != nil {
		return apierrors.NewAlreadyExists(resource, tmpl.Name)
	}
	_, err = k.resolve(ctx, tmpl.Namespace, tmpl.Spec.Variables, nil)
	return fault(tmpl.Name, err)
}

// CheckUpdate implements registry.Checker.
func (k *Kind) CheckUpdate(ctx context.Context, wanted, current runtime.Object) error {
	_, _, err := k.decide(ctx, current.(object), wanted.(object))
	return err
}

// CheckDelete implements registry.Checker.
func (k *Kind) CheckDelete(ctx context.Context, obj runtime.Object) error {
	tmpl := obj.(object)
	if err := k.CheckUpdate(ctx, k.Deleted(tmpl), tmpl); err != nil {
		return err
	}
	return k.CheckUnused(ctx, tmpl, "organization:"+tmpl.Status.OrganizationName+" template:"+tmpl.Status.TemplateName)
}

// sameSource reports whether the update does not replace the archive.
func sameSource(was, tmpl object) bool {
	a, b := was.Status.Source, tmpl.Status.Source
	return a == nil && b == nil || a != nil && b != nil && a.FileID == b.FileID
}

// remove deletes a template in Coder.
func (k *Kind) remove(ctx context.Context, was object) error {
	connection, id, err := k.Locate(ctx, was)
	if err != nil {
		return err
	}
	s := subjectOf(was.Name)
	if was.DeletionTimestamp == nil || records.IsDeletion(ctx) {
		var as *impersonation.As
		s.Deletes = true
		if ctx, as, err = k.Actors.Begin(ctx, connection, s); err == nil && as != nil {
			err = k.MayDelete(ctx, connection, s, id)
		}
	} else {
		// Another user may have removed the last finalizer.
		var in intent
		if in, err = registry.ReadIntent[intent](k.RecordOf(was)); err == nil {
			ctx, err = k.Actors.Later(ctx, connection, in.DeletedBy, s)
		}
	}
	if err != nil {
		return err
	}
	err = connection.Client.DeleteTemplate(ctx, id)
	if coderd.IsNotFound(err) {
		err = connection.Client.Absent(ctx, k.InCoder, err)
	}
	switch {
	case coderd.IsInvalid(err):
		// Coder returns 400 while the template has workspaces.
		return apierrors.NewConflict(resource, was.Name, fmt.Errorf("delete its workspaces first: %w", err))
	case err != nil:
		return fault(was.Name, err)
	}
	k.versions.forget(connection.ControlPlane, id)
	if record, ok := k.Records.Get(connection.ControlPlane, records.IDOf(was)); ok {
		if err := k.Records.Delete(ctx, record); err != nil {
			return fault(was.Name, err)
		}
	}
	return nil
}

// apply makes a change. The requests that Coder is most likely to refuse, and the data that only Coder
// stores, go first. If it is interrupted, repeating the same request completes it.
func (d *decision) apply(ctx context.Context) (object, error) {
	if !d.asks {
		return d.keep(ctx)
	}
	client := d.connection.Client
	if d.edit != (coderd.TemplateEdit{}) {
		if _, err := client.UpdateTemplate(ctx, d.id, d.edit); err != nil {
			return nil, fault(d.was.Name, err)
		}
	}
	if d.active != uuid.Nil {
		if err := client.SetActiveVersion(ctx, d.id, d.active); err != nil {
			return nil, fault(d.was.Name, err)
		}
	}
	if err := d.release(ctx); err != nil {
		return nil, err
	}
	d.kind.versions.forget(d.connection.ControlPlane, d.id)
	t, err := client.Template(ctx, d.id)
	if err != nil {
		return nil, fault(d.was.Name, err)
	}
	out, err := d.kind.objectWith(ctx, d.connection, t, d.record, d.was, d.source)
	if err != nil {
		return nil, fault(d.was.Name, err)
	}
	d.kind.Hint(d.connection.ControlPlane, d.id)
	if d.active != uuid.Nil && out.Status.ActiveVersionID == d.active.String() {
		activatedBy(out, d.as)
	}
	return out, nil
}

// keep records a change of data that only the record holds. It also works while Coder is unreachable, if
// the caller needs no Coder user.
func (d *decision) keep(ctx context.Context) (object, error) {
	var err error
	if d.spec || d.deletes {
		err = d.save(ctx)
	} else {
		metadata.Keep(d.wanted, d.record)
		_, err = d.kind.Records.Put(ctx, d.record)
	}
	if err != nil {
		return nil, fault(d.was.Name, err)
	}
	out := d.wanted.DeepCopy()
	if d.was.Status.ObservedGeneration == d.was.Generation {
		// The new generation contains nothing that must be sent to Coder. The start of a deletion increments it too.
		out.Status.ObservedGeneration = out.Generation
		d.kind.Observe(out)
	}
	d.kind.showDeletion(out, d.was.Status.Conditions)
	if d.spec {
		d.kind.Hint(d.connection.ControlPlane, d.id)
	}
	return out, nil
}

// save writes the record with the wanted metadata and intent.
func (d *decision) save(ctx context.Context) error {
	saved, err := d.kind.Save(ctx, d.record, d.wanted, d.intent)
	if err != nil {
		return fault(d.was.Name, err)
	}
	d.record = saved
	return nil
}

// release records the intent, and creates the requested version in Coder.
func (d *decision) release(ctx context.Context) error {
	record := d.record
	if d.builds && d.content.file == uuid.Nil {
		if err := d.upload(ctx); err != nil {
			return err
		}
	}
	// From here on, the version will be created: if this process ends, the next leader does it.
	if err := d.save(ctx); err != nil {
		return err
	}
	r := d.intent.Release
	if !d.builds || r.VersionID != uuid.Nil || !r.open(d.page.active.ID) {
		return nil
	}
	version, err := submit(ctx, d.connection.Client, d.template, r, d.content.variables)
	if err != nil && refusal(err) {
		// Restore the record.
		restored := record.DeepCopy()
		restored.Version = d.record.Version
		if _, err := d.kind.Save(ctx, restored, nil, d.before); err != nil {
			return fault(d.was.Name, err)
		}
		return versionFault(d.was.Name, err)
	}
	if err != nil {
		return fault(d.was.Name, err)
	}
	submitted := *r
	submitted.VersionID = version.ID
	d.intent.Release = &submitted
	return d.save(ctx)
}

package template

import (
	"context"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

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
	out, err := d.result(ctx)
	if err == nil && d.active != uuid.Nil && out.Status.ActiveVersionID == d.active.String() {
		activatedBy(out, d.as)
	}
	return out, err
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
	d.kind.observe(d.was, out)
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
		return d.takeBack(ctx, record, versionFault(d.was.Name, err))
	}
	if err != nil {
		return fault(d.was.Name, err)
	}
	submitted := *r
	submitted.VersionID = version.ID
	d.intent.Release = &submitted
	return d.save(ctx)
}

// takeBack restores the record, because Coder refused the version.
func (d *decision) takeBack(ctx context.Context, before *metadata.Record, refused error) error {
	record := before.DeepCopy()
	record.Version = d.record.Version
	if _, err := d.kind.Save(ctx, record, nil, d.before); err != nil {
		return fault(d.was.Name, err)
	}
	return refused
}

// result reads the updated template and returns its object.
func (d *decision) result(ctx context.Context) (object, error) {
	d.kind.versions.forget(d.connection.ControlPlane, d.id)
	t, err := d.connection.Client.Template(ctx, d.id)
	if err != nil {
		return nil, fault(d.was.Name, err)
	}
	out, err := d.kind.objectWith(ctx, d.connection, t, d.record, d.was, d.source)
	if err != nil {
		return nil, fault(d.was.Name, err)
	}
	d.kind.Hint(d.connection.ControlPlane, d.id)
	return out, nil
}

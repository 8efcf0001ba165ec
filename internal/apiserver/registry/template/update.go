package template

import (
	"context"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// apply makes a change. The requests that Coder is most likely to refuse, and the data that only Coder
// stores, go first. If it is interrupted, repeating the same request completes it.
func (c *change) apply(ctx context.Context) (object, error) {
	if !c.asks {
		return c.keep(ctx)
	}
	client := c.connection.Client
	if c.edit != (coderd.TemplateEdit{}) {
		if _, err := client.UpdateTemplate(ctx, c.id, c.edit); err != nil {
			return nil, fault(c.was.Name, err)
		}
	}
	if c.active != uuid.Nil {
		if err := client.SetActiveVersion(ctx, c.id, c.active); err != nil {
			return nil, fault(c.was.Name, err)
		}
	}
	if err := c.release(ctx); err != nil {
		return nil, err
	}
	return c.result(ctx)
}

// keep records a change of data that only the record holds. It also works while Coder is unreachable, if
// the caller needs no Coder user.
func (c *change) keep(ctx context.Context) (object, error) {
	var err error
	if c.spec || c.deletes {
		err = c.save(ctx)
	} else {
		metadata.Keep(c.wanted, c.record)
		_, err = c.kind.Records.Put(ctx, c.record)
	}
	if err != nil {
		return nil, fault(c.was.Name, err)
	}
	out := c.wanted.DeepCopy()
	c.kind.observe(c.was, out)
	c.kind.showDeletion(out, c.was.Status.Conditions)
	if c.spec {
		c.kind.Hint(c.connection.ControlPlane, c.id)
	}
	return out, nil
}

// save writes the record with the wanted metadata and intent.
func (c *change) save(ctx context.Context) error {
	saved, err := c.kind.Save(ctx, c.record, c.wanted, c.intent)
	if err != nil {
		return fault(c.was.Name, err)
	}
	c.record = saved
	return nil
}

// release records the intent, and creates the requested version in Coder.
func (c *change) release(ctx context.Context) error {
	record := c.record
	if c.builds && c.content.file == uuid.Nil {
		if err := c.upload(ctx); err != nil {
			return err
		}
	}
	// From here on, the version will be created: if this process ends, the next leader does it.
	if err := c.save(ctx); err != nil {
		return err
	}
	r := c.intent.Release
	if !c.builds || r.VersionID != uuid.Nil || !r.open(c.page.active.ID) {
		return nil
	}
	version, err := submit(ctx, c.connection.Client, c.template, r, c.content.variables)
	if err != nil && refusal(err) {
		return c.takeBack(ctx, record, versionFault(c.was.Name, err))
	}
	if err != nil {
		return fault(c.was.Name, err)
	}
	submitted := *r
	submitted.VersionID = version.ID
	c.intent.Release = &submitted
	return c.save(ctx)
}

// takeBack restores the record, because Coder refused the version.
func (c *change) takeBack(ctx context.Context, before *metadata.Record, refused error) error {
	record := before.DeepCopy()
	record.Version = c.record.Version
	if _, err := c.kind.Save(ctx, record, nil, c.before); err != nil {
		return fault(c.was.Name, err)
	}
	return refused
}

// result reads the updated template and returns its object.
func (c *change) result(ctx context.Context) (object, error) {
	c.kind.versions.forget(c.connection.ControlPlane, c.id)
	t, err := c.connection.Client.Template(ctx, c.id)
	if err != nil {
		return nil, fault(c.was.Name, err)
	}
	out, err := c.kind.objectWith(ctx, c.connection, t, c.record, c.was, c.source)
	if err != nil {
		return nil, fault(c.was.Name, err)
	}
	c.kind.Hint(c.connection.ControlPlane, c.id)
	return out, nil
}

package keys

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// wanted describes the key that the spec asks for.
type wanted struct {
	org         coderd.Organization
	names       []string
	tags        map[string]string
	tagsHash    string
	rotateAfter time.Duration
}

// verdict is the decision about the existing key.
type verdict struct {
	// why is the reason to create a new key, or empty.
	why string
	// adopt is the record of the existing key if the Secret has another record.
	adopt *Record
}

// decide compares the existing key with the wanted one. known is the key that Coder returns for the
// text in the Secret, or nil if Coder does not know it.
func decide(s *stored, known *coderd.ProvisionerKey, w wanted, now time.Time) verdict {
	if s == nil || s.text == "" {
		if s != nil && s.record != nil {
			return verdict{why: "the Secret was emptied"}
		}
		return verdict{why: "there was no key"}
	}
	if known == nil {
		return verdict{why: "Coder does not know the key in the Secret"}
	}
	found := recordOf(*known, resources.TagsHash(known.Tags), now)
	if s.record == nil || s.record.ID != found.ID {
		// A key is adopted only if the operator would create the same one.
		if found.OrganizationID == w.org.ID.String() && hasName(w.names, found.Name) && found.TagsHash == w.tagsHash {
			return verdict{adopt: &found}
		}
		return verdict{why: "the key in the Secret is not the one that the operator created for this object"}
	}
	return decideRecorded(*s.record, found, w, now)
}

// decideRecorded compares a key that the operator created with the wanted one.
func decideRecorded(r, found Record, w wanted, now time.Time) verdict {
	switch made, dated := r.made(); {
	case r.OrganizationID != w.org.ID.String():
		return verdict{why: "the organization has another id in Coder"}
	case !hasName(w.names, r.Name):
		return verdict{why: "spec.key.name changed"}
	case r.TagsHash != w.tagsHash:
		return verdict{why: "spec.tags changed"}
	case w.rotateAfter > 0 && dated && coderd.Elapsed(now, made, w.rotateAfter):
		return verdict{why: "the previous key reached the age in spec.key.rotateAfter"}
	case !dated:
		r.CreatedAt = found.CreatedAt
		return verdict{adopt: &r}
	}
	return verdict{}
}

// recordOf returns the record of a key. Its age counts from now, by the operator's clock: with a wrong clock in Coder, a new key
// could be as old as spec.key.rotateAfter.
func recordOf(k coderd.ProvisionerKey, tagsHash string, now time.Time) Record {
	return Record{
		ID: k.ID.String(), Name: k.Name, OrganizationID: k.OrganizationID.String(),
		TagsHash: tagsHash, CreatedAt: now.UTC().Format(time.RFC3339),
	}
}

// hasName reports whether names contains a name. Like Coder, it ignores case.
func hasName(names []string, name string) bool {
	return slices.ContainsFunc(names, func(other string) bool { return strings.EqualFold(other, name) })
}

// choose returns the first name that no key has. The spec asks for the first name, so if a key of
// another owner has it, choose returns that name as taken, unless the operator had a key here before:
// after a restore of Coder's database, a key that was replaced may have the name. The operator itself
// chose the further names, so a further name that is in use is skipped. An empty name means that all
// names are in use.
func choose(w wanted, keys []coderd.ProvisionerKey, s *stored) (name string, taken bool) {
	is := func(r Record) bool { return r.OrganizationID == w.org.ID.String() && hasName(w.names, r.Name) }
	had := s.record != nil && is(*s.record) || slices.ContainsFunc(s.replaced, is)
	for i, name := range w.names {
		k := named(keys, name)
		switch {
		case k == nil:
			return name, false
		case i == 0 && !s.knows(k.ID.String()) && !had:
			return name, true
		}
	}
	return "", false
}

func named(keys []coderd.ProvisionerKey, name string) *coderd.ProvisionerKey {
	i := slices.IndexFunc(keys, func(k coderd.ProvisionerKey) bool { return strings.EqualFold(k.Name, name) })
	if i < 0 {
		return nil
	}
	return &keys[i]
}

// makeKey creates a key exactly once: it writes the intent to the Secret, creates the key in Coder, and
// writes the key to the Secret. After a crash in between, the next pass deletes the key that the intent
// names (resolveIntent).
func (p *pass) makeKey(ctx context.Context, api *coderd.Client, w wanted, why string) error {
	if p.stored != nil && p.stored.intent != nil {
		if err := p.resolveIntent(ctx, p.stored); err != nil {
			return err
		}
	}
	keys, err := api.ProvisionerKeys(ctx, w.org.ID)
	if err != nil {
		return p.answered(err)
	}
	if err := p.recoverLost(ctx, keys); err != nil {
		return err
	}
	name, taken := choose(w, keys, p.stored)
	switch {
	case taken:
		return p.nameTaken(ctx, name, w)
	case name == "":
		return p.stop(framework.ConditionFalse(typeKey, coderv1alpha1.ReasonWaiting,
			"waiting until the pods with one of the replaced keys have stopped, because all key names are in use"), retrySoon)
	}
	if p.cr.Status.ControlPlaneRefName == "" {
		// As soon as the status has the name, the API server rejects changes of the fields that say where
		// the key is in Coder and in the cluster.
		p.result.Claimed = true
		return p.stop(framework.ConditionFalse(typeKey, coderv1alpha1.ReasonWaiting, "the key is about to be created"), framework.ConflictInterval)
	}
	if err := p.secrets.CheckOwner(ctx); err != nil {
		if gone := ensure.Stopped(err); gone != nil {
			return p.stop(framework.ConditionUnknown(typeKey, gone.Reason, gone.Message), gone.After)
		}
		return err
	}
	intent := Record{Name: name, OrganizationID: w.org.ID.String(), TagsHash: w.tagsHash}
	if p.stored.intent == nil || *p.stored.intent != intent {
		p.stored.intent = &intent
		if err := p.save(ctx, p.stored); err != nil {
			return err
		}
	}
	text, err := api.CreateProvisionerKey(ctx, w.org.ID, name, w.tags)
	if coderd.IsConflict(err) {
		// The name was free in the list above, so another client created this key.
		return p.nameTaken(ctx, name, w)
	}
	if err != nil {
		return p.answered(err)
	}
	key, err := api.CheckProvisionerKey(ctx, text)
	if err != nil {
		return p.answered(err)
	}
	return p.store(ctx, text, recordOf(key, w.tagsHash, p.Clock.Now()), why, w)
}

// store writes a new key to the Secret. The previous key is deleted when no pod uses it.
func (p *pass) store(ctx context.Context, text string, r Record, why string, w wanted) error {
	s := p.stored
	old := s.record
	s.text, s.record, s.intent = text, &r, nil
	if old != nil {
		s.replace(old)
	}
	ensure.SetValue(s.secret, s.field, s.text)
	if err := p.save(ctx, s); err != nil {
		return err
	}
	reason := coderv1alpha1.ReasonProvisionerKeyCreated
	if old != nil {
		reason = coderv1alpha1.ReasonProvisionerKeyRotated
	}
	p.result.Events.Normal(reason, fmt.Sprintf("created provisioner key %q in organization %q, because %s", r.Name, w.org.Name, why))
	return nil
}

// recoverLost prepares a new Secret if there is none, and finds the keys of one that was deleted. The
// status contains the id of the last key, and the pods contain the ids of the keys that they use.
func (p *pass) recoverLost(ctx context.Context, keys []coderd.ProvisionerKey) error {
	if p.stored == nil {
		secret, err := p.secrets.New(resources.KeySecretName(p.cr))
		if err != nil {
			return err
		}
		p.stored = readStored(secret, resources.KeySecretKey(p.cr))
	}
	s := p.stored
	if r := statusRecord(p.cr); r != nil {
		s.replace(r)
	}
	if s.record != nil || len(keys) == 0 {
		return nil
	}
	usage, err := p.req.Usage(ctx)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if slices.Contains(usage.KeyIDs, k.ID.String()) {
			found := recordOf(k, "", p.Clock.Now())
			s.replace(&found)
		}
	}
	return nil
}

func statusRecord(cr *coderv1alpha1.CoderProvisioner) *Record {
	status := cr.Status
	if status.ProvisionerKeyID == "" {
		return nil
	}
	return &Record{
		ID: status.ProvisionerKeyID, Name: status.ProvisionerKeyName,
		OrganizationID: status.OrganizationID,
	}
}

// nameTaken drops the intent, because the key that now has the name belongs to another owner.
func (p *pass) nameTaken(ctx context.Context, name string, w wanted) error {
	if p.stored.intent != nil {
		p.stored.intent = nil
		if err := p.save(ctx, p.stored); err != nil {
			return err
		}
	}
	return p.refuse(coderv1alpha1.ReasonKeyNameTaken, fmt.Sprintf(
		"organization %q of Coder has a provisioner key %q that this CoderProvisioner did not create, so it was not changed; choose another spec.key.name, or delete that key in Coder",
		w.org.Name, name))
}

// resolveIntent deletes the key that an intent may have left in Coder, because its text is lost.
// Afterwards the operator owns no key of that name except one in its record.
func (p *pass) resolveIntent(ctx context.Context, s *stored) error {
	api, gone, err := p.reach(ctx)
	if err == nil && !gone {
		err = p.deleteOrphan(ctx, api, s)
	}
	if ensure.IsUnavailable(err) {
		return p.unavailable(ensure.Stopped(err))
	}
	return p.answered(err)
}

// deleteOrphan deletes the key that an intent left. A key with other tags than those of the intent, or one
// that a daemon uses, belongs to another owner.
func (p *pass) deleteOrphan(ctx context.Context, api *coderd.Client, s *stored) error {
	org, err := uuid.Parse(s.intent.OrganizationID)
	if err != nil {
		return nil //nolint:nilerr // An intent that somebody broke names no key.
	}
	keys, err := api.ProvisionerKeys(ctx, org)
	if coderd.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	k := named(keys, s.intent.Name)
	if k == nil || s.knows(k.ID.String()) || resources.TagsHash(k.Tags) != s.intent.TagsHash {
		return nil
	}
	daemons, err := api.ProvisionerDaemons(ctx, org)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(daemons, func(d coderd.ProvisionerDaemon) bool { return d.KeyID == k.ID }) {
		return nil
	}
	return ignoreNotFound(api.DeleteProvisionerKey(ctx, org, k.Name))
}

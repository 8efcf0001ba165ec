package records

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	recordsv1alpha1 "github.com/coder-k8s/coder-k8s/api/records/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// Keeper implements metadata.Records. It stores the metadata that Coder cannot store in the records
// of the objects.
type Keeper struct {
	stores map[string]*Store
}

var _ metadata.Records = (*Keeper)(nil)

// NewKeeper returns a Keeper on the stores of all kinds.
func NewKeeper(stores ...*Store) *Keeper {
	k := &Keeper{stores: map[string]*Store{}}
	for _, s := range stores {
		k.stores[s.config.Kind] = s
	}
	return k
}

// Get implements metadata.Records.
func (k *Keeper) Get(controlPlane types.NamespacedName, uid types.UID) (*metadata.Record, bool) {
	for _, s := range k.stores {
		if h := s.Table.find(controlPlane, uid); h != nil && h.kept != nil {
			return h.kept, true
		}
	}
	return nil, false
}

// List implements metadata.Records.
func (k *Keeper) List(controlPlane types.NamespacedName) []*metadata.Record {
	var all []*metadata.Record
	for _, s := range k.stores {
		for _, h := range s.Table.all(controlPlane) {
			if h.kept != nil {
				all = append(all, h.kept)
			}
		}
	}
	return all
}

// PendingFor implements metadata.Records.
func (k *Keeper) PendingFor(controlPlane types.NamespacedName, kind, name string) (*metadata.Record, bool) {
	s := k.stores[kind]
	if s == nil {
		return nil, false
	}
	h := s.Table.get(s.Key(controlPlane.Namespace, name))
	if h == nil || h.entry != nil || h.spec.ID != "" || h.controlPlane != controlPlane {
		return nil, false
	}
	return h.kept, true
}

// OnChange implements metadata.Records.
func (k *Keeper) OnChange(changed func(record *metadata.Record, gone bool)) {
	for kind, s := range k.stores {
		s.Table.OnChange(func(controlPlane types.NamespacedName, uid types.UID, gone bool) {
			changed(&metadata.Record{ControlPlane: controlPlane, Kind: kind, UID: uid}, gone)
		})
	}
}

// Put implements metadata.Records.
func (k *Keeper) Put(ctx context.Context, record *metadata.Record) (*metadata.Record, error) {
	wanted := record.DeepCopy()
	s, key, err := k.prepare(wanted)
	if err != nil {
		return nil, err
	}
	if w := s.sessionOf(ctx, key); w != nil {
		return w.keep(wanted)
	}
	known := s.Table.get(key)
	if known == nil {
		switch {
		case wanted.Version != "":
			return wanted, kept(wanted, "was removed in the meantime")
		case wanted.IsEmpty():
			return wanted, nil
		}
		known = &held{key: key, controlPlane: wanted.ControlPlane}
		known.spec.ControlPlane, known.spec.ID = wanted.ControlPlane.Name, string(wanted.UID)
	}
	switch {
	case known.controlPlane != wanted.ControlPlane:
		return nil, kept(wanted, fmt.Sprintf("belongs to control plane %q", known.controlPlane.Name))
	case known.kept != nil && metadata.Same(known.kept, wanted):
		return known.kept, nil
	case known.kept == nil && wanted.Version != "" && wanted.Version != formatRevision(known.revision),
		known.kept != nil && wanted.Version != known.kept.Version:
		return nil, kept(wanted, "was changed in the meantime")
	}
	if wanted.IsEmpty() && known.entry == nil && !wanted.Pending() {
		return emptied(wanted), k.gone(wanted, s.remove(ctx, known))
	}
	return s.keep(ctx, known, wanted)
}

// prepare normalizes a record, and returns its store and key.
func (k *Keeper) prepare(record *metadata.Record) (*Store, string, error) {
	s := k.stores[record.Kind]
	if s == nil {
		return nil, "", apierrors.NewInternalError(fmt.Errorf("the kind %q has no records", record.Kind))
	}
	err := metadata.Normalize(record)
	key := s.keyOf(record)
	if known := s.Table.get(key); apierrors.IsInvalid(err) && known != nil && known.kept != nil && !record.Enlarges(known.kept) {
		// A record of an earlier version may be too large. Its object can be deleted, and changed in Coder.
		err = nil
	}
	return s, key, err
}

// keyOf returns the key of the record of an object, also if the object was renamed in Coder.
func (s *Store) keyOf(record *metadata.Record) string {
	if !record.Pending() {
		if key, ok := s.Table.KeyOf(record.ControlPlane, record.UID); ok {
			return key
		}
	}
	return s.Key(record.ControlPlane.Namespace, record.Name)
}

// keep writes the kept data to a record.
func (s *Store) keep(ctx context.Context, known *held, wanted *metadata.Record) (*metadata.Record, error) {
	next := *known
	var err error
	if next.spec.Kept, err = wanted.Text(); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	next.spec.ID, next.kept = string(wanted.UID), wanted
	h, err := s.update(ctx, &next, nil)
	switch {
	case errors.Is(err, ErrChanged):
		// Read the newer record, in case the watch has not delivered it yet.
		if err := s.Learn(ctx, known.key); err != nil {
			return nil, err
		}
		// The conflicting write may be this one, if its response was lost.
		if now := s.Table.get(known.key); now != nil && now.kept != nil && metadata.Same(now.kept, wanted) {
			return now.kept, nil
		}
		return nil, kept(wanted, "was changed in the meantime")
	case err != nil:
		return nil, err
	case h.kept == nil:
		return emptied(wanted), nil
	}
	return h.kept, nil
}

func emptied(record *metadata.Record) *metadata.Record {
	record.Version = ""
	return record
}

// Bind implements metadata.Records.
func (k *Keeper) Bind(ctx context.Context, pending *metadata.Record, uid types.UID) (*metadata.Record, error) {
	if !pending.Pending() {
		return nil, apierrors.NewInternalError(fmt.Errorf("%s %q already has the id %s", pending.Kind, pending.Name, pending.UID))
	}
	bound := pending.DeepCopy()
	// The key is that of the name. The id may be in another record, if Coder renamed an existing object.
	s, key, err := k.prepare(bound)
	if err != nil {
		return nil, err
	}
	bound.UID = uid
	if w := s.sessionOf(ctx, key); w != nil {
		return w.keep(bound)
	}
	known := s.Table.get(key)
	if known == nil {
		bound.Version = ""
		return k.Put(ctx, bound)
	}
	if known.spec.ID != "" && known.spec.ID != string(uid) || known.controlPlane != bound.ControlPlane {
		return nil, kept(bound, "now belongs to another object")
	}
	return s.keep(ctx, known, bound)
}

// Delete implements metadata.Records.
func (k *Keeper) Delete(ctx context.Context, record *metadata.Record) error {
	s := k.stores[record.Kind]
	if s == nil {
		return nil
	}
	key := s.keyOf(record)
	if w := s.sessionOf(ctx, key); w != nil {
		return w.forget(ctx, record)
	}
	known := s.Table.get(key)
	switch {
	case known == nil || known.kept == nil:
		return nil
	case record.Version != "" && record.Version != known.kept.Version:
		return kept(record, "was changed in the meantime")
	case known.entry == nil:
		return k.gone(record, s.remove(ctx, known))
	}
	nothing := &metadata.Record{ControlPlane: record.ControlPlane, Kind: record.Kind, Name: record.Name, UID: record.UID}
	_, err := s.keep(ctx, known, nothing)
	return err
}

// gone returns the result of a deletion. It is a success if the record is already gone.
func (k *Keeper) gone(record *metadata.Record, err error) error {
	if !errors.Is(err, ErrChanged) {
		return err
	}
	s := k.stores[record.Kind]
	if s.Table.get(s.keyOf(record)) == nil {
		return nil
	}
	return kept(record, "was changed in the meantime")
}

// kept returns the conflict error for a record that was changed since it was read.
func kept(record *metadata.Record, how string) error {
	resource := schema.GroupResource{Group: recordsv1alpha1.GroupVersion.Group, Resource: strings.ToLower(record.Kind) + "records"}
	return apierrors.NewConflict(resource, record.Name, fmt.Errorf("the record of %s %q %s; read it again", record.Kind, record.Name, how))
}

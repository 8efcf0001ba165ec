package records

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

const (
	// claimPatience is how long an unchanged claim of another replica is respected. The time is measured by this
	// replica's clock, from when it first saw the claim. The holder of the claim sends no request to Coder that
	// may end later.
	claimPatience = time.Minute
	// cleanUp is the timeout for removing a claim after its write, and for removing another record of
	// a created object.
	cleanUp = 5 * time.Second
)

// commit executes a write on this replica. b is nil for a creation, wanted is nil for a deletion.
// The result is nil if the object is gone. It returns ErrChanged if the record is not the one that
// the write is based on.
func (s *Store) commit(ctx context.Context, key string, b *basis, wanted Object) (_ *held, err error) {
	// Start the span before taking the lock, so that it includes the wait for another write.
	ctx, span := tracing.Start(ctx, "Decide a write")
	defer func() { tracing.End(span, err) }()
	unlock, err := s.Table.Lock(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("waiting for another write of %s: %w", key, err)
	}
	defer unlock()
	if b == nil || b.revision == 0 {
		return s.create(ctx, key, wanted)
	}
	current := s.Table.get(key)
	if current == nil || current.entry == nil || current.revision != b.revision {
		return nil, ErrChanged
	}
	if waited, err := s.waitFor(ctx, key); waited || err != nil {
		return nil, cmp.Or(err, ErrChanged)
	}
	if twins := s.Table.Twins(current.controlPlane, types.UID(current.spec.ID)); twins != nil {
		return nil, unavailable(ctx, "changing "+key, fmt.Errorf(
			"several records have the id %s: %s; the operator keeps one of them when it next reads it from Coder", current.spec.ID, strings.Join(twins, ", ")))
	}
	w := s.newSession(key, current)
	object, err := w.write(ctx, current.entry.Object, wanted)
	if newer, ok := errors.AsType[*NewerError](err); ok {
		// Store the newer object, and decide again. If the stored object is the same, a newer one would be found again
		// and again, so the error is the conflict.
		h, err := s.settleOn(context.WithoutCancel(ctx), w.next, newer.Object)
		if err == nil && h.revision == current.revision {
			return nil, newer
		}
		return nil, cmp.Or(err, ErrChanged)
	}
	if err != nil {
		return nil, err
	}
	h, err := s.settleOn(context.WithoutCancel(ctx), w.next, object)
	if errors.Is(err, ErrChanged) && w.claimed {
		// A claimed record is overwritten only by hand, or after claimPatience. Another attempt
		// would send the change to Coder twice.
		return nil, overwritten(key)
	}
	if IsRefused(err) && w.claimed {
		return nil, uncertain(key, "changed", err)
	}
	return h, err
}

// waitFor waits while another replica writes the record.
func (s *Store) waitFor(ctx context.Context, key string) (waited bool, err error) {
	for {
		busy, turned := s.Table.foreign(key, s.mine)
		if !busy {
			return waited, nil
		}
		waited = true
		patience := time.NewTimer(claimPatience)
		select {
		case <-turned:
		case <-patience.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
		patience.Stop()
		if err != nil {
			return waited, fmt.Errorf("waiting for another replica's write of %s: %w", key, err)
		}
	}
}

// mine reports whether a claim is from this replica. The caller holds the lock of the key, so such
// a claim is left from an earlier write.
func (s *Store) mine(claim string) bool { return strings.HasPrefix(claim, s.config.Replica+"/") }

// create writes a new object to the system of record.
func (s *Store) create(ctx context.Context, key string, wanted Object) (*held, error) {
	if err := s.Learn(ctx, key); err != nil {
		return nil, err
	}
	if _, err := s.waitFor(ctx, key); err != nil {
		return nil, err
	}
	known := s.Table.get(key)
	if known != nil && known.entry != nil {
		return nil, ErrChanged
	}
	w := s.newSession(key, known)
	object, err := w.write(ctx, nil, wanted)
	if err != nil && w.next.spec.ID != "" && (known == nil || known.spec.ID == "") {
		// The object exists in Coder, and only reading it failed.
		err = uncertain(key, "created", err)
	}
	if err != nil {
		return nil, err
	}
	// The object exists in Coder: record it even if the client has disconnected.
	ctx = context.WithoutCancel(ctx)
	var h *held
	if err = s.removeOthers(ctx, key, object); err == nil {
		h, err = s.put(ctx, key, w.next, object, object.GetName())
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not store the record of a created object", "key", key)
		return nil, uncertain(key, "created", err)
	}
	return h, nil
}

// removeOthers removes the records that have the id of a created object under another key: Coder may
// rename a workspace that it built in advance instead of creating one.
func (s *Store) removeOthers(ctx context.Context, key string, created Object) error {
	namespace, _ := s.Locate(key)
	controlPlane := types.NamespacedName{Namespace: namespace, Name: metadata.ControlPlaneOf(created).Name}
	ctx, cancel := context.WithTimeout(ctx, cleanUp)
	defer cancel()
	others := s.Table.Twins(controlPlane, IDOf(created))
	if known, ok := s.Table.KeyOf(controlPlane, IDOf(created)); ok && others == nil {
		others = []string{known}
	}
	for _, other := range others {
		if other == key {
			continue
		}
		if err := s.removeOther(ctx, other, string(IDOf(created))); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) removeOther(ctx context.Context, other, id string) error {
	unlock, err := s.Table.Lock(ctx, other)
	if err != nil {
		return err
	}
	defer unlock()
	for {
		known := s.Table.get(other)
		if known == nil || known.spec.ID != id {
			return nil
		}
		if err := s.remove(ctx, known); !errors.Is(err, ErrChanged) {
			return err
		}
		if _, err := s.waitFor(ctx, other); err != nil {
			return err
		}
		if err := s.Learn(ctx, other); err != nil {
			return err
		}
	}
}

// Learn reads the record of a key from kube-apiserver, and updates the Table.
func (s *Store) Learn(ctx context.Context, key string) error {
	namespace, name := s.Locate(key)
	// What the Table learns during the request may be newer than the response.
	known := s.Table.get(key)
	record, err := s.config.Cluster.Get(ctx, namespace, name, "")
	switch {
	case isAbsent(err):
		if known != nil {
			s.Table.lose(key, known.revision)
		}
		return nil
	case err != nil:
		return unavailable(ctx, "reading "+key, err)
	}
	if err := s.compare(ctx, known, record.Revision); err != nil {
		return err
	}
	h, err := s.holdShown(ctx, record)
	if err != nil {
		return internal(err)
	}
	s.Table.see(h)
	return nil
}

// settleOn writes or deletes the record as the last step of a write.
func (s *Store) settleOn(ctx context.Context, last *held, object Object) (*held, error) {
	if object == nil {
		return nil, s.remove(ctx, last)
	}
	natural := object.GetName()
	if _, name := s.Locate(last.key); natural == name && last.spec.CoderName != "" {
		// A change of metadata does not read Coder, so the object has its first name. If it was
		// renamed back in Coder, the mirror notices.
		natural = last.spec.CoderName
	}
	return s.put(ctx, last.key, last, object, natural)
}

// put writes an object to its record, and creates the record if necessary. It removes the claim.
// From then on, the Table owns the object. If the names of the objects are derived from Coder,
// natural is the derived name, and the object gets the name of the record.
func (s *Store) put(ctx context.Context, key string, current *held, object Object, natural string) (*held, error) {
	_, name := s.Locate(key)
	if natural != "" {
		object.SetName(name)
	}
	if natural == name {
		natural = ""
	}
	next := &held{key: key}
	if current != nil {
		copied := *current
		next = &copied
	}
	next.spec.Claim = ""
	known := s.Table.get(key)
	if current != nil && current.entry != nil && !current.damaged && current.spec.Claim == "" && current.spec.CoderName == natural &&
		known != nil && known.spec.Kept == current.spec.Kept && s.unchanged(current, object) {
		return current, nil
	}
	next.spec.ID, next.spec.CoderName = string(IDOf(object)), natural
	next.spec.ControlPlane = metadata.ControlPlaneOf(object).Name
	return s.update(ctx, next, object)
}

// update writes a record. If object is nil, the record keeps its object. It returns ErrChanged
// while another replica writes the record, also if the claim came after TryLock.
func (s *Store) update(ctx context.Context, next *held, object Object) (*held, error) {
	if s.Claimed(next.key) {
		return nil, ErrChanged
	}
	if object == nil && next.entry != nil {
		object = next.entry.Object
	}
	namespace, name := s.Locate(next.key)
	record := &Record{Namespace: namespace, Name: name, Revision: next.revision, RecordSpec: next.spec}
	record.Pending = pending(next.kept)
	parts, truncated, err := s.fill(record, object)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if known := s.Table.get(next.key); truncated && !next.lost && known != nil && s.stored(known, record) {
		return known, nil
	}
	return s.Table.write(next.key, func() (*held, error) {
		err := s.config.Files.store(ctx, namespace, parts, next.spec.Files)
		switch {
		case err != nil:
		case record.Revision == 0:
			err = s.config.Cluster.Create(ctx, record)
		case next.lost && record.Files != "":
			// The record may have all this already. A write that changes nothing is no event, so the other
			// replicas would not load the files.
			first := *record
			first.State = repairing
			if err = s.config.Cluster.Update(ctx, &first); err == nil {
				record.Revision = first.Revision
				err = s.config.Cluster.Update(ctx, record)
			}
		default:
			err = s.config.Cluster.Update(ctx, record)
		}
		switch {
		case isOutdated(err, record.Revision):
			return nil, ErrChanged
		case err != nil:
			return nil, failed(ctx, "writing "+next.key, err)
		}
		// Decode the written text: the object in memory may have more than the text.
		h, err := s.hold(ctx, record)
		if err == nil {
			h.sent = true
		}
		return h, err
	})
}

// unchanged reports whether the record already has this object. An update without changes must not
// increment the revision: clients that write again after each change would never stop.
func (s *Store) unchanged(current *held, object Object) bool {
	if current.entry.Object == object {
		return true
	}
	was := current.entry.Object.DeepCopyObject()
	is := object.DeepCopyObject()
	return s.versioner.PrepareObjectForStorage(was) == nil && s.versioner.PrepareObjectForStorage(is) == nil &&
		equality.Semantic.DeepEqual(was, is)
}

// remove deletes the record as the last step of a deletion. Like update, it returns ErrChanged
// while another replica writes the record.
func (s *Store) remove(ctx context.Context, last *held) error {
	if s.Claimed(last.key) {
		return ErrChanged
	}
	namespace, name := s.Locate(last.key)
	err := s.config.Cluster.Delete(ctx, namespace, name, last.revision)
	if isAbsent(err) {
		s.Table.lose(last.key, last.revision)
	}
	switch {
	case isOutdated(err, last.revision):
		return ErrChanged
	case err != nil:
		return failed(ctx, "removing "+last.key, err)
	}
	s.Table.bury(last.key, last.revision)
	return nil
}

package records

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
)

const (
	// heartbeatPrefix begins the names of records that are no objects. No object has
	// such a name: theirs have a dot.
	heartbeatPrefix = "heartbeat-"
	// heartbeatEvery is the least time between two of them.
	heartbeatEvery = 5 * time.Millisecond
	// silentFor is how long a heartbeat does not change until its replica counts as gone.
	silentFor = time.Hour
	// heartbeatAttempts bounds how often one is tried that somebody else has changed.
	heartbeatAttempts = 5
)

func isHeartbeat(name string) bool {
	return strings.HasPrefix(name, heartbeatPrefix) && !strings.Contains(name, ".")
}

// heartbeat is a small record of the same resource. What was acknowledged before it is
// written has a lower revision, and the watch shows it before it shows the heartbeat.
// All who wait share a write: who comes while one is under way waits for the next.
type heartbeat struct {
	cluster Cluster
	record  Record

	mutex   sync.Mutex
	running bool
	next    *beat
	// written and seen are the newest revisions that were written, and that the watch
	// has shown.
	written, seen atomic.Uint64
	// others are the heartbeats that the last sweep found.
	others map[string]silence
}

// silence is since when a heartbeat has a revision, by the clock of this replica.
type silence struct {
	revision uint64
	since    time.Time
}

type beat struct {
	done     chan struct{}
	revision uint64
	err      error
}

func newHeartbeat(cluster Cluster, namespace, replica string) *heartbeat {
	name := heartbeatPrefix + strings.ReplaceAll(replica, ".", "-")
	return &heartbeat{cluster: cluster, record: Record{Namespace: namespace, Name: name}}
}

// now gives a revision that is not lower than that of any write that was acknowledged
// before.
func (h *heartbeat) now(ctx context.Context) (uint64, error) {
	h.mutex.Lock()
	if h.next == nil {
		h.next = &beat{done: make(chan struct{})}
	}
	mine := h.next
	if !h.running {
		h.running = true
		// It is shared, so it does not end with who asked first.
		go h.run(context.WithoutCancel(ctx))
	}
	h.mutex.Unlock()
	select {
	case <-mine.done:
		if mine.err != nil {
			return 0, unavailable(ctx, "reading what is newest", mine.err)
		}
		return mine.revision, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (h *heartbeat) run(ctx context.Context) {
	for {
		h.mutex.Lock()
		b := h.next
		h.next = nil
		h.running = b != nil
		h.mutex.Unlock()
		if b == nil {
			return
		}
		pause := time.NewTimer(heartbeatEvery)
		b.revision, b.err = h.write(ctx)
		close(b.done)
		<-pause.C
	}
}

// write is called by one at a time.
func (h *heartbeat) write(ctx context.Context) (uint64, error) {
	for range heartbeatAttempts {
		r := h.record
		// An update that changes nothing would get no revision.
		r.State = time.Now().UTC().Format(time.RFC3339Nano)
		var err error
		if r.Revision == 0 {
			err = h.cluster.Create(ctx, &r)
		} else {
			err = h.cluster.Update(ctx, &r)
		}
		switch {
		case err == nil:
			h.record.Revision = r.Revision
			h.written.Store(r.Revision)
			return r.Revision, nil
		case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
			found, err := h.cluster.Get(ctx, r.Namespace, r.Name, "")
			if err != nil {
				return 0, err
			}
			h.record.Revision = found.Revision
		case apierrors.IsNotFound(err) && r.Revision != 0:
			h.record.Revision = 0
		default:
			// Whether it was written is not known, so its revision is not either.
			return 0, err
		}
	}
	return 0, fmt.Errorf("record %s/%s is changed again and again by somebody else", h.record.Namespace, h.record.Name)
}

// progress is asked for while somebody waits for the watch. There is nothing to do as
// long as it has still to show what was written last.
func (h *heartbeat) progress(ctx context.Context) {
	if h.seen.Load() < h.written.Load() {
		return
	}
	go func() {
		if _, err := h.now(context.WithoutCancel(ctx)); err != nil {
			klog.FromContext(ctx).V(2).Info("Writing a heartbeat", "error", err.Error())
		}
	}()
}

// shown takes note of what the watch shows.
func (h *heartbeat) shown(record *Record) {
	if record.Name == h.record.Name && record.Namespace == h.record.Namespace {
		h.seen.Store(record.Revision)
	}
}

// sweep removes heartbeats that replicas left behind which were killed. One that lives,
// and was asked nothing for so long, creates its own again. It is called by one at a time.
func (h *heartbeat) sweep(ctx context.Context, now time.Time) error {
	list, err := h.cluster.List(ctx, Query{Namespace: h.record.Namespace})
	if err != nil {
		return fmt.Errorf("listing the heartbeats of replicas: %w", err)
	}
	before := h.others
	h.others = map[string]silence{}
	var errs []error
	for i := range list.Records {
		other := &list.Records[i]
		if !isHeartbeat(other.Name) || other.Name == h.record.Name {
			continue
		}
		last, known := before[other.Name]
		if !known || last.revision != other.Revision {
			last = silence{revision: other.Revision, since: now}
		}
		h.others[other.Name] = last
		if now.Sub(last.since) < silentFor {
			continue
		}
		// Not if it has changed since.
		err := h.cluster.Delete(ctx, other.Namespace, other.Name, other.Revision)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("removing the heartbeat %s/%s of a replica that is gone: %w", other.Namespace, other.Name, err))
		}
	}
	return errors.Join(errs...)
}

// end removes the record, when the replica ends.
func (h *heartbeat) end(ctx context.Context) error {
	revision := h.written.Load()
	if revision == 0 {
		return nil
	}
	err := h.cluster.Delete(ctx, h.record.Namespace, h.record.Name, revision)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

package records

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// heartbeatPrefix is the prefix of the names of heartbeats. The name of a user may have it too.
	heartbeatPrefix = "heartbeat-"
	// heartbeatEvery is the minimum interval between two heartbeats. With 5 ms, thirty mixed clients got about a
	// tenth fewer responses: kube-apiserver needs as much processor time for a heartbeat as for three reads. A client
	// that sends one list after the other gets at most 66 responses per second.
	heartbeatEvery = 15 * time.Millisecond
	// silentFor is how long a heartbeat must be unchanged before its replica counts as gone.
	silentFor = time.Hour
	// heartbeatAttempts limits the attempts to write a heartbeat after conflicts.
	heartbeatAttempts = 5
	// deletionShown is how long the watch may take to deliver the deletion of a heartbeat.
	deletionShown = 3 * time.Second
)

// isHeartbeat reports whether a record is a heartbeat: its name has the prefix, and its only content is
// a State. The record of an object has more.
func isHeartbeat(r *Record) bool {
	return strings.HasPrefix(r.Name, heartbeatPrefix) && !strings.Contains(r.Name, ".") && r.RecordSpec == spec{State: r.State}
}

// heartbeat is a small record of the same resource. Writes that were acknowledged before the
// heartbeat is written have a lower revision, and the watch delivers them before the heartbeat.
// Concurrent callers share a write. A caller that arrives during a write waits for the next one.
type heartbeat struct {
	cluster Cluster
	clock   clock.PassiveClock
	record  Record
	// count is the number of attempts to write it.
	count uint64

	mutex   sync.Mutex
	running bool
	next    *beat
	// written is the newest revision that was written, and seen the newest one that the watch has
	// delivered.
	written, seen atomic.Uint64
	// newest is the newest revision that this replica has received from the cluster in any way.
	newest atomic.Uint64
	// restored receives the error that says that the cluster went back to an earlier state.
	restored chan error
	// others are the heartbeats that the last sweep found.
	others map[string]silence
}

// silence is the time since when a heartbeat has a revision, by the clock of this replica.
type silence struct {
	revision uint64
	since    time.Time
}

type beat struct {
	done     chan struct{}
	revision uint64
	err      error
}

func newHeartbeat(cluster Cluster, c clock.PassiveClock, namespace, replica string) *heartbeat {
	name := heartbeatPrefix + strings.ReplaceAll(replica, ".", "-")
	return &heartbeat{cluster: cluster, clock: c, record: Record{Namespace: namespace, Name: name}, others: map[string]silence{}, restored: make(chan error, 1)}
}

// saw records a revision that this replica has received.
func (h *heartbeat) saw(revision uint64) {
	for {
		known := h.newest.Load()
		if known >= revision || h.newest.CompareAndSwap(known, revision) {
			return
		}
	}
}

// wentBack reports that a quorum read or a write returned a revision that is lower than an earlier one, or 0 for
// a record that is gone although nobody deleted it, and returns the error. Revisions of etcd only grow, so it was
// restored from a backup, or replaced.
func (h *heartbeat) wentBack(what string, known, now uint64) error {
	err := fmt.Errorf("%w: %s has the resource version %d after %d", errRestored, what, now, known)
	if now == 0 {
		err = fmt.Errorf("%w: %s had the resource version %d, and does not exist", errRestored, what, known)
	}
	select {
	case h.restored <- err:
	default:
	}
	return err
}

// verify writes a heartbeat, which shows whether the cluster went back to an earlier state.
func (h *heartbeat) verify(ctx context.Context) {
	go func() {
		if _, err := h.now(context.WithoutCancel(ctx)); err != nil {
			klog.FromContext(ctx).V(2).Info("Could not write a heartbeat", "error", err.Error())
		}
	}()
}

// now returns a revision that is not lower than that of any write that was acknowledged before the
// call.
func (h *heartbeat) now(ctx context.Context) (uint64, error) {
	h.mutex.Lock()
	if h.next == nil {
		h.next = &beat{done: make(chan struct{})}
	}
	mine := h.next
	if !h.running {
		h.running = true
		// The write is shared, so it must not be canceled with the first caller's context.
		go h.run(context.WithoutCancel(ctx))
	}
	h.mutex.Unlock()
	select {
	case <-mine.done:
		if mine.err != nil {
			return 0, unavailable(ctx, "reading the newest resource version", mine.err)
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

// write writes the heartbeat. It must not be called concurrently.
func (h *heartbeat) write(ctx context.Context) (uint64, error) {
	newest := h.newest.Load()
	for range heartbeatAttempts {
		r := h.record
		// An update without changes would not get a new revision. The time alone does not ensure a
		// change: the clock may be set back.
		h.count++
		r.State = fmt.Sprintf("%s %d", h.clock.Now().UTC().Format(time.RFC3339Nano), h.count)
		var err error
		if r.Revision == 0 {
			err = h.cluster.Create(ctx, &r)
		} else {
			err = h.cluster.Update(ctx, &r)
		}
		switch {
		case err == nil && r.Revision == h.record.Revision:
			// A previous process wrote the same text, so nothing was written now.
		case err == nil && r.Revision <= newest:
			return 0, h.wentBack("a new heartbeat", newest, r.Revision)
		case err == nil:
			h.saw(r.Revision)
			h.record.Revision = r.Revision
			h.written.Store(r.Revision)
			return r.Revision, nil
		case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
			found, err := h.cluster.Get(ctx, r.Namespace, r.Name, "")
			if err != nil {
				return 0, err
			}
			if found.Revision < h.record.Revision {
				return 0, h.wentBack("the heartbeat of this replica", h.record.Revision, found.Revision)
			}
			h.record.Revision = found.Revision
		case apierrors.IsNotFound(err) && r.Revision != 0:
			// If somebody has deleted it, the watch delivers that, a little later, or more when it was just opened again.
			// The other revisions may be greater than before the restore already: kube-apiserver and its clients write
			// much when it starts again. A heartbeat of an earlier process, which this one only found, shows nothing.
			shown := func(context.Context) (bool, error) { return h.seen.Load() > r.Revision, nil }
			if h.written.Load() != 0 && wait.PollUntilContextTimeout(ctx, heartbeatEvery, deletionShown, true, shown) != nil {
				return 0, h.wentBack("the heartbeat of this replica", r.Revision, 0)
			}
			h.record.Revision = 0
		default:
			// It is not known whether it was written, so its revision is not known either.
			return 0, err
		}
	}
	return 0, fmt.Errorf("record %s/%s is changed repeatedly by another client", h.record.Namespace, h.record.Name)
}

// shown records that the watch has delivered a heartbeat of this replica, or its deletion.
func (h *heartbeat) shown(record *Record) {
	if record.Name == h.record.Name && record.Namespace == h.record.Namespace {
		h.seen.Store(record.Revision)
	}
}

// sweep deletes the heartbeats of replicas that were killed: a replica that is alive writes one every
// verifyEvery. sweep must not be called concurrently.
func (h *heartbeat) sweep(ctx context.Context, now time.Time) error {
	before := h.others
	h.others = map[string]silence{}
	var errs []error
	for other, err := range every(ctx, h.cluster, Query{Namespace: h.record.Namespace, Limit: pageSize}) {
		if err != nil {
			errs = append(errs, fmt.Errorf("listing the heartbeats of replicas: %w", err))
			// Keep what is known about those that were not listed.
			maps.Copy(before, h.others)
			h.others = before
			break
		}
		if !isHeartbeat(other) || other.Name == h.record.Name {
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
		// The precondition fails if it has changed since.
		err = h.cluster.Delete(ctx, other.Namespace, other.Name, other.Revision)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("removing the heartbeat %s/%s of a stopped replica: %w", other.Namespace, other.Name, err))
		}
	}
	return errors.Join(errs...)
}

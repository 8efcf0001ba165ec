package objectlog

import (
	"sort"
	"time"

	"k8s.io/utils/third_party/forked/golang/btree"
)

const (
	defaultHistory       = 4096
	defaultSnapshotEvery = 1024
	maxHistoryFactor     = 4
)

// record is an event as the history keeps it: small, because there are many. The
// entry of a removal has no object.
type record struct {
	entry, previous *Entry
	time            time.Time
}

func (r *record) event() Event {
	return Event{
		Change:   Change{Key: r.entry.Key, Revision: r.entry.Revision, Object: r.entry.Object, Time: r.time},
		Previous: r.previous,
	}
}

// snapshot is the state right after an event.
type snapshot struct {
	revision uint64
	tree     *btree.BTree[*Entry]
}

// history is what happened after the floor. A tree for each event would cost 3.6
// kB for each; so there is one in many, and what lies between is undone from it.
// The lock of the log guards it.
type history struct {
	size, maxSize, every int
	floor                uint64
	// records are in the order of revisions, all greater than the floor.
	records []record
	// added counts the records since the last snapshot.
	added     int
	snapshots []snapshot
}

func newHistory(config Config) history {
	h := history{size: config.History, maxSize: config.MaxHistory, every: config.SnapshotEvery}
	if h.size <= 0 {
		h.size = defaultHistory
	}
	if h.maxSize <= 0 {
		h.maxSize = maxHistoryFactor * h.size
	}
	h.maxSize = max(h.size, h.maxSize)
	if h.every <= 0 {
		h.every = defaultSnapshotEvery
	}
	return h
}

// reset forgets everything up to the revision.
func (h *history) reset(floor uint64) {
	h.floor, h.added = floor, 0
	h.records, h.snapshots = nil, nil
}

// add says whether it is time for a snapshot.
func (h *history) add(r record) bool {
	h.records = append(h.records, r)
	h.added++
	return h.added >= h.every
}

// keep takes the state after the last record.
func (h *history) keep(tree *btree.BTree[*Entry]) {
	h.added = 0
	h.snapshots = append(h.snapshots, snapshot{revision: h.records[len(h.records)-1].entry.Revision, tree: tree})
}

// after is the index of the first record after a revision.
func (h *history) after(revision uint64) int {
	return sort.Search(len(h.records), func(i int) bool { return h.records[i].entry.Revision > revision })
}

func (h *history) since(revision uint64, limit int) []Event {
	from := h.after(revision)
	to := min(from+limit, len(h.records))
	if from == to {
		return nil
	}
	events := make([]Event, 0, to-from)
	for i := from; i < to; i++ {
		events = append(events, h.records[i].event())
	}
	return events
}

// at gives the state at a revision not below the floor, as a tree of its own.
// live is the state after the last record.
func (h *history) at(revision uint64, live *btree.BTree[*Entry]) *btree.BTree[*Entry] {
	tree, last := live, len(h.records)
	next := sort.Search(len(h.snapshots), func(i int) bool { return h.snapshots[i].revision >= revision })
	if next < len(h.snapshots) {
		tree, last = h.snapshots[next].tree, h.after(h.snapshots[next].revision)
	}
	tree = tree.Clone()
	for i := last - 1; i >= 0 && h.records[i].entry.Revision > revision; i-- {
		if previous := h.records[i].previous; previous != nil {
			tree.ReplaceOrInsert(previous)
		} else {
			tree.Delete(h.records[i].entry)
		}
	}
	return tree
}

// trim gives up the oldest events once there are a quarter more than needed, but
// none after slowest, which the slowest live watch has read, unless there are too
// many.
func (h *history) trim(slowest uint64) {
	if len(h.records) <= h.size+h.size/4 {
		return
	}
	drop := len(h.records) - h.size
	if len(h.records) <= h.maxSize {
		drop = min(drop, h.after(slowest))
	}
	// A few at a time would move the rest too often.
	if drop >= h.size/4 {
		h.compact(h.records[drop-1].entry.Revision)
	}
}

// compact makes a revision the floor.
func (h *history) compact(floor uint64) {
	if floor <= h.floor {
		return
	}
	// What is given up goes with its array, so that nothing keeps its objects.
	h.records = append([]record(nil), h.records[h.after(floor):]...)
	first := sort.Search(len(h.snapshots), func(i int) bool { return h.snapshots[i].revision >= floor })
	h.snapshots = append([]snapshot(nil), h.snapshots[first:]...)
	h.floor = floor
}

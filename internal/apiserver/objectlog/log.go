package objectlog

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"k8s.io/utils/third_party/forked/golang/btree"
)

// treeDegree makes nodes of at most 63 entries, about half a kilobyte of
// pointers: that much is copied for a change after a snapshot.
const treeDegree = 32

// Config tunes a Log. Its zero value is good for production.
type Config struct {
	// History is how many events are kept for readers who are late. 0 means 4096.
	History int
	// MaxHistory is how many are kept at most for a watch that does not keep up; it
	// gets 410 afterwards. 0 means four times History.
	MaxHistory int
	// SnapshotEvery is after how many events the whole state is kept too, from which
	// exact revisions are rebuilt. 0 means 1024.
	SnapshotEvery int
}

// Log holds the objects of one kind, all namespaces, and their history.
type Log struct {
	locks locks

	mutex       sync.RWMutex
	initialized bool
	// epoch counts resets: who read before one has lost history.
	epoch uint64
	head  uint64
	live  *btree.BTree[*Entry]
	// view is a copy of live for readers, made when the first one asks for it after a
	// change.
	view    *btree.BTree[*Entry]
	history history
	cursors map[*Cursor]struct{}
	// changed is closed at the next change. It is nil while nobody waits.
	changed chan struct{}
}

// New gives an empty log that is not initialized.
func New(config Config) *Log {
	tree := newTree()
	return &Log{
		locks:   locks{held: map[string]*keyLock{}},
		live:    tree,
		history: newHistory(config),
		cursors: map[*Cursor]struct{}{},
	}
}

func newTree() *btree.BTree[*Entry] {
	return btree.New(treeDegree, func(a, b *Entry) bool { return a.Key < b.Key })
}

// Initialized says whether the log has ever been filled. Before that an empty
// answer would be a lie.
func (l *Log) Initialized() bool {
	l.mutex.RLock()
	defer l.mutex.RUnlock()
	return l.initialized
}

// Head is the newest revision.
func (l *Log) Head() uint64 {
	l.mutex.RLock()
	defer l.mutex.RUnlock()
	return l.head
}

// Len is the number of objects.
func (l *Log) Len() int {
	l.mutex.RLock()
	defer l.mutex.RUnlock()
	return l.live.Len()
}

// Floor is the oldest revision that can still be read and watched from.
func (l *Log) Floor() uint64 {
	l.mutex.RLock()
	defer l.mutex.RUnlock()
	return l.history.floor
}

// Get gives the newest entry of a key, or nil.
func (l *Log) Get(key string) *Entry {
	entry, _ := l.get(key)
	return entry
}

// get gives the head with the entry, so that both belong together.
func (l *Log) get(key string) (*Entry, uint64) {
	l.mutex.RLock()
	defer l.mutex.RUnlock()
	entry, _ := l.live.Get(&Entry{Key: key})
	return entry, l.head
}

// Scan calls f for each entry whose key has the prefix, in the order of keys,
// until it gives false. It shows one revision, which it returns.
func (l *Log) Scan(prefix string, f func(*Entry) bool) uint64 {
	tree, head := l.state()
	ascend(tree, prefix, prefix, f)
	return head
}

// Snapshot gives all entries in the order of keys, and the head.
func (l *Log) Snapshot() ([]*Entry, uint64) {
	tree, head := l.state()
	return entriesOf(tree), head
}

// Origin gives all entries as they were at the floor, and the floor. Since of the
// floor leads from there to the head: a replica that starts so shows all of the
// history too.
func (l *Log) Origin() ([]*Entry, uint64) {
	l.mutex.Lock()
	floor := l.history.floor
	tree := l.rebuildLocked(floor)
	l.mutex.Unlock()
	return entriesOf(tree), floor
}

// Since gives up to limit events after a revision. It is not ok where the history
// does not reach back so far.
func (l *Log) Since(revision uint64, limit int) (events []Event, ok bool) {
	l.mutex.RLock()
	defer l.mutex.RUnlock()
	if revision < l.history.floor {
		return nil, false
	}
	return l.history.since(revision, limit), true
}

// Append takes over changes that were decided, in the order of their revisions.
// It takes all of them or none.
func (l *Log) Append(changes ...Change) error {
	if len(changes) == 0 {
		return nil
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	before := l.head
	for i := range changes {
		if changes[i].Revision <= before {
			return fmt.Errorf("appending a change of %s: its revision %d is not greater than %d, the one before",
				changes[i].Key, changes[i].Revision, before)
		}
		before = changes[i].Revision
	}
	for i := range changes {
		l.appendLocked(&changes[i])
	}
	l.initialized = true
	l.history.trim(l.slowestLocked())
	l.wakeLocked()
	return nil
}

func (l *Log) appendLocked(change *Change) {
	entry := &Entry{Key: change.Key, Revision: change.Revision, Object: change.Object}
	var previous *Entry
	if change.Object == nil {
		previous, _ = l.live.Delete(entry)
	} else {
		stamp(change.Object, change.Revision)
		previous, _ = l.live.ReplaceOrInsert(entry)
	}
	l.head = change.Revision
	l.view = nil
	if l.history.add(record{entry: entry, previous: previous, time: change.Time}) {
		l.history.keep(l.live.Clone())
	}
}

// Reset makes the log hold exactly these entries, at head. All history is lost:
// who reads or watches an older revision gets 410. The head never moves back.
func (l *Log) Reset(entries []*Entry, head uint64) error {
	tree := newTree()
	for _, entry := range entries {
		if entry.Revision > head {
			return fmt.Errorf("resetting the log: %s has revision %d, which is greater than the head %d", entry.Key, entry.Revision, head)
		}
		tree.ReplaceOrInsert(entry)
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if head < l.head {
		return fmt.Errorf("resetting the log: the new head %d is less than the head %d, which clients have seen", head, l.head)
	}
	l.live, l.view = tree, nil
	l.head = head
	l.epoch++
	l.initialized = true
	l.history.reset(head)
	l.wakeLocked()
	return nil
}

// Lock waits for the lock of a key.
func (l *Log) Lock(ctx context.Context, key string) (unlock func(), err error) {
	return l.locks.lock(ctx, key)
}

// TryLock takes the lock of a key if it is free.
func (l *Log) TryLock(key string) (unlock func(), ok bool) {
	return l.locks.tryLock(key)
}

// state gives the entries at the head. The tree is shared: nobody writes to it.
func (l *Log) state() (*btree.BTree[*Entry], uint64) {
	l.mutex.RLock()
	view, head := l.view, l.head
	l.mutex.RUnlock()
	if view != nil {
		return view, head
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.view == nil {
		l.view = l.live.Clone()
	}
	return l.view, l.head
}

// stateAt gives the entries at a revision. It is not ok where the history does not
// reach back so far.
func (l *Log) stateAt(revision uint64) (tree *btree.BTree[*Entry], head uint64, ok bool) {
	tree, head = l.state()
	if revision >= head {
		return tree, head, true
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if revision < l.history.floor {
		return nil, l.head, false
	}
	return l.rebuildLocked(revision), l.head, true
}

// rebuildLocked undoes events on a copy of the next snapshot.
func (l *Log) rebuildLocked(revision uint64) *btree.BTree[*Entry] {
	return l.history.at(revision, l.live)
}

func ascend(tree *btree.BTree[*Entry], prefix, from string, f func(*Entry) bool) {
	tree.AscendGreaterOrEqual(&Entry{Key: from}, func(entry *Entry) bool {
		return strings.HasPrefix(entry.Key, prefix) && f(entry)
	})
}

func entriesOf(tree *btree.BTree[*Entry]) []*Entry {
	entries := make([]*Entry, 0, tree.Len())
	tree.Ascend(func(entry *Entry) bool {
		entries = append(entries, entry)
		return true
	})
	return entries
}

// stamp writes the revision into an object that nobody reads yet. Where the
// object has it already, others may read it.
func stamp(object Object, revision uint64) {
	version := strconv.FormatUint(revision, 10)
	if object.GetResourceVersion() != version {
		object.SetResourceVersion(version)
	}
}

// removal is the revision at which a key was removed that had the given one, or
// the head where the history does not tell.
func (l *Log) removal(key string, before uint64) uint64 {
	l.mutex.RLock()
	defer l.mutex.RUnlock()
	records := l.history.records
	for i := len(records) - 1; i >= 0 && records[i].entry.Revision > before; i-- {
		entry := records[i].entry
		if entry.Key == key && entry.Object == nil {
			return entry.Revision
		}
	}
	return l.head
}

package objectlog

import (
	"sync"

	"k8s.io/utils/third_party/forked/golang/btree"
)

// Cursor reads the events of a log one after the other. The log keeps what it has
// not read yet, within limits. It is for one goroutine, but for Close.
type Cursor struct {
	log   *Log
	epoch uint64
	// position is the revision up to which everything was read. The log's lock guards
	// it.
	position uint64
	close    func()
}

// Follow gives a cursor that reads what comes after a revision. It must be closed.
func (l *Log) Follow(revision uint64) *Cursor {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.followLocked(revision)
}

func (l *Log) followLocked(revision uint64) *Cursor {
	cursor := &Cursor{log: l, epoch: l.epoch, position: revision}
	cursor.close = sync.OnceFunc(func() {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		delete(l.cursors, cursor)
	})
	l.cursors[cursor] = struct{}{}
	return cursor
}

// Read gives up to limit events and moves on behind them. No event means that the
// cursor has arrived at the head. It is not ok where the history was lost.
func (c *Cursor) Read(limit int) (events []Event, ok bool) {
	c.log.mutex.Lock()
	defer c.log.mutex.Unlock()
	if c.epoch != c.log.epoch || c.position < c.log.history.floor {
		return nil, false
	}
	events = c.log.history.since(c.position, limit)
	switch {
	case len(events) == limit:
		c.position = events[limit-1].Revision
	case c.position < c.log.head:
		c.position = c.log.head
	}
	return events, true
}

// Position is the revision up to which everything was read.
func (c *Cursor) Position() uint64 {
	c.log.mutex.RLock()
	defer c.log.mutex.RUnlock()
	return c.position
}

// Close lets the log give up what only this cursor needed.
func (c *Cursor) Close() { c.close() }

// slowestLocked is the revision up to which all cursors have read.
func (l *Log) slowestLocked() uint64 {
	slowest := l.head
	for cursor := range l.cursors {
		if cursor.epoch == l.epoch {
			slowest = min(slowest, cursor.position)
		}
	}
	return slowest
}

// Lag is how many events the slowest cursor has not read.
func (l *Log) Lag() int {
	l.mutex.RLock()
	defer l.mutex.RUnlock()
	slowest := l.slowestLocked()
	if slowest >= l.head {
		return 0
	}
	return len(l.history.records) - l.history.after(slowest)
}

// followOldest gives a cursor at the floor, and the head.
func (l *Log) followOldest() (*Cursor, uint64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.followLocked(l.history.floor), l.head
}

// followHead gives the state at the head and a cursor that goes on from it.
func (l *Log) followHead() (*btree.BTree[*Entry], *Cursor) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.view == nil {
		l.view = l.live.Clone()
	}
	return l.view, l.followLocked(l.head)
}

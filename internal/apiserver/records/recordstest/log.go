package recordstest

import (
	"encoding/json"
	"sync"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
)

// Log tells what happened to the objects of one kind. What changes only beside them is
// no event of it.
type Log struct {
	Store   *records.Store
	cluster *Cluster
	create  func() records.Object

	mu     sync.Mutex
	read   int
	live   map[string]*records.Entry
	texts  map[string]string
	events []LogEvent
}

// LogEvent is one change.
type LogEvent struct {
	Key      string
	Revision uint64
	// Object is nil where it was removed.
	Object   records.Object
	Previous *records.Entry
}

// Log gives the log of a kind: of the objects of a Store.
func (r *Records) Log(store *records.Store, create func() records.Object) *Log {
	return &Log{Store: store, cluster: r.clusters[store.Kind()], create: create, live: map[string]*records.Entry{}, texts: map[string]string{}}
}

func (l *Log) follow() {
	l.cluster.etcd.mu.Lock()
	news := l.cluster.events[l.read:]
	l.cluster.etcd.mu.Unlock()
	l.read += len(news)
	for i := range news {
		record := &news[i].Record
		key := l.Store.Key(record.Namespace, record.Name)
		event := LogEvent{Key: key, Revision: uint64(len(l.events) + 1), Previous: l.live[key]}
		switch {
		case news[i].Type == watch.Deleted && event.Previous != nil:
			delete(l.live, key)
			delete(l.texts, key)
		case news[i].Type == watch.Deleted, record.Object == "", l.texts[key] == record.Object+record.CoderName:
			continue
		default:
			event.Object = l.create()
			if err := json.Unmarshal([]byte(record.Object), event.Object); err != nil {
				panic(err)
			}
			l.live[key] = &records.Entry{Key: key, Revision: event.Revision, Object: event.Object, Natural: record.CoderName}
			l.texts[key] = record.Object + record.CoderName
		}
		l.events = append(l.events, event)
	}
}

// Head is how many events there were.
func (l *Log) Head() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follow()
	return uint64(len(l.events))
}

// Since gives the events after a Head.
func (l *Log) Since(head uint64) []LogEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follow()
	return l.events[head:]
}

// Live are the objects by their keys.
func (l *Log) Live() map[string]*records.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follow()
	out := make(map[string]*records.Entry, len(l.live))
	for key, entry := range l.live {
		out[key] = entry
	}
	return out
}

// Len is how many objects there are.
func (l *Log) Len() int { return len(l.Live()) }

// Get gives the object of a key, or nil.
func (l *Log) Get(key string) *records.Entry { return l.Live()[key] }

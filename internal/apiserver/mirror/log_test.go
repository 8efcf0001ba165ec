package mirror

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records/recordstest"
)

// Log records the changes of the objects of one kind. A change of only the kept metadata is not
// recorded.
type Log struct {
	store   *records.Store
	cluster *recordstest.Cluster
	create  func() records.Object
	read    int
	live    map[string]*records.Entry
	texts   map[string]string
	events  []LogEvent
}

// LogEvent is one change.
type LogEvent struct {
	Key      string
	Revision uint64
	// Object is nil after a deletion.
	Object   records.Object
	Previous *records.Entry
}

// NewLog returns the Log of the objects of a Store.
func NewLog(r *recordstest.Records, store *records.Store, create func() records.Object) *Log {
	return &Log{store: store, cluster: r.Cluster(store.Kind()), create: create, live: map[string]*records.Entry{}, texts: map[string]string{}}
}

func (l *Log) follow() {
	news := l.cluster.Events()[l.read:]
	l.read += len(news)
	for i := range news {
		record := &news[i].Record
		key := l.store.Key(record.Namespace, record.Name)
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

// Head returns the number of events so far.
func (l *Log) Head() uint64 { return uint64(len(l.Since(0))) }

// Since returns the events after a Head.
func (l *Log) Since(head uint64) []LogEvent {
	l.follow()
	return l.events[head:]
}

// Live returns the current objects by their keys.
func (l *Log) Live() map[string]*records.Entry {
	l.follow()
	return l.live
}

// Len returns the number of objects.
func (l *Log) Len() int { return len(l.Live()) }

// Get returns the object of a key, or nil.
func (l *Log) Get(key string) *records.Entry { return l.Live()[key] }

package objectlog

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/utils/third_party/forked/golang/btree"
)

const (
	// readLimit is how many events a watch reads at once.
	readLimit = 256
	// watchBuffer is how many it sends ahead.
	watchBuffer = 100
)

// watcher pulls events from the log at the pace of who receives them. So it is
// never overrun; it ends only where it falls back further than history is kept.
type watcher struct {
	store   *Store
	key     string
	options storage.ListOptions
	cursor  *Cursor
	// initial is the state to begin with, or nil.
	initial *btree.BTree[*Entry]
	// tooLarge is the error of a watch that shall begin after the head.
	tooLarge error
	events   chan watch.Event
	ctx      context.Context //nolint:containedctx // The interface has Stop in place of a context; a watch lives as long as both say.
	cancel   context.CancelFunc
	// asked is sent to when somebody wants to know the progress.
	asked chan struct{}
	// delivered is the revision up to which everything was sent.
	delivered atomic.Uint64
	pacer     pacer
}

var _ watch.Interface = (*watcher)(nil)

// watches are those of a store that are open.
type watches struct {
	mutex sync.Mutex
	open  map[*watcher]struct{}
}

func (w *watches) add(one *watcher) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.open == nil {
		w.open = map[*watcher]struct{}{}
	}
	w.open[one] = struct{}{}
}

func (w *watches) remove(one *watcher) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	delete(w.open, one)
}

// RequestWatchProgress makes the watches that asked for progress tell how far they
// are: the cacher wants to know while a consistent read waits.
func (s *Store) RequestWatchProgress(context.Context) error {
	s.watches.mutex.Lock()
	defer s.watches.mutex.Unlock()
	for w := range s.watches.open {
		if w.options.ProgressNotify {
			select {
			case w.asked <- struct{}{}:
			default:
			}
		}
	}
	return nil
}

// Watch gives the changes under a key. Its only user is the cacher, by way of its
// feed.
func (s *Store) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	w, err := s.watch(ctx, key, options)
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (s *Store) watch(ctx context.Context, key string, options storage.ListOptions) (*watcher, error) {
	key, err := storage.PrepareKey(s.config.Prefix, key, options.Recursive)
	if err != nil {
		return nil, err
	}
	revision, err := s.versioner.ParseResourceVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if err := s.ready(); err != nil {
		return nil, err
	}
	w := &watcher{
		store: s, key: key, options: options,
		events: make(chan watch.Event, watchBuffer),
		asked:  make(chan struct{}, 1),
		pacer:  pacer{clock: s.config.Clock},
	}
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.start(revision)
	s.watches.add(w)
	go w.run()
	utilflowcontrol.WatchInitialized(ctx)
	return w, nil
}

// start decides where the watch begins. That must be done when Watch returns: a
// write that follows it belongs to the watch.
func (w *watcher) start(revision uint64) {
	log := w.store.config.Log
	initial := revision == 0
	if w.options.SendInitialEvents != nil {
		initial = *w.options.SendInitialEvents
	}
	switch {
	case initial:
		w.initial, w.cursor = log.followHead()
		if head := w.cursor.Position(); revision > head {
			w.tooLarge = storage.NewTooLargeResourceVersionError(revision, head, retryAfterSeconds)
		}
	case revision == 0:
		_, w.cursor = log.followHead()
	default:
		w.cursor = log.Follow(revision)
	}
}

// Stop ends the watch.
func (w *watcher) Stop() { w.cancel() }

// ResultChan gives the events.
func (w *watcher) ResultChan() <-chan watch.Event { return w.events }

func (w *watcher) run() {
	defer close(w.events)
	defer w.cancel()
	defer w.cursor.Close()
	defer w.store.watches.remove(w)
	if w.tooLarge != nil {
		w.fail(w.tooLarge)
		return
	}
	if w.initial != nil && !w.begin() {
		return
	}
	progress := w.store.config.Clock.NewTimer(w.store.config.Progress)
	defer progress.Stop()
	for {
		changed := w.store.config.Log.Changed()
		if !w.drain() {
			return
		}
		select {
		case <-w.ctx.Done():
			return
		case <-changed:
			continue
		case <-w.asked:
		case <-progress.C():
			progress.Reset(w.store.config.Progress)
		}
		// Whatever came meanwhile goes first, or the bookmark would promise too much.
		if !w.drain() || w.options.ProgressNotify && !w.bookmark(false) {
			return
		}
	}
}

// begin sends the objects that are there, and where it was asked for the bookmark
// that ends them.
func (w *watcher) begin() bool {
	tree := w.initial
	w.initial = nil
	on := true
	send := func(entry *Entry) bool {
		on = w.readable(entry)
		if on && matches(&w.options.Predicate, entry.Object) {
			on = w.send(watch.Event{Type: watch.Added, Object: entry.Object})
		}
		return on
	}
	if w.options.Recursive {
		ascend(tree, w.key, w.key, send)
	} else if entry, ok := tree.Get(&Entry{Key: w.key}); ok {
		send(entry)
	}
	if on && w.options.SendInitialEvents != nil && w.options.Predicate.AllowWatchBookmarks {
		on = w.bookmark(true)
	}
	return on
}

// drain sends events until it has come to the head.
func (w *watcher) drain() bool {
	for {
		events, ok := w.cursor.Read(readLimit)
		if !ok {
			return w.fail(apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old."))
		}
		for i := range events {
			if !w.change(&events[i]) {
				return false
			}
			w.delivered.Store(events[i].Revision)
		}
		if len(events) < readLimit {
			w.delivered.Store(w.cursor.Position())
			return true
		}
	}
}

// concerns says whether a key is watched.
func (w *watcher) concerns(key string) bool {
	if w.options.Recursive {
		return strings.HasPrefix(key, w.key)
	}
	return key == w.key
}

// change sends an event as who watches sees it: an object that comes to be
// selected is added, one that is no longer is deleted.
func (w *watcher) change(event *Event) bool {
	if !w.concerns(event.Key) {
		return true
	}
	now := &Entry{Key: event.Key, Revision: event.Revision, Object: event.Object}
	if event.Object != nil && !w.readable(now) || event.Previous != nil && !w.readable(event.Previous) {
		return false
	}
	is := event.Object != nil && matches(&w.options.Predicate, event.Object)
	was := event.Previous != nil && matches(&w.options.Predicate, event.Previous.Object)
	switch {
	case is && was:
		return w.paced(watch.Event{Type: watch.Modified, Object: event.Object})
	case is:
		return w.paced(watch.Event{Type: watch.Added, Object: event.Object})
	case was:
		// The object of a deletion has the revision of the deletion.
		gone := event.Previous.Object.DeepCopyObject()
		if err := w.store.versioner.UpdateObject(gone, event.Revision); err != nil {
			return w.fail(err)
		}
		return w.paced(watch.Event{Type: watch.Deleted, Object: gone})
	}
	return true
}

// readable fails the watch where an entry cannot be read.
func (w *watcher) readable(entry *Entry) bool {
	if _, err := w.store.read(w.ctx, entry); err != nil {
		return w.fail(err)
	}
	return true
}

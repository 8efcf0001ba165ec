package objectlog

import (
	"context"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// feed is the store as the cacher reads it: from the oldest revision that the log
// has. So the cache of a new replica has the history that its clients, who were
// with another one, go on from.
type feed struct {
	*Store
	// ended ends the cacher's wait for a log that is never filled.
	ended context.Context //nolint:containedctx // It ends with the cacher, whose calls bring contexts of their own.
	end   context.CancelFunc

	mutex sync.Mutex
	// pin keeps the history between the cacher's list and its watch.
	pin *Cursor
	// target is the head at the time of the list. Until the watch has come there, the
	// cache shows the past.
	target  uint64
	watcher *watcher
}

func newFeed(store *Store) *feed {
	f := &feed{Store: store}
	f.ended, f.end = context.WithCancel(context.Background())
	return f
}

// IsWatchListSemanticsUnSupported makes the cacher's reflector begin with a list:
// a watch with initial events begins at the head.
func (f *feed) IsWatchListSemanticsUnSupported() bool { return true }

// GetList gives the cacher the oldest state, once the log has one.
func (f *feed) GetList(ctx context.Context, key string, options storage.ListOptions, list runtime.Object) error {
	if options.ResourceVersion != "" || options.Predicate.Continue != "" {
		return f.Store.GetList(ctx, key, options, list)
	}
	if err := f.config.Log.WaitInitialized(f.ended); err != nil {
		return err
	}
	cursor, head := f.config.Log.followOldest()
	f.hold(cursor, head)
	options.ResourceVersion = strconv.FormatUint(cursor.Position(), 10)
	options.ResourceVersionMatch = metav1.ResourceVersionMatchExact
	// Pages would save nothing: the objects are in memory already.
	options.Predicate.Limit = 0
	return f.Store.GetList(ctx, key, options, list)
}

// Watch goes on from the list.
func (f *feed) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	w, err := f.watch(ctx, key, options)
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.release()
	if err != nil {
		return nil, err
	}
	f.watcher = w
	return w, nil
}

func (f *feed) hold(pin *Cursor, target uint64) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.release()
	f.pin, f.target, f.watcher = pin, target, nil
}

func (f *feed) release() {
	if f.pin != nil {
		f.pin.Close()
		f.pin = nil
	}
}

func (f *feed) close() {
	f.end()
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.release()
}

// replayed fails for as long as the cache shows the past.
func (f *feed) replayed() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.watcher == nil || f.watcher.delivered.Load() < f.target {
		return storage.ErrStorageNotReady
	}
	return nil
}

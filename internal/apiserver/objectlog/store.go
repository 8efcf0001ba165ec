package objectlog

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// defaultProgress is how often a watch that asks for it learns how far it is.
	defaultProgress = 5 * time.Second
	// freshPatience is how long a read waits for what the writer has.
	freshPatience = 3 * time.Second
)

// StoreConfig is what a Store works on.
type StoreConfig struct {
	Log *Log
	// Prefix is that of all keys, e.g. /aggregation.coder.com/coderworkspaces.
	Prefix    string
	NewObject func() runtime.Object
	// Committer decides writes. It may be nil for a store that nobody writes to.
	Committer Committer
	// Fresh gives the writer's head: what a consistent read must show. nil means that
	// the local head is the newest.
	Fresh func(ctx context.Context) (uint64, error)
	// SizeOf estimates the size of an object for the cost of lists. nil counts its
	// JSON.
	SizeOf func(Object) int64
	// Clock is the real one if nil.
	Clock clock.Clock
	// Progress is how often a watch that asks for it gets a bookmark. 0 means five
	// seconds.
	Progress time.Duration
}

// Store is the library's storage over a log.
type Store struct {
	config    StoreConfig
	versioner storage.APIObjectVersioner
	sized     atomic.Bool
	watches   watches
	// inspect is where the library's suite of tests lets reading an entry fail. stale
	// says that it must be written even if it stays the same.
	inspect func(ctx context.Context, entry *Entry) (stale bool, err error)
	// expire is where that suite lets entries end after a time, in seconds.
	expire func(entry *Entry, ttl uint64)
}

var _ storage.Interface = (*Store)(nil)

// NewStore gives a store.
func NewStore(config StoreConfig) *Store {
	if !strings.HasSuffix(config.Prefix, "/") {
		config.Prefix += "/"
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Progress <= 0 {
		config.Progress = defaultProgress
	}
	if config.SizeOf == nil {
		config.SizeOf = sizeOfJSON
	}
	return &Store{config: config}
}

// Versioner reads and writes revisions in objects.
func (s *Store) Versioner() storage.Versioner { return s.versioner }

// ReadinessCheck fails until the log has been filled.
func (s *Store) ReadinessCheck() error {
	if !s.config.Log.Initialized() {
		return storage.ErrStorageNotReady
	}
	return nil
}

// CompactRevision is the oldest revision that can still be read.
func (s *Store) CompactRevision() int64 { return int64(s.config.Log.Floor()) }

// GetCurrentResourceVersion is the revision that a consistent read must show.
func (s *Store) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	if err := s.ready(); err != nil {
		return 0, err
	}
	return s.fresh(ctx)
}

// ready gives what a client gets before the log has been filled.
func (s *Store) ready() error {
	if s.config.Log.Initialized() {
		return nil
	}
	return unavailableWith("the objects have not been read yet; try again")
}

// fresh waits until the log has what the writer has, and gives that revision.
func (s *Store) fresh(ctx context.Context) (uint64, error) {
	if s.config.Fresh == nil {
		return s.config.Log.Head(), nil
	}
	revision, err := s.config.Fresh(ctx)
	if err != nil {
		// Without the writer there are no writes: the local head is the best there is.
		klog.FromContext(ctx).V(2).Info("Reading without the writer", "prefix", s.config.Prefix, "error", err.Error())
		return s.config.Log.Head(), ctx.Err()
	}
	if s.config.Log.Head() >= revision {
		return revision, nil
	}
	return revision, s.await(ctx, revision)
}

// await waits for a revision that the writer has, but not without end.
func (s *Store) await(ctx context.Context, revision uint64) error {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	patience := s.config.Clock.NewTimer(freshPatience)
	defer patience.Stop()
	go func() {
		select {
		case <-patience.C():
			cancel()
		case <-bounded.Done():
		}
	}()
	if err := s.config.Log.Wait(bounded, revision); err == nil || ctx.Err() != nil {
		return err
	}
	return storage.NewTooLargeResourceVersionError(revision, s.config.Log.Head(), retryAfterSeconds)
}

// notOlder checks that the head is at least the wanted revision.
func (s *Store) notOlder(want string, head uint64) error {
	if want == "" {
		return nil
	}
	revision, err := s.versioner.ParseResourceVersion(want)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	if revision > head {
		return storage.NewTooLargeResourceVersionError(revision, head, retryAfterSeconds)
	}
	return nil
}

// Get gives a copy of the newest object of a key.
func (s *Store) Get(ctx context.Context, key string, options storage.GetOptions, out runtime.Object) error {
	key, err := storage.PrepareKey(s.config.Prefix, key, false)
	if err != nil {
		return err
	}
	if err := s.ready(); err != nil {
		return err
	}
	if options.ResourceVersion == "" {
		if _, err := s.fresh(ctx); err != nil {
			return err
		}
	}
	entry, head := s.config.Log.get(key)
	if err := s.notOlder(options.ResourceVersion, head); err != nil {
		return err
	}
	if entry == nil {
		if options.IgnoreNotFound {
			return runtime.SetZeroValue(out)
		}
		return storage.NewKeyNotFoundError(key, 0)
	}
	if _, err := s.read(ctx, entry); err != nil {
		return err
	}
	return assign(entry.Object.DeepCopyObject(), out)
}

func (s *Store) read(ctx context.Context, entry *Entry) (stale bool, err error) {
	if s.inspect == nil {
		return false, nil
	}
	if stale, err = s.inspect(ctx, entry); err != nil {
		return false, storage.NewInternalError(err)
	}
	return stale, nil
}

// assign makes what out points to the object, which the caller owns.
func assign(object, out runtime.Object) error {
	target, err := conversion.EnforcePtr(out)
	if err != nil {
		return fmt.Errorf("writing the result into %T: %w", out, err)
	}
	value := reflect.ValueOf(object).Elem()
	if target.Type() != value.Type() {
		return fmt.Errorf("writing the result into %T: the log holds %T", out, object)
	}
	target.Set(value)
	return nil
}

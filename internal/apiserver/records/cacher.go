package records

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Decorator returns a decorator for generic.RESTOptions that puts the library's cacher in front of
// a store.
func Decorator(store *Store) generic.StorageDecorator {
	return func(backend *storagebackend.ConfigForResource, prefix string,
		keyFunc func(runtime.Object) (string, error), newObject, newList func() runtime.Object,
		attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *toolscache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		return NewCacher(store, cacher.Config{
			GroupResource:       backend.GroupResource,
			EventsHistoryWindow: max(backend.EventsHistoryWindow, cacher.DefaultEventFreshDuration),
			ResourcePrefix:      prefix,
			KeyFunc:             keyFunc,
			NewFunc:             newObject,
			NewListFunc:         newList,
			GetAttrsFunc:        attributes,
			IndexerFuncs:        triggers,
			Indexers:            indexers,
			Codec:               backend.Codec,
		})
	}
}

// NewCacher returns a cacher in front of a store. It sets Storage and Versioner of the config.
// destroy stops the cacher.
func NewCacher(store *Store, config cacher.Config) (cached storage.Interface, destroy factory.DestroyFunc, err error) {
	reads := &source{Store: store, ended: make(chan struct{})}
	config.Storage, config.Versioner = reads, store.Versioner()
	keyFunc := config.KeyFunc
	// The cacher calls this for each object that it stores.
	config.KeyFunc = func(stored runtime.Object) (string, error) {
		key, err := keyFunc(stored)
		if object, ok := stored.(Object); ok && err == nil {
			key = store.Table.adopt(key, object)
		}
		return key, err
	}
	cache, err := cacher.NewCacherFromConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("starting the cache of %s: %w", config.GroupResource, err)
	}
	delegator := cacher.NewCacheDelegator(cache, store)
	return &served{Interface: delegator, store: store}, sync.OnceFunc(func() {
		delegator.Stop()
		// Stop waits until the cacher's list returns, so end the list first.
		close(reads.ended)
		cache.Stop()
	}), nil
}

// fewGets is the number of concurrent gets up to which each of them reads its record, or only the
// revision of its record if this replica has the object of that revision. A heartbeat needs the
// processor time of about three reads in kube-apiserver, and takes longer than one.
const fewGets = 3

// served is the storage that serves clients.
type served struct {
	storage.Interface
	store *Store
	// gets is the number of gets without a resourceVersion that are in progress.
	gets atomic.Int32
}

// Get implements storage.Interface. If many gets without a resourceVersion are in progress, further
// ones share a heartbeat and read the cache. If that fails, they read like the others.
func (s *served) Get(ctx context.Context, key string, options storage.GetOptions, out runtime.Object) error {
	if options.ResourceVersion != "" {
		return s.Interface.Get(ctx, key, options, out)
	}
	defer s.gets.Add(-1)
	if s.gets.Add(1) > fewGets {
		if revision, err := s.store.GetCurrentResourceVersion(ctx); err == nil {
			shared := options
			shared.ResourceVersion = formatRevision(revision)
			if err = s.Interface.Get(ctx, key, shared, out); err == nil || storage.IsNotFound(err) {
				return err
			}
		}
	}
	if known, err := s.store.getKnown(ctx, key, out); known || err != nil {
		return err
	}
	return s.Interface.Get(ctx, key, options, out)
}

// GetList implements storage.Interface. If the heartbeat of a consistent list fails, for example because
// etcd accepts no writes, the list is read from kube-apiserver. If kube-apiserver does not respond,
// that fails too.
func (s *served) GetList(ctx context.Context, key string, options storage.ListOptions, list runtime.Object) error {
	err := s.Interface.GetList(ctx, key, options, list)
	if options.ResourceVersion == "" && apierrors.IsServiceUnavailable(err) {
		return s.store.GetList(ctx, key, options, list)
	}
	return err
}

// Watch returns 410 for a revision that the cluster has not reached. The cacher would wait for that
// revision and send nothing until then. This could take years: after etcd was restored from a
// backup, or if the client has a revision of an earlier release that used another counter.
func (s *served) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	from, err := s.store.versioner.ParseResourceVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if from > s.store.Revision() {
		now, err := s.store.GetCurrentResourceVersion(ctx)
		if err != nil {
			return nil, err
		}
		if from > now {
			return nil, apierrors.NewResourceExpired(fmt.Sprintf(
				"the resource version %d is from another cluster, because the newest one is %d: list again, and watch from the resource version of the list", from, now))
		}
	}
	return s.Interface.Watch(ctx, key, options)
}

// source is the storage that the cacher reads. Its lists also update the Table.
type source struct {
	*Store
	// ended is closed when the cacher stops.
	ended chan struct{}
	// listed holds the keys of the pages of the current list. Only the cacher lists here, and it
	// reads one page after the other.
	listed map[string]bool
}

// GetList implements storage.Interface. It retries until kube-apiserver responds. The cacher itself
// would wait up to half a minute between two attempts.
func (s *source) GetList(ctx context.Context, key string, options storage.ListOptions, list runtime.Object) error {
	if options.Predicate.Continue == "" {
		s.listed = map[string]bool{}
	}
	for pause := reopenFirst; ; pause = min(2*pause, reopenMost) {
		listed := maps.Clone(s.listed)
		err := s.list(ctx, key, options, list, listed)
		if err == nil {
			s.listed = listed
		}
		if !apierrors.IsServiceUnavailable(err) && !apierrors.IsTooManyRequests(err) {
			return err
		}
		klog.FromContext(ctx).V(1).Info("Could not read the records; retrying", "kind", s.Kind(), "error", err.Error())
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.ended:
			return err
		case <-ctx.Done():
			return err
		}
	}
}

// IsWatchListSemanticsUnSupported returns true, so that the cacher starts with a list, whose pages
// are decoded on all cores, and not with a stream of events.
func (s *source) IsWatchListSemanticsUnSupported() bool { return true }

// progressSupport declares for all storages of the process that they support RequestWatchProgress.
// Otherwise the library asks etcd for its version. It embeds the interface because one of its
// methods cannot be implemented outside the library.
type progressSupport struct {
	feature.FeatureSupportChecker
}

func (p progressSupport) Supports(wanted storage.Feature) bool {
	return wanted == storage.RequestWatchProgress || p.FeatureSupportChecker.Supports(wanted)
}

// EnableWatchProgress declares to the library that the storage of this process supports
// RequestWatchProgress. Without it, watches with initial events are rejected and consistent lists
// bypass the cacher. The library stores this in a global variable, so EnableWatchProgress is called
// once, before any server is built.
func EnableWatchProgress() {
	feature.DefaultFeatureSupportChecker = progressSupport{feature.NewDefaultFeatureSupportChecker()}
}

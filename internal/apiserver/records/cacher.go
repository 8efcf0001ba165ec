package records

import (
	"context"
	"fmt"
	"maps"
	"sync"
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

// Decorator puts the library's cacher over a store: it is for generic.RESTOptions.
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

// NewCacher puts a cacher over a store. Storage and Versioner of the config are
// set here. destroy ends the cacher.
func NewCacher(store *Store, config cacher.Config) (cached storage.Interface, destroy factory.DestroyFunc, err error) {
	return newCacher(store, store, config)
}

// newCacher has the cacher read the store, while what the cacher does not answer
// goes to below: the store, or what a test has put over it.
func newCacher(store *Store, below storage.Interface, config cacher.Config) (storage.Interface, factory.DestroyFunc, error) {
	reads := &source{Store: store, ended: make(chan struct{})}
	config.Storage, config.Versioner = reads, store.Versioner()
	cache, err := cacher.NewCacherFromConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("starting the cache of %s: %w", config.GroupResource, err)
	}
	delegator := cacher.NewCacheDelegator(cache, below)
	return &served{Interface: delegator, store: store}, sync.OnceFunc(func() {
		delegator.Stop()
		// The cacher waits for its list.
		close(reads.ended)
		cache.Stop()
	}), nil
}

// served is what clients read.
type served struct {
	storage.Interface
	store *Store
}

// Watch refuses a revision that the cluster has not reached. The cacher would wait for it and
// show nothing until then: after etcd was restored from a backup, or for a client that has a
// revision of a release that counted in another way, maybe for years.
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
				"resource version %d is not one of this cluster, which is at %d: list again, and watch from what the list tells", from, now))
		}
	}
	return s.Interface.Watch(ctx, key, options)
}

// source is what the cacher reads. The Table sees the same.
type source struct {
	*Store
	// ended is closed when nobody reads any more.
	ended chan struct{}
	// listed are the keys of the pages of the list that is under way. The cacher, which alone
	// lists here, reads one page after the other.
	listed map[string]bool
}

// GetList implements storage.Interface. It tries until kube-apiserver answers: left to
// the cacher, that waits up to half a minute between two attempts.
func (s *source) GetList(ctx context.Context, key string, options storage.ListOptions, list runtime.Object) error {
	if options.Predicate.Continue == "" {
		s.listed = map[string]bool{}
	}
	for pause := reopenFirst; ; pause = min(2*pause, reopenMost) {
		see := &sight{table: s.Table, keys: maps.Clone(s.listed)}
		err := s.list(ctx, key, options, list, see)
		if err == nil {
			s.listed = see.keys
		}
		if !apierrors.IsServiceUnavailable(err) && !apierrors.IsTooManyRequests(err) {
			return err
		}
		klog.FromContext(ctx).V(1).Info("Reading the records; it is tried again", "kind", s.Kind(), "error", err.Error())
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

// Watch implements storage.Interface.
func (s *source) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	return s.watch(ctx, key, options, &sight{table: s.Table})
}

// IsWatchListSemanticsUnSupported has the cacher begin with a list, whose pages are
// decoded on all cores, and not with a stream of events.
func (s *source) IsWatchListSemanticsUnSupported() bool { return true }

// sight is what the Table sees of a list or a watch. Nil sees nothing.
type sight struct {
	table *Table
	// keys are those of a list, with those of the pages before.
	keys map[string]bool
}

func (s *sight) record(h *held) {
	if s != nil {
		s.keys[h.key] = true
		s.table.see(h)
	}
}

func (s *sight) end(revision uint64) {
	if s != nil {
		s.table.fill(s.keys, revision)
	}
}

func (s *sight) event(kind watch.EventType, h *held) {
	switch {
	case s == nil:
		return
	case kind == watch.Deleted:
		s.table.lose(h.key, h.revision)
	default:
		s.table.see(h)
	}
	s.table.show(h.revision)
}

func (s *sight) progress(revision uint64) {
	if s != nil {
		s.table.show(revision)
	}
}

// progressSupport claims for all storages of the process that they tell the
// progress of watches. The library finds out otherwise by asking etcd for its
// version. It is embedded because one of its methods cannot be written outside.
type progressSupport struct {
	feature.FeatureSupportChecker
}

func (p progressSupport) Supports(wanted storage.Feature) bool {
	return wanted == storage.RequestWatchProgress || p.FeatureSupportChecker.Supports(wanted)
}

// EnableWatchProgress tells the library that the storage of this process supports
// RequestWatchProgress; without it watches with initial events are refused and
// consistent lists bypass the cacher. The library keeps that in a variable of the
// process, so it is called once, before any server is built.
func EnableWatchProgress() {
	feature.DefaultFeatureSupportChecker = progressSupport{feature.NewDefaultFeatureSupportChecker()}
}

package objectlog

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	toolscache "k8s.io/client-go/tools/cache"
)

// Decorator puts the library's cacher over a store on a log: it is for
// generic.RESTOptions. Prefix and NewObject of the config may be left out, the
// registry gives them.
func Decorator(config StoreConfig) generic.StorageDecorator {
	return func(backend *storagebackend.ConfigForResource, prefix string,
		keyFunc func(runtime.Object) (string, error), newObject, newList func() runtime.Object,
		attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *toolscache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		own := config
		if own.Prefix == "" {
			own.Prefix = prefix
		}
		if own.NewObject == nil {
			own.NewObject = newObject
		}
		return NewCacher(NewStore(own), cacher.Config{
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
	source := newFeed(store)
	config.Storage, config.Versioner = source, store.Versioner()
	cache, err := cacher.NewCacherFromConfig(config)
	if err != nil {
		source.close()
		return nil, nil, fmt.Errorf("starting the cache of %s: %w", config.GroupResource, err)
	}
	delegator := cacher.NewCacheDelegator(cache, below)
	destroy := sync.OnceFunc(func() {
		delegator.Stop()
		// The cacher waits for its list, which may wait for the log.
		source.close()
		cache.Stop()
	})
	return &cachedStore{CacheDelegator: delegator, feed: source}, destroy, nil
}

// cachedStore is ready when the cache shows the present.
type cachedStore struct {
	*cacher.CacheDelegator
	feed *feed
}

// ReadinessCheck fails for as long as the cache is empty or still repeats history.
func (c *cachedStore) ReadinessCheck() error {
	if err := c.CacheDelegator.ReadinessCheck(); err != nil {
		return err
	}
	return c.feed.replayed()
}

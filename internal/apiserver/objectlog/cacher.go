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
	"k8s.io/client-go/tools/cache"
)

// Decorator puts the library's cacher over a store on a log: it is for
// generic.RESTOptions. Prefix and NewObject of the config may be left out, the
// registry gives them.
func Decorator(config StoreConfig) generic.StorageDecorator {
	return func(backend *storagebackend.ConfigForResource, prefix string,
		keyFunc func(runtime.Object) (string, error), newObject, newList func() runtime.Object,
		attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		if config.Prefix == "" {
			config.Prefix = prefix
		}
		if config.NewObject == nil {
			config.NewObject = newObject
		}
		return NewCacher(NewStore(config), cacher.Config{
			Versioner:           storage.APIObjectVersioner{},
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

// NewCacher puts a cacher over a store. The config's Storage is set here. destroy
// ends it.
func NewCacher(store *Store, config cacher.Config) (cached storage.Interface, destroy factory.DestroyFunc, err error) {
	feed := newFeed(store)
	config.Storage = feed
	c, err := cacher.NewCacherFromConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("starting the cache of %s: %w", config.GroupResource, err)
	}
	delegator := cacher.NewCacheDelegator(c, store)
	destroy = sync.OnceFunc(func() {
		delegator.Stop()
		feed.close()
		c.Stop()
	})
	return &cachedStore{CacheDelegator: delegator, feed: feed}, destroy, nil
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

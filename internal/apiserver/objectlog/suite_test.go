package objectlog

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

// The tests of this file are those of the library's own suite for storages, on the
// log itself and on the cacher over it. They run one after the other: some of them
// set feature gates of the process.

// notRun are the functions of the suite that say nothing about this storage.
// TestSuiteIsComplete fails where a function of the library is neither run nor
// named here.
var notRun = map[string]string{
	"raw RunTestGetListWithErrorAggregation":                      "asserts the type of an error that etcd3 keeps to itself: it collects objects that cannot be decoded, and the log decodes none",
	"raw RunTestWatchWithUnsafeDelete":                            "as above: asserts how etcd3 words the error of an object that it cannot decode",
	"raw RunTestOptionalWatchBookmarksWithCorrectResourceVersion": "bookmarks of a period are a feature of the cacher",

	"cacher RunOptionalTestProgressNotify":           "progress notifications are what the cacher consumes",
	"cacher RunTestListInconsistentContinuation":     "the library does not run it on the cacher either: the list that must fail is answered from the cache",
	"cacher RunTestGuaranteedUpdate":                 "needs a storage that transforms; the cacher passes writes on unchanged",
	"cacher RunTestGuaranteedUpdateChecksStoredData": "needs a storage that transforms",
	"cacher RunTestTransformationFailure":            "needs a storage that transforms",
	"cacher RunTestListResourceVersionMatch":         "needs a storage that transforms",
	"cacher RunTestWatchError":                       "needs a storage that transforms",
	"cacher RunWatchErrorIsBlockingFurtherEvents":    "needs a storage that transforms",
	"cacher RunTestGetListWithErrorAggregation":      "needs a storage that transforms",
	"cacher RunTestGetListWithoutErrorAggregation":   "needs a storage that transforms",
	"cacher RunTestWatchWithUnsafeDelete":            "needs a storage that transforms",
}

// either is a test that needs nothing but a storage.
type either struct {
	name string
	run  func(context.Context, *testing.T, storage.Interface)
	tune []func(*cacher.Config)
}

func eithers() []either {
	index := []func(*cacher.Config){indexed}
	return []either{
		{"RunTestCreateWithTTL", storagetesting.RunTestCreateWithTTL, nil},
		{"RunTestCreateWithKeyExist", storagetesting.RunTestCreateWithKeyExist, nil},
		{"RunTestGet", storagetesting.RunTestGet, nil},
		{"RunTestUnconditionalDelete", storagetesting.RunTestUnconditionalDelete, nil},
		{"RunTestConditionalDelete", storagetesting.RunTestConditionalDelete, nil},
		{"RunTestDeleteWithSuggestion", storagetesting.RunTestDeleteWithSuggestion, nil},
		{"RunTestDeleteWithSuggestionAndConflict", storagetesting.RunTestDeleteWithSuggestionAndConflict, nil},
		{"RunTestDeleteWithConflict", storagetesting.RunTestDeleteWithConflict, nil},
		{"RunTestDeleteWithSuggestionOfDeletedObject", storagetesting.RunTestDeleteWithSuggestionOfDeletedObject, nil},
		{"RunTestValidateDeletionWithSuggestion", storagetesting.RunTestValidateDeletionWithSuggestion, nil},
		{"RunTestValidateDeletionWithOnlySuggestionValid", storagetesting.RunTestValidateDeletionWithOnlySuggestionValid, nil},
		{"RunTestPreconditionalDeleteWithSuggestion", storagetesting.RunTestPreconditionalDeleteWithSuggestion, nil},
		{"RunTestPreconditionalDeleteWithOnlySuggestionPass", storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass, nil},
		{"RunTestListPaging", storagetesting.RunTestListPaging, nil},
		{"RunTestGetListRecursivePrefix", storagetesting.RunTestGetListRecursivePrefix, nil},
		{"RunTestKeySchema", storagetesting.RunTestKeySchema, nil},
		{"RunTestNamespaceScopedList", storagetesting.RunTestNamespaceScopedList, index},
		{"RunTestGuaranteedUpdateWithTTL", storagetesting.RunTestGuaranteedUpdateWithTTL, nil},
		{"RunTestGuaranteedUpdateWithConflict", storagetesting.RunTestGuaranteedUpdateWithConflict, nil},
		{"RunTestGuaranteedUpdateWithSuggestionAndConflict", storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict, nil},
		{"RunTestListContinuation", withCalls(storagetesting.RunTestListContinuation), nil},
		{"RunTestListPaginationRareObject", withCalls(storagetesting.RunTestListPaginationRareObject), nil},
		{"RunTestListContinuationWithFilter", withCalls(storagetesting.RunTestListContinuationWithFilter), nil},
		{"RunTestWatch", storagetesting.RunTestWatch, nil},
		{"RunTestDeleteTriggerWatch", storagetesting.RunTestDeleteTriggerWatch, nil},
		{"RunTestWatchFromNonZero", storagetesting.RunTestWatchFromNonZero, nil},
		{"RunTestDelayedWatchDelivery", storagetesting.RunTestDelayedWatchDelivery, nil},
		{"RunTestWatchContextCancel", storagetesting.RunTestWatchContextCancel, nil},
		{"RunTestWatcherTimeout", storagetesting.RunTestWatcherTimeout, nil},
		{"RunTestWatchDeleteEventObjectHaveLatestRV", storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV, nil},
		{"RunTestWatchInitializationSignal", storagetesting.RunTestWatchInitializationSignal, nil},
		{"RunTestClusterScopedWatch", storagetesting.RunTestClusterScopedWatch, []func(*cacher.Config){clusterScoped, indexed}},
		{"RunTestNamespaceScopedWatch", storagetesting.RunTestNamespaceScopedWatch, index},
		{"RunSendInitialEventsBackwardCompatibility", storagetesting.RunSendInitialEventsBackwardCompatibility, nil},
		{"RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError", unsafeDelete(func(ctx context.Context, t *testing.T, s storage.Interface) {
			storagetesting.RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError(ctx, t, s)
		}), nil},
	}
}

// withCalls leaves out the suite's count of the requests to etcd.
func withCalls(run func(context.Context, *testing.T, storage.Interface, storagetesting.CallsValidation)) func(context.Context, *testing.T, storage.Interface) {
	return func(ctx context.Context, t *testing.T, s storage.Interface) {
		run(ctx, t, s, func(*testing.T, uint64, uint64) {})
	}
}

// unsafeDelete allows to delete objects that cannot be read.
func unsafeDelete(run func(context.Context, *testing.T, storage.Interface)) func(context.Context, *testing.T, storage.Interface) {
	return func(ctx context.Context, t *testing.T, s storage.Interface) {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.AllowUnsafeMalformedObjectDeletion, true)
		run(ctx, t, s)
	}
}

// rawTests are the tests that need something of the log itself.
func rawTests() map[string]func(context.Context, *testing.T, *Store) {
	return map[string]func(context.Context, *testing.T, *Store){
		"RunTestCreate": func(ctx context.Context, t *testing.T, s *Store) { storagetesting.RunTestCreate(ctx, t, s, stored(s)) },
		"RunTestList": func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestList(ctx, t, s, compactOf(s), false, nil)
		},
		"RunTestConsistentList": func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestConsistentList(ctx, t, s, bumpOf(s), false, true, false)
		},
		"RunTestGetListNonRecursive": func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestGetListNonRecursive(ctx, t, bumpOf(s), s)
		},
		"RunTestListInconsistentContinuation": func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestListInconsistentContinuation(ctx, t, s, compactOf(s))
		},
		"RunTestCompactRevision": func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestCompactRevision(ctx, t, s, bumpOf(s), compactOf(s))
		},
		"RunTestWatchFromZero": func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestWatchFromZero(ctx, t, s, compactOf(s))
		},
		"RunOptionalTestProgressNotify": func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunOptionalTestProgressNotify(ctx, t, s, bumpOf(s))
		},
		"RunTestWatchDispatchBookmarkEvents": func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, s, false)
		},
		"RunWatchSemantics": func(ctx context.Context, t *testing.T, s *Store) { storagetesting.RunWatchSemantics(ctx, t, s) },
		"RunWatchSemanticInitialEventsExtended": func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunWatchSemanticInitialEventsExtended(ctx, t, s)
		},
		"RunWatchListMatchSingle": func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunWatchListMatchSingle(ctx, t, s)
		},
	}
}

// transformTests are the tests for objects that cannot be read.
func transformTests() map[string]func(context.Context, *testing.T, *transforming) {
	flipped := errors.New("bits flipped")
	return map[string]func(context.Context, *testing.T, *transforming){
		"RunTestGuaranteedUpdate": func(ctx context.Context, t *testing.T, s *transforming) {
			storagetesting.RunTestGuaranteedUpdate(ctx, t, s, stored(s.Store))
		},
		"RunTestGuaranteedUpdateChecksStoredData": func(ctx context.Context, t *testing.T, s *transforming) {
			storagetesting.RunTestGuaranteedUpdateChecksStoredData(ctx, t, s)
		},
		"RunTestTransformationFailure": func(ctx context.Context, t *testing.T, s *transforming) {
			storagetesting.RunTestTransformationFailure(ctx, t, s)
		},
		"RunTestListResourceVersionMatch": func(ctx context.Context, t *testing.T, s *transforming) {
			storagetesting.RunTestListResourceVersionMatch(ctx, t, s)
		},
		"RunTestWatchError": func(ctx context.Context, t *testing.T, s *transforming) { storagetesting.RunTestWatchError(ctx, t, s) },
		"RunWatchErrorIsBlockingFurtherEvents": func(ctx context.Context, t *testing.T, s *transforming) {
			storagetesting.RunWatchErrorIsBlockingFurtherEvents(ctx, t, s)
		},
		"RunTestGetListWithoutErrorAggregation": func(ctx context.Context, t *testing.T, s *transforming) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.AllowUnsafeMalformedObjectDeletion, false)
			storagetesting.RunTestGetListWithoutErrorAggregation(ctx, t, s, flipped)
		},
		"RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError": func(ctx context.Context, t *testing.T, s *transforming) {
			unsafeDelete(func(ctx context.Context, t *testing.T, _ storage.Interface) {
				storagetesting.RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError(ctx, t, s, s.failing())
			})(ctx, t, s)
		},
		"RunTestDeleteExpectedTransformOrDecodeError": func(ctx context.Context, t *testing.T, s *transforming) {
			unsafeDelete(func(ctx context.Context, t *testing.T, _ storage.Interface) {
				storagetesting.RunTestDeleteExpectedTransformOrDecodeError(ctx, t, s, s.failing())
			})(ctx, t, s)
		},
	}
}

// cacherTests are the tests that need something of the cacher.
func cacherTests() map[string]func(context.Context, *testing.T, *cached) {
	return map[string]func(context.Context, *testing.T, *cached){
		"RunTestCreate": func(ctx context.Context, t *testing.T, c *cached) {
			storagetesting.RunTestCreate(ctx, t, c, stored(c.raw))
		},
		"RunTestCompactRevision": func(ctx context.Context, t *testing.T, c *cached) {
			storagetesting.RunTestCompactRevision(ctx, t, c, bumpOf(c.raw), c.compactStore)
		},
		"RunTestWatchFromZero": func(ctx context.Context, t *testing.T, c *cached) {
			storagetesting.RunTestWatchFromZero(ctx, t, c, c.compactWatch)
		},
		"RunTestWatchDispatchBookmarkEvents": func(ctx context.Context, t *testing.T, c *cached) {
			storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, c, true)
		},
		"RunTestOptionalWatchBookmarksWithCorrectResourceVersion": func(ctx context.Context, t *testing.T, c *cached) {
			storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion(ctx, t, c)
		},
		"RunWatchSemantics": func(ctx context.Context, t *testing.T, c *cached) {
			storagetesting.RunWatchSemantics(ctx, t, visible{c})
		},
		"RunWatchSemanticInitialEventsExtended": func(ctx context.Context, t *testing.T, c *cached) {
			storagetesting.RunWatchSemanticInitialEventsExtended(ctx, t, visible{c})
		},
		"RunWatchListMatchSingle": func(ctx context.Context, t *testing.T, c *cached) {
			storagetesting.RunWatchListMatchSingle(ctx, t, visible{c})
		},
		// The cacher passes deletes on; here their object is always readable or always not.
		"RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError": func(ctx context.Context, t *testing.T, _ *cached) {
			unsafeDelete(func(ctx context.Context, t *testing.T, _ storage.Interface) {
				s := newTransforming(t)
				storagetesting.RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError(ctx, t, newCachedOver(t, s.Store), s.failing())
			})(ctx, t, nil)
		},
		"RunTestDeleteExpectedTransformOrDecodeError": func(ctx context.Context, t *testing.T, _ *cached) {
			unsafeDelete(func(ctx context.Context, t *testing.T, _ storage.Interface) {
				s := newTransforming(t)
				storagetesting.RunTestDeleteExpectedTransformOrDecodeError(ctx, t, newCachedOver(t, s.Store), s.failing())
			})(ctx, t, nil)
		},
	}
}

// snapshotTests are the tests of lists that depend on whether the cacher keeps
// states of the past.
func snapshotTests(snapshots bool) map[string]func(context.Context, *testing.T, *cached) {
	return map[string]func(context.Context, *testing.T, *cached){
		"RunTestList": func(ctx context.Context, t *testing.T, c *cached) {
			storagetesting.RunTestList(ctx, t, c, c.compactStore, true, c.recorder)
		},
		"RunTestConsistentList": func(ctx context.Context, t *testing.T, c *cached) {
			storagetesting.RunTestConsistentList(ctx, t, c, bumpOf(c.raw), true, true, snapshots)
		},
		"RunTestGetListNonRecursive": func(ctx context.Context, t *testing.T, c *cached) {
			storagetesting.RunTestGetListNonRecursive(ctx, t, bumpOf(c.raw), c)
		},
	}
}

func TestSuiteOnLog(t *testing.T) {
	for _, test := range eithers() {
		t.Run(test.name, func(t *testing.T) { test.run(t.Context(), t, newRaw(t)) })
	}
	for name, run := range rawTests() {
		t.Run(name, func(t *testing.T) { run(t.Context(), t, newRaw(t)) })
	}
	for name, run := range transformTests() {
		t.Run(name, func(t *testing.T) { run(t.Context(), t, newTransforming(t)) })
	}
	for _, sized := range []bool{true, false} {
		t.Run(fmt.Sprintf("RunTestStats/sized=%v", sized), func(t *testing.T) {
			s := newRaw(t, func(config *StoreConfig) { config.SizeOf = protobufSize(t) })
			if sized {
				if err := s.EnableResourceSizeEstimation(func(context.Context) ([]string, error) { return nil, nil }); err != nil {
					t.Fatal(err)
				}
			}
			storagetesting.RunTestStats(t.Context(), t, s, newCodec(t), identity.NewEncryptCheckTransformer(), sized)
		})
	}
}

func TestSuiteOnCacher(t *testing.T) {
	for _, test := range eithers() {
		t.Run(test.name, func(t *testing.T) { test.run(t.Context(), t, newCached(t, test.tune...)) })
	}
	for name, run := range cacherTests() {
		t.Run(name, func(t *testing.T) { run(t.Context(), t, newCached(t)) })
	}
	for _, snapshots := range []bool{true, false} {
		for name, run := range snapshotTests(snapshots) {
			t.Run(fmt.Sprintf("%s/snapshots=%v", name, snapshots), func(t *testing.T) {
				featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.ListFromCacheSnapshot, snapshots)
				run(t.Context(), t, newCached(t))
			})
		}
	}
	for _, sized := range []bool{true, false} {
		t.Run(fmt.Sprintf("RunTestStats/sized=%v", sized), func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.SizeBasedListCostEstimate, sized)
			storagetesting.RunTestStats(t.Context(), t, newCached(t), newCodec(t), identity.NewEncryptCheckTransformer(), sized)
		})
	}
}

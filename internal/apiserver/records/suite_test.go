package records

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	toolscache "k8s.io/client-go/tools/cache"
)

// The tests of this file are those of the library's own suite for storages, on the store itself and
// on the cacher in front of it, with a real kube-apiserver and etcd. They run sequentially, because
// they count revisions.

// The reasons why functions of the suite are not run.
const (
	noTTL        = "custom resources do not end after a time"
	otherKeys    = "keys are namespace/name, as those of records are"
	ownRevisions = "counts revisions: heartbeats, and what else kube-apiserver writes, move them"
	noRemoval    = "kube-apiserver does not tell the revision of a removal: that of a heartbeat after it is given"
	forgotten    = "watches from revision 1, which the kube-apiserver that the tests share has forgotten: 410"
	noAsking     = "progress without being asked for it: kube-apiserver does not pass etcd's on"
	fixedTime    = "gives its writes three seconds, which a busy machine does not keep"
	noTransform  = "needs a storage that transforms"
	ownKeeping   = "kube-apiserver does not tell which revisions etcd has compacted"
	noEncoding   = "computes the size of what etcd3 stores; the size of records is a moving average"
	ofTheCacher  = "is a feature of the cacher"
	notOnCacher  = "the library does not run it on the cacher either"
)

// notPassed lists the functions that are not run, each with the reason. TestSuiteIsComplete fails
// if a function of the library is neither run nor listed here.
var notPassed = map[string]string{
	"raw RunTestClusterScopedWatch": ofTheCacher, "raw RunTestNamespaceScopedWatch": ofTheCacher,
	"raw RunWatchSemanticInitialEventsExtended": ofTheCacher, "raw RunWatchListMatchSingle": ofTheCacher,
	"raw RunTestCreateWithTTL": noTTL, "raw RunTestGuaranteedUpdateWithTTL": noTTL,
	"cacher RunTestCreateWithTTL": noTTL, "cacher RunTestGuaranteedUpdateWithTTL": noTTL,
	"raw RunTestKeySchema": otherKeys, "raw RunTestGetListRecursivePrefix": otherKeys, "cacher RunTestKeySchema": otherKeys,
	"raw RunTestWatch": noRemoval, "raw RunTestWatchDeleteEventObjectHaveLatestRV": noRemoval,
	"cacher RunTestWatch": noRemoval, "cacher RunTestWatchDeleteEventObjectHaveLatestRV": noRemoval,
	"raw RunWatchSemantics": forgotten, "cacher RunWatchSemantics": forgotten,
	"raw RunTestList": ownRevisions, "raw RunTestConsistentList": ownRevisions,
	"cacher RunTestList": ownRevisions, "cacher RunTestConsistentList": ownRevisions,
	"cacher RunTestListContinuation": ownRevisions, "cacher RunTestListContinuationWithFilter": ownRevisions,
	"cacher RunWatchSemanticInitialEventsExtended": ownRevisions, "cacher RunWatchListMatchSingle": ownRevisions,
	"cacher RunTestOptionalWatchBookmarksWithCorrectResourceVersion": fixedTime,
	"raw RunOptionalTestProgressNotify":                              noAsking, "raw RunTestOptionalWatchBookmarksWithCorrectResourceVersion": ofTheCacher,
	"cacher RunOptionalTestProgressNotify": notOnCacher, "cacher RunTestListInconsistentContinuation": notOnCacher,
	"raw RunTestCompactRevision": ownKeeping, "cacher RunTestCompactRevision": ownKeeping,
	"raw RunTestStats": noEncoding, "cacher RunTestStats": noEncoding,
	"raw RunTestDeleteExpectedTransformOrDecodeError": noTransform, "cacher RunTestDeleteExpectedTransformOrDecodeError": noTransform,
	"raw RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError":      noTransform,
	"cacher RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError":   noTransform,
	"raw RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError":    noTransform,
	"cacher RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError": noTransform,
	"raw RunTestGetListWithErrorAggregation":                                     noTransform, "cacher RunTestGetListWithErrorAggregation": noTransform,
	"raw RunTestGetListWithoutErrorAggregation": noTransform, "cacher RunTestGetListWithoutErrorAggregation": noTransform,
	"raw RunTestGuaranteedUpdate": noTransform, "cacher RunTestGuaranteedUpdate": noTransform,
	"raw RunTestGuaranteedUpdateChecksStoredData": noTransform, "cacher RunTestGuaranteedUpdateChecksStoredData": noTransform,
	"raw RunTestListResourceVersionMatch": noTransform, "cacher RunTestListResourceVersionMatch": noTransform,
	"raw RunTestTransformationFailure": noTransform, "cacher RunTestTransformationFailure": noTransform,
	"raw RunTestWatchError": noTransform, "cacher RunTestWatchError": noTransform,
	"raw RunTestWatchWithUnsafeDelete": noTransform, "cacher RunTestWatchWithUnsafeDelete": noTransform,
	"raw RunWatchErrorIsBlockingFurtherEvents": noTransform, "cacher RunWatchErrorIsBlockingFurtherEvents": noTransform,
}

// either is a test that needs only a storage.
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
	}
}

// withCalls disables the suite's count of the requests to etcd.
func withCalls(run func(context.Context, *testing.T, storage.Interface, storagetesting.CallsValidation)) func(context.Context, *testing.T, storage.Interface) {
	return func(ctx context.Context, t *testing.T, s storage.Interface) {
		run(ctx, t, s, func(*testing.T, uint64, uint64) {})
	}
}

// rawTests returns the tests that need the store itself.
func rawTests() map[string]func(context.Context, *testing.T, *Store) {
	return map[string]func(context.Context, *testing.T, *Store){
		"RunTestCreate": func(ctx context.Context, t *testing.T, s *Store) { storagetesting.RunTestCreate(ctx, t, s, stored(s)) },
		"RunTestList": func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestList(ctx, t, s, compact(t, s), false, nil)
		},
		"RunTestConsistentList": func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestConsistentList(ctx, t, s, bump(t), false, true, false)
		},
		"RunTestGetListNonRecursive": func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestGetListNonRecursive(ctx, t, bump(t), s)
		},
		"RunTestListInconsistentContinuation": func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestListInconsistentContinuation(ctx, t, s, compact(t, s))
		},
		"RunTestWatchFromZero": func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestWatchFromZero(ctx, t, s, nil)
		},
		"RunOptionalTestProgressNotify": func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunOptionalTestProgressNotify(ctx, t, s, bump(t))
		},
		"RunTestWatchDispatchBookmarkEvents": func(ctx context.Context, t *testing.T, s *Store) {
			storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, s, false)
		},
		"RunWatchSemantics": func(ctx context.Context, t *testing.T, s *Store) { storagetesting.RunWatchSemantics(ctx, t, s) },
	}
}

// cacherTests returns the tests that need the cacher.
func cacherTests() map[string]func(context.Context, *testing.T, *cached) {
	return map[string]func(context.Context, *testing.T, *cached){
		"RunTestCreate": func(ctx context.Context, t *testing.T, c *cached) {
			storagetesting.RunTestCreate(ctx, t, c, stored(c.raw))
		},
		"RunTestWatchFromZero": func(ctx context.Context, t *testing.T, c *cached) {
			storagetesting.RunTestWatchFromZero(ctx, t, c, nil)
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
		"RunTestList": func(ctx context.Context, t *testing.T, c *cached) {
			storagetesting.RunTestList(ctx, t, c, compact(t, c.raw), true, storagetesting.NewKubernetesRecorder(noEtcd{}))
		},
		"RunTestConsistentList": func(ctx context.Context, t *testing.T, c *cached) {
			storagetesting.RunTestConsistentList(ctx, t, c, bump(t), true, true, true)
		},
		"RunTestGetListNonRecursive": func(ctx context.Context, t *testing.T, c *cached) {
			storagetesting.RunTestGetListNonRecursive(ctx, t, bump(t), c)
		},
	}
}

func indexed(config *cacher.Config) {
	config.IndexerFuncs = storage.IndexerFuncs{"spec.nodeName": func(o runtime.Object) string { return o.(*example.Pod).Spec.NodeName }}
	config.Indexers = &toolscache.Indexers{
		"f:spec.nodeName":      func(o any) ([]string, error) { return []string{o.(*example.Pod).Spec.NodeName}, nil },
		"f:metadata.namespace": func(o any) ([]string, error) { return []string{o.(*example.Pod).Namespace}, nil },
	}
}

func clusterScoped(config *cacher.Config) {
	config.KeyFunc = func(o runtime.Object) (string, error) { return storage.NoNamespaceKeyFunc(podPrefix, o) }
}

func TestSuiteOnStore(t *testing.T) {
	environment(t)
	for _, test := range eithers() {
		if notPassed["raw "+test.name] == "" {
			t.Run(test.name, func(t *testing.T) { test.run(t.Context(), t, newRaw(t)) })
		}
	}
	for name, run := range rawTests() {
		if notPassed["raw "+name] == "" {
			t.Run(name, func(t *testing.T) { run(t.Context(), t, newRaw(t)) })
		}
	}
}

func TestSuiteOnCacher(t *testing.T) {
	environment(t)
	for _, test := range eithers() {
		if notPassed["cacher "+test.name] == "" {
			t.Run(test.name, func(t *testing.T) { test.run(t.Context(), t, newCached(t, test.tune...)) })
		}
	}
	for name, run := range cacherTests() {
		if notPassed["cacher "+name] == "" {
			t.Run(name, func(t *testing.T) { run(t.Context(), t, newCached(t)) })
		}
	}
}

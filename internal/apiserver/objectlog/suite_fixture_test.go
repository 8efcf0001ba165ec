package objectlog

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// newRaw is the store as the suite wants it: entries can end after a time.
func newRaw(tb testing.TB, tune ...func(*StoreConfig)) *Store {
	tb.Helper()
	s := newTestStore(tb, tune...)
	s.expire = func(entry *Entry, ttl uint64) {
		time.AfterFunc(time.Duration(ttl)*time.Second, func() {
			// It may have been changed or removed before.
			_, _ = s.config.Committer.Commit(context.Background(), Commit{Key: entry.Key, Expect: entry.Revision})
		})
	}
	return s
}

func bumpOf(s *Store) storagetesting.IncreaseRVFunc {
	return func(context.Context, *testing.T) int64 { return int64(bump(s.config.Log)) }
}

// compactOf compacts as etcd's client for Kubernetes does, which writes a key of
// its own about it: the suite counts on that revision.
func compactOf(s *Store) storagetesting.Compaction {
	return func(_ context.Context, t *testing.T, version string) {
		t.Helper()
		revision, err := s.versioner.ParseResourceVersion(version)
		if err != nil {
			t.Fatal(err)
		}
		compact(s.config.Log, revision)
		bump(s.config.Log)
	}
}

// stored is what the suite checks behind the storage's back.
func stored(s *Store) storagetesting.KeyValidation {
	return func(_ context.Context, t *testing.T, key string) {
		t.Helper()
		entry := s.config.Log.Get(key)
		if entry == nil {
			t.Fatalf("the log has no %s", key)
		}
		if p := entry.Object.(*example.Pod); p.GetSelfLink() != "" || p.ResourceVersion != fmt.Sprint(entry.Revision) {
			t.Errorf("the log holds %+v at revision %d", p.ObjectMeta, entry.Revision)
		}
	}
}

// recording tells the suite which lists the cacher leaves to the storage.
type recording struct {
	*Store
	recorder *storagetesting.KubernetesRecorder
}

// noEtcd is what the suite's recorder records the use of.
type noEtcd struct{ kubernetes.Interface }

func (noEtcd) List(context.Context, string, kubernetes.ListOptions) (kubernetes.ListResponse, error) {
	return kubernetes.ListResponse{}, nil
}

func (r *recording) GetList(ctx context.Context, key string, options storage.ListOptions, list runtime.Object) error {
	prefix, err := storage.PrepareKey(r.config.Prefix, key, options.Recursive)
	if err == nil && options.Recursive {
		if revision, from, err := storage.ValidateListOptions(prefix, r.versioner, options); err == nil {
			r.record(ctx, prefix, from, revision, options.Predicate)
		}
	}
	return r.Store.GetList(ctx, key, options, list)
}

// record tells what etcd would have been asked: it knows no selectors, so there
// are more and more keys in a request until enough of them are selected.
func (r *recording) record(ctx context.Context, prefix, from string, revision int64, predicate storage.SelectionPredicate) {
	tree, _, ok := r.config.Log.stateAt(uint64(revision))
	if revision == 0 || !ok {
		tree, _ = r.config.Log.state()
	}
	selected := int64(0)
	for limit, more := predicate.Limit, true; more; limit *= 2 {
		next := from
		if next != "" {
			next = "/registry" + next
		}
		_, _ = r.recorder.List(ctx, "/registry"+prefix, kubernetes.ListOptions{Revision: revision, Limit: limit, Continue: next})
		seen := int64(0)
		more = false
		ascend(tree, prefix, max(from, prefix), func(entry *Entry) bool {
			if limit == 0 || seen == limit {
				more = limit != 0
				return false
			}
			seen++
			from = entry.Key + "\x00"
			if matches(&predicate, entry.Object) {
				selected++
			}
			return true
		})
		more = more && selected < predicate.Limit
	}
}

// kickClock has the cacher's poll for compaction happen when the test wants it, and
// shifts the time.
type kickClock struct {
	clock.RealClock
	mutex sync.Mutex
	shift time.Duration
	poll  *kickTimer
}

// compactionPoll is the cacher's period, by which its timer is known.
const compactionPoll = 15 * time.Second

type kickTimer struct {
	clock.Timer
	fire  chan time.Time
	reset chan struct{}
}

func (k *kickTimer) C() <-chan time.Time { return k.fire }

func (k *kickTimer) Reset(time.Duration) bool {
	k.reset <- struct{}{}
	return true
}

func (c *kickClock) NewTimer(d time.Duration) clock.Timer {
	timer := c.RealClock.NewTimer(d)
	if d != compactionPoll {
		return timer
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.poll = &kickTimer{Timer: timer, fire: make(chan time.Time), reset: make(chan struct{})}
	return c.poll
}

// kick returns when the cacher has polled.
func (c *kickClock) kick() {
	c.mutex.Lock()
	poll := c.poll
	c.mutex.Unlock()
	if poll != nil {
		poll.fire <- time.Now()
		<-poll.reset
	}
}

func (c *kickClock) waited() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.poll != nil
}

func (c *kickClock) Now() time.Time {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.RealClock.Now().Add(c.shift)
}

func (c *kickClock) advance(d time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.shift += d
}

// cached is the cacher over the log, as the suite uses it.
type cached struct {
	storage.Interface
	raw      *Store
	recorder *storagetesting.KubernetesRecorder
	// polls is the cacher's clock, times that of the store, which says how old the
	// cacher's events are.
	polls, times *kickClock
}

func newCached(tb testing.TB, tune ...func(*cacher.Config)) *cached {
	tb.Helper()
	times := &kickClock{}
	c := newCachedOver(tb, newRaw(tb, func(config *StoreConfig) {
		config.Clock = times
		config.SizeOf = protobufSize(tb)
	}), tune...)
	c.times = times
	return c
}

func newCachedOver(tb testing.TB, raw *Store, tune ...func(*cacher.Config)) *cached {
	tb.Helper()
	c := &cached{raw: raw, polls: &kickClock{}, recorder: storagetesting.NewKubernetesRecorder(noEtcd{})}
	config := cacherConfig(tb)
	config.Clock = c.polls
	for _, f := range tune {
		f(&config)
	}
	var destroy func()
	var err error
	c.Interface, destroy, err = newCacher(c.raw, &recording{Store: c.raw, recorder: c.recorder}, config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(destroy)
	polltest.Eventually(tb, "the cacher's first list", func() bool { return c.ReadinessCheck() == nil })
	if utilfeature.DefaultFeatureGate.Enabled(features.ListFromCacheSnapshot) {
		polltest.Eventually(tb, "the cacher's wait for compaction", c.polls.waited)
	}
	return c
}

func protobufSize(tb testing.TB) func(Object) int64 {
	codec := newCodec(tb)
	return func(object Object) int64 {
		copied := object.DeepCopyObject().(Object)
		copied.SetResourceVersion("") // etcd does not store it
		data, err := runtime.Encode(codec, copied)
		if err != nil {
			tb.Error(err)
		}
		return int64(len(data))
	}
}

func (c *cached) catchUp(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := c.GetList(ctx, "/pods/", everything(), &example.PodList{}); err != nil {
		t.Fatal(err)
	}
}

func (c *cached) compactStore(ctx context.Context, t *testing.T, version string) {
	t.Helper()
	compactOf(c.raw)(ctx, t, version)
	c.polls.kick()
}

// compactWatch has the cacher give up its events in the way it does in production:
// there are newer ones, and the old ones are old enough.
func (c *cached) compactWatch(ctx context.Context, t *testing.T, version string) {
	t.Helper()
	c.catchUp(ctx, t)
	compactOf(c.raw)(ctx, t, version)
	c.times.advance(10 * time.Minute)
	for i := range 150 {
		name := fmt.Sprint("p", i)
		if err := c.raw.Create(ctx, podKey("evict", name), pod("evict", name), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	c.catchUp(ctx, t)
}

// visible returns from Create only when the cache has the object, as the suite's
// tests of watches want it.
type visible struct{ *cached }

func (c visible) Create(ctx context.Context, key string, object, out runtime.Object, ttl uint64) error {
	if err := c.cached.Create(ctx, key, object, out, ttl); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, time.Millisecond, polltest.Timeout(), true, func(ctx context.Context) (bool, error) {
		current := newPod()
		err := c.Get(ctx, key, storage.GetOptions{ResourceVersion: "0"}, current)
		if storage.IsNotFound(err) {
			return false, nil
		}
		return equality.Semantic.DeepEqual(current, out), err
	})
}

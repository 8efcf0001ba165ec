package objectlog

import (
	"context"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/utils/clock"
)

// transforming has objects that cannot be read, which the log itself never has: it
// transforms a constant for each, as etcd would the object.
type transforming struct {
	*Store
	mutex       sync.Mutex
	transformer value.Transformer
	data        map[Object][]byte
}

const constant = "x"

func newTransforming(tb testing.TB) *transforming {
	tb.Helper()
	t := &transforming{
		transformer: storagetesting.NewPrefixTransformer([]byte("test!"), false),
		data:        map[Object][]byte{},
	}
	t.Store = newRaw(tb, func(config *StoreConfig) { config.Committer = &transformingCommitter{t: t, log: config.Log} })
	t.inspect = t.transform
	return t
}

// transformingCommitter is a committer that also appends what stays the same.
type transformingCommitter struct {
	t   *transforming
	log *Log
}

func (c *transformingCommitter) Commit(ctx context.Context, commit Commit) (*Entry, error) {
	if commit.Object != nil {
		data, err := c.t.current().TransformToStorage(ctx, []byte(constant), value.DefaultContext(commit.Key))
		if err != nil {
			return nil, storage.NewInternalError(err)
		}
		c.t.mutex.Lock()
		c.t.data[commit.Object] = data
		c.t.mutex.Unlock()
	}
	entries, err := NewSequencer(c.log, counter{}, nil, clock.RealClock{}).
		Propose(ctx, Proposal(commit))
	if err != nil {
		return nil, err
	}
	return entries[0], nil
}

func (t *transforming) transform(ctx context.Context, entry *Entry) (stale bool, err error) {
	t.mutex.Lock()
	data, transformer := t.data[entry.Object], t.transformer
	t.mutex.Unlock()
	result, stale, err := transformer.TransformFromStorage(ctx, data, value.DefaultContext(entry.Key))
	return stale || string(result) != constant, err
}

func (t *transforming) current() value.Transformer {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.transformer
}

func (t *transforming) replace(transformer value.Transformer) (restore func()) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	before := t.transformer
	t.transformer = transformer
	return func() { t.replace(before) }
}

func (t *transforming) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	copied := *t.current().(*storagetesting.PrefixTransformer)
	return t.replace(modify(&copied))
}

func (t *transforming) UpdateTransformer(modify storagetesting.TransformerModifier) func() {
	return t.replace(modify(t.current()))
}

// failing makes reading fail, or not any more.
func (t *transforming) failing() func(bool) {
	good := t.current()
	return func(fail bool) {
		if fail {
			t.replace(storagetesting.NewPrefixTransformer([]byte("other!"), false))
		} else {
			t.replace(good)
		}
	}
}

package objectlog

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// writerFunc is a system of record.
type writerFunc func(ctx context.Context, key string, current, wanted Object) (Object, error)

func (f writerFunc) Write(ctx context.Context, key string, current, wanted Object) (Object, error) {
	return f(ctx, key, current, wanted)
}

// slowWriter holds each write until it is released.
type slowWriter struct {
	begun   chan string
	release chan struct{}
}

func newSlowWriter() *slowWriter {
	return &slowWriter{begun: make(chan string), release: make(chan struct{})}
}

func (w *slowWriter) Write(_ context.Context, key string, _, wanted Object) (Object, error) {
	w.begun <- key
	<-w.release
	return wanted, nil
}

func newCommitter(l *Log, w Writer) *LocalCommitter {
	return NewLocalCommitter(l, NewSequencer(l, counter{}, nil, clock.RealClock{}), w)
}

// TestCommitterDecidesConflictsAtASlowWriter: of two writes that are based on the
// same revision the second never reaches the system of record.
func TestCommitterDecidesConflictsAtASlowWriter(t *testing.T) {
	l, w := newTestLog(t, Config{}), newSlowWriter()
	c := newCommitter(l, w)
	results := make(chan error, 2)
	write := func() {
		_, err := c.Commit(t.Context(), Commit{Key: podKey("a", "x"), Object: pod("a", "x")})
		results <- err
	}
	go write()
	<-w.begun
	go write()
	polltest.Eventually(t, "the second write waiting for the lock", func() bool { return lockUsers(l, podKey("a", "x")) == 2 })
	go func() { // Another key does not wait.
		_, err := c.Commit(t.Context(), Commit{Key: podKey("a", "y"), Object: pod("a", "y")})
		if err != nil {
			t.Error(err)
		}
	}()
	if key := <-w.begun; key != podKey("a", "y") {
		t.Errorf("the writer got %s", key)
	}
	w.release <- struct{}{}
	w.release <- struct{}{}
	var changed, done int
	for range 2 {
		switch err := <-results; {
		case err == nil:
			done++
		case errors.Is(err, ErrChanged):
			changed++
		default:
			t.Error(err)
		}
	}
	if done != 1 || changed != 1 {
		t.Errorf("%d writes done, %d refused", done, changed)
	}
}

func lockUsers(l *Log, key string) int {
	l.locks.mutex.Lock()
	defer l.locks.mutex.Unlock()
	if lock, ok := l.locks.held[key]; ok {
		return lock.users
	}
	return 0
}

func TestCommitter(t *testing.T) {
	refused := apierrors.NewBadRequest("no such preset")
	labeled := func(o Object) Object {
		copied := o.DeepCopyObject().(Object)
		copied.SetLabels(map[string]string{"by": "coder"})
		return copied
	}
	tests := map[string]struct {
		commit Commit
		write  writerFunc
		// revision of the result, 0 for none
		revision, head uint64
		label          string
		err            func(error) bool
	}{
		"create": {
			commit:   Commit{Key: podKey("a", "new"), Object: pod("a", "new")},
			write:    func(_ context.Context, _ string, _, wanted Object) (Object, error) { return labeled(wanted), nil },
			revision: 6, head: 6, label: "coder",
		},
		"refused": {
			commit: Commit{Key: podKey("a", "new"), Object: pod("a", "new")},
			write:  func(context.Context, string, Object, Object) (Object, error) { return nil, refused },
			head:   5, err: func(err error) bool { return errors.Is(err, refused) },
		},
		"stale": {
			commit: Commit{Key: podKey("a", "x"), Expect: 4, Object: pod("a", "x")},
			head:   5, err: func(err error) bool { return errors.Is(err, ErrChanged) },
		},
		"without effect": {
			commit:   Commit{Key: podKey("a", "x"), Expect: 5, Object: labeled(pod("a", "x"))},
			write:    func(_ context.Context, _ string, current, _ Object) (Object, error) { return pod("a", "x"), nil },
			revision: 5, head: 5,
		},
		"remove": {
			commit: Commit{Key: podKey("a", "x"), Expect: 5},
			write:  func(context.Context, string, Object, Object) (Object, error) { return nil, nil },
			head:   6,
		},
		"removal has begun": {
			commit:   Commit{Key: podKey("a", "x"), Expect: 5},
			write:    func(_ context.Context, _ string, current, _ Object) (Object, error) { return labeled(current), nil },
			revision: 6, head: 6, label: "coder",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := newTestLog(t, Config{})
			mustAppend(t, l, put(5, "x"))
			entry, err := newCommitter(l, test.write).Commit(t.Context(), test.commit)
			if test.err == nil && err != nil || test.err != nil && !test.err(err) {
				t.Errorf("got the error %v", err)
			}
			if revisionOf(entry) != test.revision || l.Head() != test.head {
				t.Errorf("the result has revision %d, the log is at %d", revisionOf(entry), l.Head())
			}
			if entry != nil && entry.Object.GetLabels()["by"] != test.label {
				t.Errorf("the result has the labels %v", entry.Object.GetLabels())
			}
		})
	}
}

// TestCommitterAfterTakeover: a write that the system of record has, but another
// replica has taken over, is not done a second time, and clients do not try a creation
// again by themselves: they would find their own object in their way.
func TestCommitterAfterTakeover(t *testing.T) {
	key := podKey("a", "x")
	for name, test := range map[string]struct {
		there  bool
		answer func(error) bool
		after  int
	}{
		"a creation": {answer: apierrors.IsTimeout},
		"a change":   {there: true, answer: apierrors.IsServiceUnavailable, after: retryAfterSeconds},
	} {
		t.Run(name, func(t *testing.T) {
			l, w := newTestLog(t, Config{}), newSlowWriter()
			if test.there {
				mustAppend(t, l, Change{Key: key, Revision: 2, Object: pod("a", "x")})
			}
			commit, done := Commit{Key: key, Expect: revisionOf(l.Get(key)), Object: pod("a", "x")}, make(chan error)
			commit.Object.SetLabels(map[string]string{"changed": "yes"})
			go func() {
				_, err := newCommitter(l, w).Commit(t.Context(), commit)
				done <- err
			}()
			<-w.begun
			if err := l.Reset([]*Entry{{Key: key, Revision: 50, Object: pod("a", "x")}}, 50); err != nil {
				t.Fatal(err)
			}
			w.release <- struct{}{}
			err := <-done
			if after, _ := apierrors.SuggestsClientDelay(err); !test.answer(err) || after != test.after || !strings.Contains(err.Error(), key) {
				t.Errorf("got the error %v, to be tried again after %d s", err, after)
			}
		})
	}
}

// TestCommitterFinishesForAClientThatIsGone: what the system of record has, the
// log gets.
func TestCommitterFinishesForAClientThatIsGone(t *testing.T) {
	l, w := newTestLog(t, Config{}), newSlowWriter()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := newCommitter(l, w).Commit(ctx, Commit{Key: podKey("a", "x"), Object: pod("a", "x")})
		done <- err
	}()
	<-w.begun
	cancel()
	w.release <- struct{}{}
	if err := <-done; err != nil || l.Get(podKey("a", "x")) == nil {
		t.Errorf("the log has %v, the error is %v", l.Get(podKey("a", "x")), err)
	}
}

// TestStoreUpdatesAtASlowWriter: no update of many at once is lost.
func TestStoreUpdatesAtASlowWriter(t *testing.T) {
	const writers, updates = 8, 25
	l := newTestLog(t, Config{})
	s := newStoreOn(l, func(config *StoreConfig) {
		config.Committer = newCommitter(l, writerFunc(func(_ context.Context, _ string, _, wanted Object) (Object, error) {
			return wanted, nil
		}))
	})
	if err := s.Create(t.Context(), podKey("a", "x"), pod("a", "x"), nil, 0); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for range updates {
				if err := s.GuaranteedUpdate(t.Context(), podKey("a", "x"), &example.Pod{}, false, nil, increment, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if generation := l.Get(podKey("a", "x")).Object.GetGeneration(); generation != writers*updates {
		t.Errorf("%d of %d updates are there", generation, writers*updates)
	}
}

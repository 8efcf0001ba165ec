package records

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// operation is one read or write of a counter, with the time of its request and of its response.
type operation struct {
	began, ended time.Time
	value        int
	write        bool
}

// history records the operations of the clients.
type history struct {
	mu  sync.Mutex
	all []operation
}

func (h *history) add(o operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, o)
}

// check verifies that each read returns every write that was acknowledged before the read began, no
// write that began after the read ended, and no less than an earlier read.
func (h *history) check(t *testing.T) {
	t.Helper()
	for _, read := range h.all {
		if read.write {
			continue
		}
		for _, other := range h.all {
			if other.ended.Before(read.began) && other.value > read.value {
				t.Errorf("a read that began %v after %d was known shows %d", read.began.Sub(other.ended), other.value, read.value)
			}
			if other.write && other.began.After(read.ended) && other.value <= read.value {
				t.Errorf("a read shows %d, %v before that was written", read.value, other.began.Sub(read.ended))
			}
		}
	}
}

// TestConsistentReadsOfThreeReplicas writes a counter through three replicas concurrently, and
// reads it through other replicas, by get and by list.
func TestConsistentReadsOfThreeReplicas(t *testing.T) {
	raw := newRaw(t)
	replicas := []*cached{newCachedOver(t, raw)}
	for _, name := range []string{"b", "c"} {
		replicas = append(replicas, newCachedOver(t, newStore(t, client(t), name)))
	}
	const key = "/pods/test-ns/counter"
	ctx := t.Context()
	pod := &example.Pod{}
	pod.Namespace, pod.Name, pod.Labels = "test-ns", "counter", map[string]string{"n": "0"}
	if err := replicas[0].Create(ctx, key, pod, nil, 0); err != nil {
		t.Fatal(err)
	}
	h := &history{}
	var group sync.WaitGroup
	const writes, reads = 60, 80
	for i := range 3 {
		group.Go(func() {
			for range writes {
				if err := increment(ctx, replicas[i], key, h); err != nil {
					t.Error(err)
				}
			}
		})
		group.Go(func() {
			for n := range reads {
				if err := readCounter(ctx, replicas[rand.IntN(len(replicas))], key, n%2 == 0, h); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	h.check(t)
	last := &example.Pod{}
	if err := replicas[1].Get(ctx, key, storage.GetOptions{}, last); err != nil || last.Labels["n"] != strconv.Itoa(3*writes) {
		t.Errorf("in the end it is %s, %v", last.Labels["n"], err)
	}
}

func increment(ctx context.Context, s storage.Interface, key string, h *history) error {
	o := operation{began: time.Now(), write: true}
	err := s.GuaranteedUpdate(ctx, key, &example.Pod{}, false, nil, func(in runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		pod := in.(*example.Pod)
		n, err := strconv.Atoi(pod.Labels["n"])
		o.value = n + 1
		pod.Labels["n"] = strconv.Itoa(o.value)
		return pod, nil, err
	}, nil)
	o.ended = time.Now()
	if err == nil {
		h.add(o)
	}
	return err
}

func readCounter(ctx context.Context, s storage.Interface, key string, one bool, h *history) error {
	o := operation{began: time.Now()}
	pod := example.Pod{}
	if one {
		if err := s.Get(ctx, key, storage.GetOptions{}, &pod); err != nil {
			return err
		}
	} else {
		list := &example.PodList{}
		if err := s.GetList(ctx, "/pods/test-ns/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list); err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("a list has %d objects", len(list.Items))
		}
		pod = list.Items[0]
	}
	o.ended = time.Now()
	var err error
	o.value, err = strconv.Atoi(pod.Labels["n"])
	h.add(o)
	return err
}

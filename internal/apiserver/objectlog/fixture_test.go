package objectlog

import (
	"fmt"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

func TestMain(m *testing.M) {
	EnableWatchProgress()
	os.Exit(m.Run())
}

// newCodec is the codec of the library's example API. The log never uses it.
func newCodec(tb testing.TB) runtime.Codec {
	tb.Helper()
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	for _, add := range []func(*runtime.Scheme) error{example.AddToScheme, examplev1.AddToScheme} {
		if err := add(scheme); err != nil {
			tb.Fatal(err)
		}
	}
	binary := protobuf.NewSerializer(scheme, scheme)
	return serializer.NewCodecFactory(scheme).CodecForVersions(binary, binary, schema.GroupVersions{examplev1.SchemeGroupVersion}, nil)
}

// counter gives dense revisions, which the library's suite counts on.
type counter struct{}

func (counter) Next(head uint64) uint64 { return head + 1 }

// bump moves the head without a change, as a write of another kind does in etcd.
func bump(l *Log) uint64 {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.head++
	l.wakeLocked()
	return l.head
}

func compact(l *Log, revision uint64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.history.compact(min(revision, l.head))
}

// newTestLog is empty at revision 1, as a new etcd is.
func newTestLog(tb testing.TB, config Config) *Log {
	tb.Helper()
	l := New(config)
	if err := l.Reset(nil, 0); err != nil {
		tb.Fatal(err)
	}
	bump(l)
	return l
}

func newPod() runtime.Object     { return &example.Pod{} }
func newPodList() runtime.Object { return &example.PodList{} }

func pod(namespace, name string) *example.Pod {
	return &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func podKey(namespace, name string) string { return "/pods/" + namespace + "/" + name }

func podAttributes(object runtime.Object) (labels.Set, fields.Set, error) {
	p, ok := object.(*example.Pod)
	if !ok {
		return nil, nil, fmt.Errorf("%T is no pod", object)
	}
	return p.Labels, fields.Set{
		"metadata.name":      p.Name,
		"metadata.namespace": p.Namespace,
		"spec.nodeName":      p.Spec.NodeName,
		"spec.restartPolicy": string(p.Spec.RestartPolicy),
		"status.phase":       string(p.Status.Phase),
	}, nil
}

// newTestStore is a store on a log of its own, which is its own system of record.
func newTestStore(tb testing.TB, tune ...func(*StoreConfig)) *Store {
	tb.Helper()
	return newStoreOn(newTestLog(tb, Config{}), tune...)
}

func newStoreOn(l *Log, tune ...func(*StoreConfig)) *Store {
	sequencer := NewSequencer(l, counter{}, nil, clock.RealClock{})
	config := StoreConfig{
		Log: l, Prefix: "/pods/", NewObject: newPod,
		Committer: NewLocalCommitter(l, sequencer, nil),
		Progress:  time.Second,
	}
	for _, f := range tune {
		f(&config)
	}
	return NewStore(config)
}

// cacherConfig is that of the library's own tests.
func cacherConfig(tb testing.TB) cacher.Config {
	return cacher.Config{
		GroupResource:       schema.GroupResource{Resource: "pods"},
		EventsHistoryWindow: cacher.DefaultEventFreshDuration,
		ResourcePrefix:      "/pods/",
		KeyFunc:             func(o runtime.Object) (string, error) { return storage.NamespaceKeyFunc("/pods/", o) },
		GetAttrsFunc:        podAttributes,
		NewFunc:             newPod,
		NewListFunc:         newPodList,
		Codec:               newCodec(tb),
		Indexers:            &cache.Indexers{},
	}
}

// indexed lets the cacher find the pods of a node and of a namespace.
func indexed(config *cacher.Config) {
	config.IndexerFuncs = storage.IndexerFuncs{
		"spec.nodeName": func(o runtime.Object) string { return o.(*example.Pod).Spec.NodeName },
	}
	config.Indexers = &cache.Indexers{
		"f:spec.nodeName":      func(o any) ([]string, error) { return []string{o.(*example.Pod).Spec.NodeName}, nil },
		"f:metadata.namespace": func(o any) ([]string, error) { return []string{o.(*example.Pod).Namespace}, nil },
	}
}

func clusterScoped(config *cacher.Config) {
	config.KeyFunc = func(o runtime.Object) (string, error) { return storage.NoNamespaceKeyFunc("/pods/", o) }
}

func everything() storage.ListOptions {
	return storage.ListOptions{Recursive: true, Predicate: storage.Everything}
}

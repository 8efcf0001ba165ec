package records

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const (
	podPrefix = "/pods/"
	replicaA  = "a"
	// heartbeats is the namespace of the heartbeats in these tests.
	heartbeats = "zz-system"
)

// cluster is the kube-apiserver of this package's tests. They count revisions, so no other test may
// write to it.
var cluster = sync.OnceValues(func() (*envtest.Environment, error) {
	e := kubetest.Environment(filepath.Join("..", "..", "..", "charts", "coder-k8s", "files", "crds"))
	// The suite uses many namespaces, and creates none.
	e.ControlPlane.GetAPIServer().Configure().Append("disable-admission-plugins", "NamespaceLifecycle")
	_, err := e.Start()
	return e, err
})

func TestMain(m *testing.M) {
	EnableWatchProgress()
	log.SetLogger(logr.Discard())
	code := m.Run()
	if os.Getenv("KUBEBUILDER_ASSETS") != "" {
		if e, _ := cluster(); e != nil {
			if err := e.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "stopping etcd and kube-apiserver:", err)
				code = max(code, 1)
			}
		}
	}
	os.Exit(code)
}

func environment(tb testing.TB) *envtest.Environment {
	tb.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		tb.Skip("KUBEBUILDER_ASSETS is not set; make test sets it")
	}
	e, err := cluster()
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func client(tb testing.TB) *Client {
	tb.Helper()
	config := rest.CopyConfig(environment(tb).Config)
	config.QPS = -1
	c, err := NewClient(config, "coderworkspacerecords", "CoderWorkspaceRecord")
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func codec() runtime.Codec {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	_ = example.AddToScheme(scheme)
	_ = examplev1.AddToScheme(scheme)
	return serializer.NewCodecFactory(scheme).LegacyCodec(examplev1.SchemeGroupVersion)
}

// newRaw returns the store after deleting everything that an earlier test has left.
func newRaw(tb testing.TB) *Store {
	tb.Helper()
	c := client(tb)
	ctx := context.Background()
	// Right after the CRD was created, kube-apiserver does not serve it yet. The previous test may
	// still write a heartbeat.
	polltest.Eventually(tb, "nothing is left of the test before", func() error {
		left, err := c.List(ctx, Query{})
		if err != nil {
			return err
		}
		for i := range left.Records {
			r := &left.Records[i]
			if err := c.Delete(ctx, r.Namespace, r.Name, r.Revision); err != nil {
				return err
			}
		}
		return nil
	})
	return newStore(tb, c, replicaA)
}

func newStore(tb testing.TB, c Cluster, replica string) *Store {
	tb.Helper()
	s := NewStore(Config{
		Cluster: c, Prefix: podPrefix, Codec: codec(), NewObject: func() Object { return &example.Pod{} },
		Kind: "Pod", Replica: replica, HeartbeatNamespace: heartbeats,
	})
	s.WriteWith(plain{})
	return s
}

// plain is a Writer without a system of record.
type plain struct{}

// Write implements Writer.
func (plain) Write(_ context.Context, _ string, _, wanted Object) (Object, error) {
	if wanted == nil {
		return nil, nil
	}
	return wanted.DeepCopyObject().(Object), nil
}

func attributes(object runtime.Object) (labels.Set, fields.Set, error) {
	p := object.(*example.Pod)
	return p.Labels, fields.Set{
		"metadata.name": p.Name, "metadata.namespace": p.Namespace, "spec.nodeName": p.Spec.NodeName,
		"spec.restartPolicy": string(p.Spec.RestartPolicy), "status.phase": string(p.Status.Phase),
	}, nil
}

type cached struct {
	storage.Interface
	raw *Store
}

func newCached(tb testing.TB, tune ...func(*cacher.Config)) *cached {
	tb.Helper()
	return newCachedOver(tb, newRaw(tb), tune...)
}

func newCachedOver(tb testing.TB, raw *Store, tune ...func(*cacher.Config)) *cached {
	tb.Helper()
	config := cacher.Config{
		GroupResource: schema.GroupResource{Resource: "pods"}, EventsHistoryWindow: cacher.DefaultEventFreshDuration, ResourcePrefix: podPrefix,
		KeyFunc:      func(o runtime.Object) (string, error) { return storage.NamespaceKeyFunc(podPrefix, o) },
		GetAttrsFunc: attributes, NewFunc: func() runtime.Object { return &example.Pod{} }, NewListFunc: func() runtime.Object { return &example.PodList{} },
		Codec: codec(), Indexers: &cache.Indexers{},
	}
	for _, f := range tune {
		f(&config)
	}
	over, destroy, err := NewCacher(raw, config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(destroy)
	polltest.Eventually(tb, "the cache is filled", over.ReadinessCheck)
	return &cached{over, raw}
}

// visible is a storage whose Create returns when the cache has the object.
type visible struct{ *cached }

func (c visible) Create(ctx context.Context, key string, object, out runtime.Object, ttl uint64) error {
	if err := c.cached.Create(ctx, key, object, out, ttl); err != nil {
		return err
	}
	for {
		current := &example.Pod{}
		err := c.Get(ctx, key, storage.GetOptions{ResourceVersion: "0"}, current)
		if err == nil && equality.Semantic.DeepEqual(current, out) {
			return nil
		}
		if err != nil && !storage.IsNotFound(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// stored returns the suite's validation of the stored data.
func stored(s *Store) storagetesting.KeyValidation {
	return func(ctx context.Context, t *testing.T, key string) {
		t.Helper()
		namespace, name := s.Locate(key)
		record, err := s.config.Cluster.Get(ctx, namespace, name, "")
		if err != nil {
			t.Fatal(err)
		}
		p := &example.Pod{}
		if _, _, err := s.config.Codec.Decode([]byte(record.Object), nil, p); err != nil || p.ResourceVersion != "" {
			t.Errorf("the record has %s: %v", record.Object, err)
		}
	}
}

func etcd(tb testing.TB) *clientv3.Client {
	tb.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{environment(tb).ControlPlane.Etcd.URL.String()}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

func bump(tb testing.TB) storagetesting.IncreaseRVFunc {
	c := etcd(tb)
	return func(ctx context.Context, t *testing.T) int64 {
		r, err := c.Put(ctx, "increaseRV", "ok")
		if err != nil {
			t.Fatal(err)
		}
		return r.Header.Revision
	}
}

// compact does what kube-apiserver does every five minutes, and waits until its cache has noticed,
// which it does every 15 seconds.
func compact(tb testing.TB, s *Store) storagetesting.Compaction {
	c := etcd(tb)
	return func(ctx context.Context, t *testing.T, version string) {
		revision, _ := strconv.ParseInt(version, 10, 64)
		if _, err := c.Put(ctx, "compact_rev_key", version); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Compact(ctx, revision); err != nil {
			t.Log(err)
		}
		polltest.Eventually(t, "kube-apiserver forgets what was compacted", func() error {
			_, err := s.config.Cluster.List(ctx, Query{ResourceVersion: strconv.FormatInt(max(revision-1, 1), 10), ResourceVersionMatch: metav1.ResourceVersionMatchExact})
			if isGone(err) {
				return nil
			}
			return fmt.Errorf("a list of revision %d: %w", revision-1, err)
		})
	}
}

// noEtcd replaces the suite's recorder of etcd requests: there is no etcd client.
type noEtcd struct{ kubernetes.Interface }

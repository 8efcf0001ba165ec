package objectlog

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// backend is a storage with the cacher over it. The benchmarks of this file are
// those of the library, on the log and beside it on etcd, which is the yardstick.
type backend struct {
	name string
	open func(*testing.B) storage.Interface
}

func backends() []backend {
	return []backend{{"log", cachedLog}, {"etcd3", cachedEtcd}}
}

func cachedLog(b *testing.B) storage.Interface {
	b.Helper()
	return cachedOver(b, newTestStore(b))
}

func cachedOver(b *testing.B, store *Store) storage.Interface {
	b.Helper()
	config := cacherConfig(b)
	indexed(&config)
	cached, destroy, err := NewCacher(store, config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(destroy)
	polltest.Eventually(b, "the cacher's first list", func() bool { return cached.ReadinessCheck() == nil })
	return cached
}

func cachedEtcd(b *testing.B) storage.Interface {
	b.Helper()
	client := startEtcd(b)
	versioner := storage.APIObjectVersioner{}
	compactor := etcd3.NewCompactor(client.Client, 0, clock.RealClock{}, nil)
	b.Cleanup(compactor.Stop)
	codec := newCodec(b)
	config := cacherConfig(b)
	store, err := etcd3.New(client, compactor, codec, newPod, newPodList, "/registry", "/pods/",
		schema.GroupResource{Resource: "pods"}, identity.NewEncryptCheckTransformer(),
		etcd3.NewDefaultLeaseManagerConfig(), etcd3.NewDefaultDecoder(codec, versioner), versioner)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(store.Close)
	config.Storage, config.Versioner = store, versioner
	indexed(&config)
	cache, err := cacher.NewCacherFromConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	delegator := cacher.NewCacheDelegator(cache, store)
	b.Cleanup(func() {
		delegator.Stop()
		cache.Stop()
	})
	polltest.Eventually(b, "the cacher's first list", func() bool { return delegator.ReadinessCheck() == nil })
	return delegator
}

// etcdBinary is where the tests of the project have etcd, or what TEST_ETCD says.
func etcdBinary() string {
	home, _ := os.UserHomeDir()
	for _, path := range []string{
		os.Getenv("TEST_ETCD"),
		filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcd"),
		filepath.Join(os.Getenv("CODER_K8S_CACHE"), "bin", "etcd"),
		filepath.Join(home, ".cache", "coder-k8s", "bin", "etcd"),
	} {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path
		}
	}
	return ""
}

// startEtcd starts an etcd that does not wait for its disk, as that of the
// library's own benchmarks.
func startEtcd(b *testing.B) *kubernetes.Client {
	b.Helper()
	binary := etcdBinary()
	if binary == "" {
		b.Skip("there is no etcd to compare with: hack/cluster/build.sh etcd builds it, or TEST_ETCD says where it is")
	}
	clients, peers := freeAddress(b), freeAddress(b)
	command := exec.Command(binary, "--data-dir", b.TempDir(), "--unsafe-no-fsync", "--log-level", "error",
		"--quota-backend-bytes", "4294967296",
		"--listen-client-urls", clients, "--advertise-client-urls", clients,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers)
	if err := command.Start(); err != nil {
		b.Fatalf("starting %s: %v", binary, err)
	}
	b.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	client, err := kubernetes.New(clientv3.Config{Endpoints: []string{clients}, DialTimeout: 10 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	polltest.Eventually(b, "an answer of etcd", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := client.Client.Get(ctx, "/")
		return err == nil
	})
	return client
}

func freeAddress(b *testing.B) string {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return "http://" + listener.Addr().String()
}

// BenchmarkStoreList reads lists of 10 000 objects in 50 namespaces.
func BenchmarkStoreList(b *testing.B) {
	klog.SetLogger(logr.Discard())
	data := storagetesting.PrepareBenchmarkData(50, 200, 500)
	for _, backend := range backends() {
		b.Run("backend="+backend.name, func(b *testing.B) {
			s := backend.open(b)
			if err := storagetesting.PrecreateBenchmarkPods(b.Context(), s, data); err != nil {
				b.Fatal(err)
			}
			storagetesting.RunBenchmarkStoreList(b.Context(), b, s, data, true)
		})
	}
}

// BenchmarkWriteThroughput writes beside watches and lists.
func BenchmarkWriteThroughput(b *testing.B) {
	klog.SetLogger(logr.Discard())
	data := storagetesting.PrepareBenchmarkData(50, 200, 500)
	for _, backend := range backends() {
		b.Run("backend="+backend.name, func(b *testing.B) {
			storagetesting.RunBenchmarkWriteThroughput(b.Context(), b, backend.open(b), data, true, nil)
		})
	}
}

// BenchmarkGet reads one object without a revision, which the cacher leaves to the
// storage.
func BenchmarkGet(b *testing.B) {
	for _, backend := range backends() {
		b.Run("backend="+backend.name, func(b *testing.B) {
			s := backend.open(b)
			if err := s.Create(b.Context(), podKey("a", "x"), pod("a", "x"), nil, 0); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := s.Get(b.Context(), podKey("a", "x"), storage.GetOptions{}, &example.Pod{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMemory tells how much an object takes, cacher included, right after the
// start and with a history.
func BenchmarkMemory(b *testing.B) {
	const objects = 10_000
	name := func(i int) string { return fmt.Sprintf("p%05d", i%objects) }
	for _, updates := range []int{0, 4_000} {
		b.Run(fmt.Sprintf("updates=%d", updates), func(b *testing.B) {
			for b.Loop() {
				before := heap()
				l := New(Config{})
				var entries []*Entry
				for i := range objects {
					p := stamped(pod("a", name(i)), 1)
					entries = append(entries, &Entry{Key: podKey("a", name(i)), Revision: 1, Object: p})
				}
				if err := l.Reset(entries, 1); err != nil {
					b.Fatal(err)
				}
				entries = nil
				s := cachedOver(b, newStoreOn(l))
				for i := range updates {
					err := s.GuaranteedUpdate(b.Context(), podKey("a", name(i*7919)), &example.Pod{}, false, nil, increment, nil)
					if err != nil {
						b.Fatal(err)
					}
				}
				if err := s.GetList(b.Context(), "/pods", everything(), &example.PodList{}); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(heap()-before)/objects, "B/object")
				runtime.KeepAlive(s)
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

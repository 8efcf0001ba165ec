package kubetest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// startTimeout is the timeout of each step of a start.
const startTimeout = 10 * time.Minute

// etcdHost is a loopback address from which no connection comes: those to it come from 127.0.0.1.
const etcdHost = "127.0.0.2"

// Detectors returns the environment variables that make a process check itself: whether it changes
// objects in the caches of client-go, and whether the cacher of the aggregated API equals its log.
// The libraries read them when the process starts.
func Detectors() []string {
	return []string{"KUBE_CACHE_MUTATION_DETECTOR=true", "KUBE_WATCHCACHE_CONSISTENCY_CHECKER=true"}
}

// Environment returns an etcd and a kube-apiserver with the CRDs in files or directories. The
// caller can configure it further, and must start and stop it. Start does that for a test that
// needs no more. The timeouts are longer than the library's, because a busy machine needs more
// time. The servers inherit the environment of the test, which no longer contains the detectors that
// make test switches on in the test itself: they take a tenth of the processor time of kube-apiserver.
//
// etcd listens on etcdHost, so that it gets its ports again when a test restarts it. On 127.0.0.1, any connection
// that another test opens may take a free port as its own.
func Environment(definitions ...string) *envtest.Environment {
	for _, detector := range Detectors() {
		name, _, _ := strings.Cut(detector, "=")
		_ = os.Unsetenv(name)
	}
	e := &envtest.Environment{
		CRDDirectoryPaths: definitions, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: startTimeout, ControlPlaneStopTimeout: startTimeout,
		CRDInstallOptions: envtest.CRDInstallOptions{MaxTime: startTimeout},
	}
	e.ControlPlane.Etcd = &envtest.Etcd{URL: &url.URL{Scheme: "http", Host: freeAddress()}}
	e.ControlPlane.Etcd.Configure().Set("listen-peer-urls", "http://"+freeAddress())
	return e
}

// freeAddress returns an address of etcdHost on which nothing listens.
func freeAddress() string {
	listener, err := net.Listen("tcp", net.JoinHostPort(etcdHost, "0")) //nolint:noctx // It does not wait.
	if err != nil {
		panic(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// Start runs etcd and kube-apiserver with the CRDs in files or directories until the test ends. It
// skips the test if KUBEBUILDER_ASSETS, which make test sets, does not contain their location.
func Start(t *testing.T, definitions ...string) *rest.Config {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set; make test sets it")
	}
	server := Environment(definitions...)
	config, err := server.Start()
	// If kube-apiserver does not start, etcd may still run.
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Errorf("stopping etcd and kube-apiserver: %v", err)
		}
	})
	if err != nil {
		t.Fatalf("starting etcd and kube-apiserver: %v", err)
	}
	return config
}

// SharedVariable is the environment variable with the path of the kubeconfig of the shared
// kube-apiserver. test/testcluster may write that file after the first tests have started. If the
// server does not start, the file contains a line that begins with SharedFailure instead.
const (
	SharedVariable = "CODER_K8S_TEST_CLUSTER"
	SharedFailure  = "error: "
)

// Shared is like Start, but other packages' tests may use the kube-apiserver at the same time, and
// objects of earlier tests remain. So a test must create its own namespaces with Namespace, its
// controllers must watch only those, and it must not change cluster-wide objects except by adding
// CRDs.
func Shared(t *testing.T, definitions ...string) *rest.Config {
	t.Helper()
	file := os.Getenv(SharedVariable)
	if file == "" {
		return Start(t, definitions...)
	}
	var content []byte
	polltest.Eventually(t, "the shared kube-apiserver", func() error {
		var err error
		content, err = os.ReadFile(file)
		return err
	})
	if strings.HasPrefix(string(content), SharedFailure) {
		t.Fatalf("the shared kube-apiserver: %s", content)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	config.QPS = -1 // No limit: the default of a kubeconfig is 5 requests a second.
	if err := install(config, definitions); err != nil {
		t.Fatalf("installing definitions in the shared kube-apiserver: %v", err)
	}
	return config
}

// install adds CRDs. It retries while other packages add the same CRDs.
func install(config *rest.Config, definitions []string) error {
	if len(definitions) == 0 {
		return nil
	}
	return retry.OnError(wait.Backoff{Steps: 50, Duration: 100 * time.Millisecond}, apierrors.IsAlreadyExists, func() error {
		_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{
			Paths: definitions, ErrorIfPathMissing: true, MaxTime: startTimeout,
		})
		return err
	})
}

// Namespace creates a namespace that no other test uses, and returns its name.
func Namespace(t *testing.T, config *rest.Config) string {
	t.Helper()
	name, err := newNamespace(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func newNamespace(ctx context.Context, config *rest.Config) (string, error) {
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", fmt.Errorf("connecting to kube-apiserver: %w", err)
	}
	made, err := set.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("creating a namespace: %w", err)
	}
	return made.Name, nil
}

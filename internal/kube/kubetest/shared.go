package kubetest

import (
	"context"
	"fmt"
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

// SharedVariable is the environment variable with the path of the kubeconfig of the shared
// kube-apiserver. hack/testcluster may write that file after the first tests have started. If the
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

package records

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/rest"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// TestRestoredEtcd restores the data of a real etcd from a copy while a replica watches its records. The
// replica notices it with the next consistent read, which it does not answer.
func TestRestoredEtcd(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set; make test sets it")
	}
	e := kubetest.Environment(filepath.Join("..", "..", "..", "charts", "coder-k8s", "files", "crds"))
	etcd := e.ControlPlane.Etcd
	etcd.DataDir = filepath.Join(t.TempDir(), "data")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(etcd.DataDir, 0o700))
	e.ControlPlane.GetAPIServer().Configure().Append("disable-admission-plugins", "NamespaceLifecycle")
	_, err := e.Start()
	t.Cleanup(func() { _ = e.Stop() })
	must(err)
	config := rest.CopyConfig(e.Config)
	config.QPS = -1
	c, err := NewClient(config, "coderworkspacerecords", "CoderWorkspaceRecord")
	must(err)
	s := newStore(t, c, replicaA)
	newCachedOver(t, s)
	ctx := t.Context()
	key := podPrefix + "team/one"
	label := func(value string) {
		t.Helper()
		must(s.GuaranteedUpdate(ctx, key, &example.Pod{}, true, nil, func(in runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
			pod := in.(*example.Pod)
			pod.ObjectMeta = metav1.ObjectMeta{Namespace: "team", Name: "one", ResourceVersion: pod.ResourceVersion, Labels: map[string]string{"a": value}}
			return pod, nil, nil
		}, nil))
	}
	polltest.Eventually(t, "kube-apiserver serves the records", func(ctx context.Context) error {
		_, err := s.GetCurrentResourceVersion(ctx)
		return err
	})
	label("zero")
	backup := filepath.Join(t.TempDir(), "backup")
	must(etcd.Stop())
	must(os.CopyFS(backup, os.DirFS(etcd.DataDir)))
	must(etcd.Start())
	polltest.Eventually(t, "etcd is back", func(ctx context.Context) error {
		_, err := s.GetCurrentResourceVersion(ctx)
		return err
	})
	for i := range 20 {
		label(fmt.Sprint(i))
	}
	select {
	case err := <-s.heartbeat.restored:
		t.Fatalf("before the restore: %v", err)
	default:
	}
	must(etcd.Stop())
	must(os.RemoveAll(etcd.DataDir))
	must(os.CopyFS(etcd.DataDir, os.DirFS(backup)))
	must(etcd.Start())
	polltest.Eventually(t, "the replica notices it", func(ctx context.Context) error {
		select {
		case err := <-s.heartbeat.restored:
			if !strings.Contains(err.Error(), "restore of etcd") {
				t.Error(err)
			}
			return nil
		default:
		}
		revision, err := s.GetCurrentResourceVersion(ctx)
		if err == nil {
			t.Fatalf("a consistent read is answered at revision %d", revision)
		}
		return err
	})
}

package installation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// cluster is a real kube-apiserver with the default installation.
type cluster struct {
	config *rest.Config
	kube   client.Client
}

// servers are started by the first test that needs them, and stopped by TestMain.
type servers struct {
	once    sync.Once
	err     error
	stop    func() error
	cluster cluster
}

var started servers

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	if started.stop != nil {
		if err := started.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping kube-apiserver:", err)
		}
	}
	os.Exit(code)
}

func installed(t *testing.T) cluster {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS does not say where kube-apiserver is; make test does")
	}
	started.once.Do(func() { started.err = started.start() })
	if started.err != nil {
		t.Fatal(started.err)
	}
	return started.cluster
}

func (s *servers) start() error {
	server := kubetest.Environment()
	config, err := server.Start()
	if err != nil {
		return err
	}
	s.stop = server.Stop
	config.QPS = -1
	kube, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	s.cluster = cluster{config: config, kube: kube}
	ctx, cancel := context.WithTimeout(context.Background(), polltest.Timeout())
	defer cancel()
	objects, err := kubetest.Installation(ctx, "default")
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := apply(ctx, kube, object); err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	_, err = envtest.InstallCRDs(config, envtest.CRDInstallOptions{Paths: []string{"../../charts/coder-k8s/files/crds"}, MaxTime: polltest.Timeout()})
	return err
}

func apply(ctx context.Context, kube client.Client, object *unstructured.Unstructured) error {
	object = object.DeepCopy()
	object.SetResourceVersion("")
	object.SetUID("")
	object.SetManagedFields(nil)
	return kube.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership)
}

// get reads an object by kind and name.
func (c cluster) get(t *testing.T, apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	if err := c.kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		t.Fatal(err)
	}
	return object
}

// without deletes an object for the rest of a test.
func (c cluster) without(t *testing.T, apiVersion, kind, namespace, name string) {
	t.Helper()
	object := c.get(t, apiVersion, kind, namespace, name)
	what := object.GetKind() + " " + object.GetName()
	// A busy etcd may not answer in time, and have deleted the object.
	t.Cleanup(func() {
		polltest.Eventually(t, what+" is back", func() error { return apply(context.Background(), c.kube, object) })
	})
	polltest.Eventually(t, what+" is deleted", func(ctx context.Context) error {
		return client.IgnoreNotFound(c.kube.Delete(ctx, object.DeepCopy()))
	})
	c.gone(t, object)
}

// gone waits until a deleted object no longer exists. After kube-apiserver failed to list the
// objects of a definition ("storage is (re)initializing"), it may not retry the deletion until the
// definition is changed: its finalizer controller retries at once with a cached definition, which
// ends in a conflict, and then ignores the event of its own change of the condition.
func (c cluster) gone(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	looks := 0
	polltest.Eventually(t, object.GetKind()+" "+object.GetName()+" is gone", func(ctx context.Context) error {
		looks++
		reminder := fmt.Appendf(nil, `{"metadata":{"annotations":{"test/looks":"%d"}}}`, looks)
		err := c.kube.Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, reminder))
		if err == nil {
			return errors.New("it exists")
		}
		return client.IgnoreNotFound(err)
	})
}

// changed changes an object for the rest of a test.
func (c cluster) changed(t *testing.T, apiVersion, kind, name string, value any, fields ...string) {
	t.Helper()
	object := c.get(t, apiVersion, kind, "", name)
	before, known, err := unstructured.NestedFieldCopy(object.Object, fields...)
	if err != nil {
		t.Fatal(err)
	}
	c.set(t, object, value, fields...)
	t.Cleanup(func() {
		if !known {
			before = nil
		}
		c.set(t, object, before, fields...)
	})
}

// set patches one field; nil removes it. A patch is needed because others write the object
// too.
func (c cluster) set(t *testing.T, object *unstructured.Unstructured, value any, fields ...string) {
	t.Helper()
	patch := map[string]any{}
	if err := unstructured.SetNestedField(patch, value, fields...); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.kube.Patch(context.Background(), object, client.RawPatch(types.MergePatchType, raw)); err != nil {
		t.Fatal(err)
	}
}

// as returns the client configuration of a ServiceAccount.
func (c cluster) as(t *testing.T, namespace, name string) *rest.Config {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.kube.Create(t.Context(), account); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{}
	if err := c.kube.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken, config.QPS = request.Status.Token, -1
	return config
}

// eventually waits until Check returns the expected problems. The caches of kube-apiserver
// lag behind writes.
func eventually(t *testing.T, config *rest.Config, want Expectation, right func([]Problem) bool) {
	t.Helper()
	polltest.Eventually(t, "the problems are as they should be", func(ctx context.Context) error {
		problems, err := Check(ctx, config, want)
		if err != nil || !right(problems) {
			return errors.Join(err, errors.New(lines(problems)))
		}
		return nil
	})
}

func lines(problems []Problem) string {
	var all []string
	for _, p := range problems {
		all = append(all, p.String())
	}
	return strings.Join(all, "\n")
}

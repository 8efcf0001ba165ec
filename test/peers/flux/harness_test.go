//go:build e2e

package flux

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

const (
	// system is the namespace of the sources and the Kustomizations.
	system = "peers-flux"
	// somebody is the field manager of manual changes.
	somebody = "somebody"
)

var (
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	crds       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// fluxed is a cluster with Flux's kustomize-controller.
type fluxed struct {
	api       dynamic.Interface
	discovery discovery.DiscoveryInterface
	artifacts *Artifacts
	url       string
}

// start runs the controller as a process of this machine, for the time of a test.
// What it brought into the cluster goes with it.
func start(t *testing.T) *fluxed {
	t.Helper()
	controller := need(t, "FLUX_CONTROLLER")
	config, err := clientcmd.BuildConfigFromFlags("", need(t, "KUBECONFIG"))
	must(t, err)
	config.QPS, config.Burst = 100, 200
	f := &fluxed{artifacts: &Artifacts{}}
	f.api, err = dynamic.NewForConfig(config)
	must(t, err)
	f.discovery, err = discovery.NewDiscoveryClientForConfig(config)
	must(t, err)
	server := httptest.NewServer(f.artifacts)
	t.Cleanup(server.Close)
	f.url = server.URL

	files, err := filepath.Glob(filepath.Join(need(t, "FLUX_CRDS"), "*.yaml"))
	must(t, err)
	if len(files) == 0 {
		t.Fatalf("there is no CRD in FLUX_CRDS; run test/peers/flux.sh build")
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		must(t, err)
		f.create(t, crds, object{}, string(raw))
	}
	f.namespaceOf(t, system)
	f.run(t, controller)
	return f
}

func (f *fluxed) run(t *testing.T, program string) {
	t.Helper()
	logs, err := os.Create(filepath.Join(os.TempDir(), "peers-flux-"+t.Name()+".log"))
	must(t, err)
	cmd := exec.Command(program,
		"--metrics-addr=0", "--health-addr=127.0.0.1:0", "--log-level=debug", "--requeue-dependency=2s", "--interval-jitter-percentage=0")
	cmd.Env = append(os.Environ(), "RUNTIME_NAMESPACE="+system)
	cmd.Stdout, cmd.Stderr = logs, logs
	must(t, cmd.Start())
	t.Logf("kustomize-controller is process %d, and writes to %s", cmd.Process.Pid, logs.Name())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("ending kustomize-controller: %v; see %s", err, logs.Name())
		}
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Error("kustomize-controller does not end")
			_ = cmd.Process.Kill()
		}
	})
}

// namespaceOf makes a namespace for the time of the test.
func (f *fluxed) namespaceOf(t *testing.T, name string) {
	t.Helper()
	f.create(t, namespaces, object{}, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: "+name+"\n")
}

// create makes an object that is not there, and deletes it after the test.
func (f *fluxed) create(t *testing.T, resource schema.GroupVersionResource, in object, manifest string) {
	t.Helper()
	obj := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal([]byte(manifest), &obj.Object))
	api := f.api.Resource(resource).Namespace(in.namespace)
	f.eventually(t, time.Minute, "creating "+obj.GetKind()+" "+obj.GetName(), func(ctx context.Context) error {
		_, err := api.Create(ctx, obj, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			live, err := api.Get(ctx, obj.GetName(), metav1.GetOptions{})
			if err == nil && live.GetDeletionTimestamp() != nil {
				return errors.New("an earlier one is still being deleted")
			}
			return err
		}
		return err
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := api.Delete(ctx, obj.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("deleting %s %s: %v", obj.GetKind(), obj.GetName(), err)
		}
	})
}

// mustServe waits until the cluster serves resources with watch.
func (f *fluxed) mustServe(t *testing.T, group schema.GroupVersion, resources ...string) {
	t.Helper()
	f.eventually(t, time.Minute, "waiting for "+group.String(), func(context.Context) error {
		list, err := f.discovery.ServerResourcesForGroupVersion(group.String())
		if err != nil {
			return err
		}
		for _, resource := range resources {
			if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool {
				return r.Name == resource && slices.Contains(r.Verbs, "watch")
			}) {
				return fmt.Errorf("%s is not served with watch", resource)
			}
		}
		return nil
	})
}

func (f *fluxed) get(ctx context.Context, obj object) (*unstructured.Unstructured, error) {
	return f.api.Resource(obj.resource).Namespace(obj.namespace).Get(ctx, obj.name, metav1.GetOptions{})
}

// holds waits until an object has the content of its file, and Flux's label.
func (f *fluxed) holds(t *testing.T, obj object, patience time.Duration) {
	t.Helper()
	f.eventually(t, patience, obj.name+" as its file says", func(ctx context.Context) error {
		live, err := f.get(ctx, obj)
		if err != nil {
			return err
		}
		if value, _, _ := unstructured.NestedFieldNoCopy(live.Object, obj.field...); value != obj.wanted {
			return fmt.Errorf("%v is %v, want %v", obj.field, value, obj.wanted)
		}
		if live.GetLabels()["kustomize.toolkit.fluxcd.io/namespace"] != system {
			return fmt.Errorf("Flux's labels are not there: %v", live.GetLabels())
		}
		return nil
	})
}

// drift changes an object like a user who does not use Flux.
func (f *fluxed) drift(t *testing.T, obj object) {
	t.Helper()
	change := map[string]any{}
	must(t, unstructured.SetNestedField(change, obj.changed, obj.field...))
	raw, err := json.Marshal(change)
	must(t, err)
	live, err := f.api.Resource(obj.resource).Namespace(obj.namespace).Patch(t.Context(), obj.name, types.MergePatchType, raw,
		metav1.PatchOptions{FieldManager: somebody})
	must(t, err)
	if value, _, _ := unstructured.NestedFieldNoCopy(live.Object, obj.field...); value != obj.changed {
		t.Fatalf("%s was changed by hand and has %v in %v, want %v", obj.name, value, obj.field, obj.changed)
	}
}

func (f *fluxed) vanishes(t *testing.T, obj object, patience time.Duration) {
	t.Helper()
	f.eventually(t, patience, "waiting until "+obj.name+" is gone", func(ctx context.Context) error {
		live, err := f.get(ctx, obj)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("it is there, deleted at %v, finalizers %v", live.GetDeletionTimestamp(), live.GetFinalizers())
	})
}

// eventually polls until the check returns no error.
func (f *fluxed) eventually(t *testing.T, patience time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, errors.Join(last, ctx.Err()))
		case <-ticker.C:
		}
	}
}

func need(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set; test/peers/flux.sh test sets it", name)
	}
	return value
}

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", file))
	must(t, err)
	return string(raw)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

package admission

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// environment is the kube-apiserver of this package, and the objects of the default installation. TestMain sets it
// once.
var environment struct {
	config       *rest.Config
	client       client.Client
	installation []*unstructured.Unstructured
}

const (
	controlPlane = "CoderControlPlane"
	provisioner  = "CoderProvisioner"
	proxy        = "CoderWorkspaceProxy"
	templateTest = "CoderTemplateTest"
	backup       = "CoderBackup"
	schedule     = "CoderBackupSchedule"
)

var (
	// allKinds are the kinds with pods of Coder.
	allKinds     = []string{controlPlane, provisioner, proxy}
	servingKinds = []string{controlPlane, proxy}
	basesDir     = filepath.Join("..", "..", "charts", "coder-k8s", "files", "crds")
)

// required is the minimal spec of each kind.
var required = map[string]string{
	controlPlane: "{}",
	provisioner:  "controlPlaneRef: {name: coder}",
	proxy:        "controlPlaneRef: {name: coder}",
	templateTest: "{controlPlaneRef: {name: coder}, template: coder.hello}",
	backup:       "{controlPlaneRef: {name: coder}, destination: {persistentVolumeClaim: {claimName: backups}}}",
	schedule:     "{controlPlaneRef: {name: coder}, schedule: 0 2 * * *, template: {destination: {persistentVolumeClaim: {claimName: backups}}}}",
}

func TestMain(m *testing.M) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS is not set: the admission tests are skipped; make test runs them")
		os.Exit(0)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	server := kubetest.Environment(basesDir)
	config, err := server.Start()
	defer func() {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping kube-apiserver:", err)
		}
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting etcd and kube-apiserver with our definitions:", err)
		return 1
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, coderv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			fmt.Fprintln(os.Stderr, "registering types:", err)
			return 1
		}
	}
	environment.config = config
	if environment.installation, err = kubetest.Installation(context.Background(), "default"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if environment.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		fmt.Fprintln(os.Stderr, "making a client:", err)
		return 1
	}
	return m.Run()
}

func namespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := environment.client.Create(t.Context(), ns); err != nil {
		t.Fatalf("making a namespace: %v", err)
	}
	return ns.Name
}

// object returns an object of the kind: the required spec, merged with the fields
// of spec (YAML). Fields that are null in spec are omitted.
func object(t *testing.T, kind, ns, name, spec string) *unstructured.Unstructured {
	t.Helper()
	fields := map[string]any{}
	for _, text := range []string{required[kind], spec} {
		var given map[string]any
		if err := yaml.Unmarshal([]byte(text), &given); err != nil {
			t.Fatalf("the spec %q is no YAML: %v", text, err)
		}
		for key, value := range given {
			fields[key] = value
			if value == nil {
				delete(fields, key)
			}
		}
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "coder.com", Version: "v1alpha1", Kind: kind})
	o.SetNamespace(ns)
	o.SetName(name)
	return o
}

// definitions reads our definitions from the repository.
func definitions(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(basesDir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no definitions in %s: %v", basesDir, err)
	}
	found := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(raw, definition); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		found[definition.Spec.Names.Kind] = definition
	}
	return found
}

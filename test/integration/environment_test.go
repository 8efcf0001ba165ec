package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/consistencydetector"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// environment is the kube-apiserver of this package. TestMain sets it once.
var environment struct {
	dir    string       // Removed when the package's tests end.
	config *rest.Config // An administrator of the cluster.
	client client.Client
	scheme *runtime.Scheme
	server *envtest.Environment
}

func TestMain(m *testing.M) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS is not set: the integration tests are skipped; make test runs them")
		os.Exit(0)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	// The informers of these tests panic if the initial events of a watch differ from
	// a list at the same revision.
	consistencydetector.SetDataConsistencyDetectionForWatchListEnabledForTest(true)
	dir, err := os.MkdirTemp("", "coder-k8s-integration")
	if err != nil {
		return fail("making a directory", err)
	}
	defer os.RemoveAll(dir)
	environment.dir = dir
	go func() { _, _ = binary() }() // Its users wait for it, and report its error.
	server := kubetest.Environment(filepath.Join("..", "..", "charts", "coder-k8s", "files", "crds"))
	if err := configureAggregation(server.ControlPlane.GetAPIServer(), dir); err != nil {
		return fail("configuring the aggregation layer", err)
	}
	if err := configureAudit(server.ControlPlane.GetAPIServer(), dir); err != nil {
		return fail("configuring the audit log", err)
	}
	config, err := server.Start()
	if err != nil {
		return fail("starting etcd and kube-apiserver", err)
	}
	defer func() {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping kube-apiserver:", err)
		}
	}()
	// No client-side limit for the tests' own requests.
	config.QPS = -1
	environment.config, environment.server = config, server
	environment.scheme = runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, coderv1alpha1.AddToScheme, aggregationv1alpha1.AddToScheme, apiregistrationv1.AddToScheme,
		gatewayv1.Install, monitoringv1.AddToScheme,
	} {
		if err := add(environment.scheme); err != nil {
			return fail("registering types", err)
		}
	}
	if environment.client, err = client.New(config, client.Options{Scheme: environment.scheme}); err != nil {
		return fail("making a client", err)
	}
	return m.Run()
}

func fail(what string, err error) int {
	fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
	return 1
}

// namespace creates a namespace for one test. Nothing deletes its content: there is
// no controller manager, and the whole server ends with the package.
func namespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := environment.client.Create(t.Context(), ns); err != nil {
		t.Fatalf("making a namespace: %v", err)
	}
	return ns.Name
}

// startControllerManager runs some of the real controllers of Kubernetes until the test
// ends. They watch all namespaces, so no other test may run in parallel.
func startControllerManager(t *testing.T, controllers string, args ...string) {
	t.Helper()
	kubeconfig := kubeconfigFile(t, environment.config)
	out := &syncBuffer{}
	cmd := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-controller-manager"), append([]string{
		"--kubeconfig", kubeconfig, "--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig,
		"--controllers=" + controllers, "--leader-elect=false",
		"--bind-address=127.0.0.1", "--secure-port=" + kubetest.FreePort(t), "--cert-dir=" + t.TempDir(),
		"--kube-api-qps=300", "--kube-api-burst=600",
	}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting kube-controller-manager: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if logs := out.String(); t.Failed() {
			t.Logf("the end of kube-controller-manager's log:\n%s", logs[max(0, len(logs)-5000):])
		}
	})
}

// tokenOf reads the operator's token for a control plane.
func tokenOf(t *testing.T, ns, name string) string {
	t.Helper()
	secret := &corev1.Secret{}
	if err := environment.client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name + "-operator-token"}, secret); err != nil {
		t.Fatal(err)
	}
	return string(secret.Data["token"])
}

// moduleDir returns the directory with the sources of a module that this one
// uses.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		t.Fatalf("the sources of %s are not there: %v; run go mod download", module, err)
	}
	return dir
}

// serviceMonitors defines the kind with any content: the real definition is in a
// module that nothing else here needs.
func serviceMonitors() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "servicemonitors.monitoring.coreos.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "monitoring.coreos.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "servicemonitors", Singular: "servicemonitor", Kind: "ServiceMonitor", ListKind: "ServiceMonitorList",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true),
				}},
			}},
		},
	}
}

// installLater installs the custom resource definitions of the Gateway API and of
// the Prometheus Operator, until the test ends.
func installLater(t *testing.T) {
	t.Helper()
	routes := filepath.Join(moduleDir(t, "sigs.k8s.io/gateway-api"), "config", "crd", "standard", "gateway.networking.k8s.io_httproutes.yaml")
	options := envtest.CRDInstallOptions{
		Paths: []string{routes}, ErrorIfPathMissing: true, CRDs: []*apiextensionsv1.CustomResourceDefinition{serviceMonitors()},
		MaxTime: time.Minute,
	}
	if _, err := envtest.InstallCRDs(environment.config, options); err != nil {
		t.Fatalf("installing the custom resource definitions: %v", err)
	}
	t.Cleanup(func() {
		if err := envtest.UninstallCRDs(environment.config, options); err != nil {
			t.Errorf("removing the custom resource definitions: %v", err)
		}
	})
}

package uninstall

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/installation"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// cluster is a real kube-apiserver with the garbage collector and the namespace controller.
// The tests do the work of the kubelet.
type cluster struct {
	config     *rest.Config
	kubeconfig string
	kube       client.Client
	// team is the namespace of the test's Coder deployments.
	team string
}

// servers are started by the first test that gets them, and stopped by TestMain.
type servers struct {
	once    sync.Once
	err     error
	stop    []func()
	cluster cluster
}

// free contains the servers that no test uses. Tests run in parallel, because they mostly
// wait for the deletion of definitions and for the garbage collector.
var free = make(chan *servers, 3)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	if err := flag.Set("test.parallel", strconv.Itoa(cap(free))); err != nil {
		panic(err)
	}
	all := make([]servers, cap(free))
	for i := range all {
		free <- &all[i]
	}
	code := m.Run()
	for i := range all {
		for _, stop := range slices.Backward(all[i].stop) {
			stop()
		}
	}
	os.Exit(code)
}

// newCluster returns a cluster that no other test uses at the same time, without coder-k8s,
// and with a new namespace for the test.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS does not say where kube-apiserver is; make test does")
	}
	t.Parallel()
	s := <-free
	t.Cleanup(func() { free <- s })
	s.once.Do(func() { s.err = s.start() })
	if s.err != nil {
		t.Fatal(s.err)
	}
	c := s.cluster
	c.emptied(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}
	c.create(t, ns)
	c.team = ns.Name
	t.Cleanup(func() {
		if code, _, said := c.uninstall(context.Background(), "--control-planes=remove", "--yes", "--timeout=1m"); code != cli.ExitOK && code != cli.ExitPartial {
			t.Errorf("cleaning up: exit code %d:\n%s", code, said)
		}
	})
	return &c
}

// emptied waits until the objects of the previous test are deleted. That may take longer
// than the command waited, and kube-apiserver may have to be reminded of a definition.
func (c *cluster) emptied(t *testing.T) {
	t.Helper()
	u := &uninstaller{kube: c.kube}
	polltest.Eventually(t, "the end of the installation before", func() error {
		if _, err := u.stillThere(t.Context(), installation.AllDefinitions()); err != nil {
			return err
		}
		if left := c.left(t); len(left) > 0 {
			return fmt.Errorf("these are left: %v", left)
		}
		return nil
	})
}

func (s *servers) start() error {
	server := kubetest.Environment()
	config, err := server.Start()
	if err != nil {
		return err
	}
	s.stop = append(s.stop, func() { _ = server.Stop() })
	config.QPS = -1
	kube, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "coder-k8s-uninstall")
	if err != nil {
		return err
	}
	s.stop = append(s.stop, func() { _ = os.RemoveAll(dir) })
	s.cluster = cluster{config: config, kube: kube, kubeconfig: filepath.Join(dir, "kubeconfig")}
	if err := os.WriteFile(s.cluster.kubeconfig, server.KubeConfig, 0o600); err != nil {
		return err
	}
	return s.startControllers()
}

// startControllers starts the real garbage collector and namespace controller.
func (s *servers) startControllers() error {
	kubeconfig := s.cluster.kubeconfig
	cmd := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-controller-manager"),
		"--kubeconfig", kubeconfig, "--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig,
		"--controllers=namespace-controller,garbage-collector-controller", "--leader-elect=false",
		// It needs no port, because nothing connects to it. A fixed port might be in use.
		"--secure-port=0",
		"--kube-api-qps=300", "--kube-api-burst=600")
	if err := cmd.Start(); err != nil {
		return err
	}
	s.stop = append(s.stop, func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return nil
}

// schemaless returns the definitions without their schemas, which have no part in an uninstallation
// and cost a kube-apiserver most of the time of these tests.
var schemaless = sync.OnceValues(func() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	read := envtest.CRDInstallOptions{Paths: []string{"../../charts/coder-k8s/files/crds"}}
	err := envtest.ReadCRDFiles(&read)
	for _, definition := range read.CRDs {
		for i := range definition.Spec.Versions {
			definition.Spec.Versions[i].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
		}
	}
	return read.CRDs, err
})

// install applies the default installation, and sets the status of a running operator.
func (c *cluster) install(t *testing.T) {
	t.Helper()
	objects, err := kubetest.Installation(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := schemaless()
	if err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(t, "the definitions are installed", func() error {
		// InstallCRDs changes what it gets.
		options := envtest.CRDInstallOptions{MaxTime: polltest.Timeout()}
		for _, definition := range definitions {
			options.CRDs = append(options.CRDs, definition.DeepCopy())
		}
		_, err := envtest.InstallCRDs(c.config, options)
		return err
	})
	c.served(t)
	for _, object := range objects {
		if object.GetKind() != "CustomResourceDefinition" {
			c.create(t, object)
		}
	}
	operator := &appsv1.Deployment{}
	c.get(t, operator, installation.Namespace, installation.Name)
	operator.Status.Replicas, operator.Status.AvailableReplicas, operator.Status.ReadyReplicas = 1, 1, 1
	if err := c.kube.Status().Update(t.Context(), operator); err != nil {
		t.Fatal(err)
	}
}

// served waits until kube-apiserver serves the kinds. Discovery may still return those of
// the previous definitions of the same names.
func (c *cluster) served(t *testing.T) {
	t.Helper()
	for _, d := range installation.AllDefinitions() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(d.Resource.GroupVersion().WithKind(d.Kind + "List"))
		polltest.Eventually(t, "listing every "+d.Kind, func() error { return c.kube.List(t.Context(), list) })
	}
}

// create creates an object. For a short time, the admission of kube-apiserver may use its
// cached copy of the deleted namespace of the same name, or not know a new definition (503).
func (c *cluster) create(t *testing.T, obj client.Object) {
	t.Helper()
	polltest.Eventually(t, fmt.Sprintf("making %T %s", obj, obj.GetName()), func() error {
		err := c.kube.Create(t.Context(), obj)
		if err != nil && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) && !apierrors.IsServiceUnavailable(err) {
			t.Fatalf("making %T %s: %v", obj, obj.GetName(), err)
		}
		return err
	})
}

// coder creates a control plane, a provisioner or a proxy, with the owned objects that the
// operator would create.
func (c *cluster) coder(t *testing.T, d installation.Definition, name string, status map[string]any) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	switch d.Kind {
	case "CoderProvisioner":
		obj.Object["spec"] = map[string]any{"controlPlaneRef": map[string]any{"name": "coder"}}
	case "CoderBackup":
		obj.Object["spec"] = map[string]any{"controlPlaneRef": map[string]any{"name": "coder"}}
	case "CoderTemplateTest":
		obj.Object["spec"] = map[string]any{"controlPlaneRef": map[string]any{"name": "coder"}, "template": "coder.hello"}
	case "CoderWorkspaceProxy":
		obj.Object["spec"] = map[string]any{"controlPlaneRef": map[string]any{"name": "coder"}, "accessURL": "https://proxy.example.com"}
	}
	obj.SetGroupVersionKind(d.Resource.GroupVersion().WithKind(d.Kind))
	obj.SetNamespace(c.team)
	obj.SetName(name)
	obj.SetLabels(map[string]string{"team": "a"})
	if d.Finalizer != "" {
		obj.SetFinalizers([]string{d.Finalizer})
	}
	c.create(t, obj)
	obj.Object["status"] = status
	if err := c.kube.Status().Update(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	if d.Kind == "CoderTemplateTest" {
		// It owns nothing in the cluster.
		return obj
	}
	owner := metav1.OwnerReference{
		APIVersion: obj.GetAPIVersion(), Kind: d.Kind, Name: name, UID: obj.GetUID(), Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}
	meta := metav1.ObjectMeta{
		Namespace: c.team, Name: name, OwnerReferences: []metav1.OwnerReference{owner},
		Labels: map[string]string{"app.kubernetes.io/managed-by": "coder-k8s"},
	}
	for _, child := range []client.Object{
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": name}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": name}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "coder", Image: "coder"}}},
			},
		}},
		&corev1.Secret{ObjectMeta: meta},
		&corev1.ServiceAccount{ObjectMeta: meta},
	} {
		c.create(t, child)
	}
	return obj
}

// all creates one object of each kind.
func (c *cluster) all(t *testing.T) {
	t.Helper()
	for _, d := range installation.Definitions() {
		name := map[string]string{"CoderControlPlane": "coder", "CoderProvisioner": "builders", "CoderTemplateTest": "nightly", "CoderWorkspaceProxy": "paris",
			"CoderBackup": "first", "CoderBackupSchedule": "daily"}[d.Kind]
		status := map[string]map[string]any{
			"CoderControlPlane":   {"url": "https://coder.example.com"},
			"CoderProvisioner":    {"provisionerKeyName": "team-builders"},
			"CoderBackup":         {"directory": "coder/first"},
			"CoderTemplateTest":   {"workspaceName": "test-1", "ownerName": "tester"},
			"CoderWorkspaceProxy": {"proxyName": "paris"},
		}[d.Kind]
		c.coder(t, d, name, status)
	}
}

// operator simulates the operator's finalizers until end is called or the test ends. end
// returns the kinds in the order in which they were released.
func (c *cluster) operator(t *testing.T) (end func() (order []string)) {
	t.Helper()
	stop := make(chan struct{})
	var order []string
	var ended sync.WaitGroup
	ended.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			order = append(order, c.letGo()...)
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
		}
	})
	var once sync.Once
	end = func() []string {
		once.Do(func() { close(stop) })
		ended.Wait()
		return order
	}
	t.Cleanup(func() { end() })
	return end
}

// letGo removes the finalizers of objects that are being deleted, and returns their kinds.
func (c *cluster) letGo() []string {
	var order []string
	for _, d := range installation.Definitions() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(d.Resource.GroupVersion().WithKind(d.Kind + "List"))
		if err := c.kube.List(context.Background(), list); err != nil {
			continue
		}
		for i := range list.Items {
			item := &list.Items[i]
			if item.GetDeletionTimestamp() == nil || len(item.GetFinalizers()) == 0 {
				continue
			}
			item.SetFinalizers(nil)
			if err := c.kube.Update(context.Background(), item); err == nil {
				order = append(order, d.Kind)
			}
		}
	}
	return order
}

// uninstall runs the command.
func (c *cluster) uninstall(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errOut bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}
	args = append([]string{"--kubeconfig", c.kubeconfig}, args...)
	code = cli.Execute(ctx, newCommand(streams, polltest.Timeout()), args, streams)
	said := errOut.String()
	if c.team != "" {
		said = strings.ReplaceAll(said, c.team+"/", "team/")
	}
	return code, out.String(), said
}

// must runs the command and checks the exit code.
func (c *cluster) must(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := c.uninstall(t.Context(), args...)
	if code != want {
		t.Fatalf("exit code %d, want %d:\n%s", code, want, stderr)
	}
	return stdout, stderr
}

// left returns the objects of the installation that still exist.
func (c *cluster) left(t *testing.T) []string {
	t.Helper()
	var left []string
	u := &uninstaller{kube: c.kube, namespace: installation.Namespace}
	all := append(sweeps(), sweep{kind: kind("apps", "Deployment"), everywhere: true},
		sweep{kind: kind("", "Namespace")},
		sweep{kind: kind("apiregistration.k8s.io", "APIService")},
		sweep{kind: installation.DefinitionKind(), names: []string{
			"coderbackups.coder.com", "coderbackupschedules.coder.com", "codercontrolplanes.coder.com", "coderprovisioners.coder.com", "codertemplatetests.coder.com", "coderworkspaceproxies.coder.com",
			"codermirrorstates.internal.coder.com", "codertemplaterecords.internal.coder.com", "codertemplatesources.internal.coder.com",
			"coderuserrecords.internal.coder.com", "coderworkspacerecords.internal.coder.com",
		}})
	for _, s := range all {
		var found []metav1.PartialObjectMetadata
		polltest.Eventually(t, "listing every "+s.kind.Kind, func(ctx context.Context) (err error) {
			found, err = u.find(ctx, s)
			return err
		})
		for _, item := range found {
			left = append(left, s.kind.Kind+" "+item.Name)
		}
	}
	return left
}

// nothingLeft checks that no object of the installation exists.
func (c *cluster) nothingLeft(t *testing.T) {
	t.Helper()
	if left := c.left(t); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

// says checks that a text contains sentences.
func says(t *testing.T, said string, sentences ...string) {
	t.Helper()
	for _, want := range sentences {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
}

func (c *cluster) get(t *testing.T, obj client.Object, namespace, name string) {
	t.Helper()
	if err := c.kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, obj); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) update(t *testing.T, obj client.Object) {
	t.Helper()
	if err := c.kube.Update(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) remove(t *testing.T, obj client.Object) {
	t.Helper()
	if err := c.kube.Delete(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
}

// exists reports whether an object exists.
func (c *cluster) exists(t *testing.T, gvk string, namespace, name string) bool {
	t.Helper()
	group, rest, _ := strings.Cut(gvk, "/")
	_, kindName, _ := strings.Cut(rest, "/")
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(kind(group, kindName))
	err := c.kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, obj)
	if err != nil && !gone(err) {
		t.Fatal(err)
	}
	return err == nil
}

// kept checks that the objects that the operator created for all exist.
func (c *cluster) kept(t *testing.T) {
	t.Helper()
	for _, name := range []string{"coder", "builders", "paris"} {
		if err := c.children(t, name, true); err != nil {
			t.Error(err)
		}
	}
}

// removed waits until the objects that the operator created for all are deleted.
func (c *cluster) removed(t *testing.T) {
	t.Helper()
	for _, name := range []string{"coder", "builders", "paris"} {
		polltest.Eventually(t, "collecting what belonged to "+name, func() error { return c.children(t, name, false) })
	}
}

// children returns an error unless the owned objects of an object all exist, or all do not
// exist.
func (c *cluster) children(t *testing.T, name string, want bool) error {
	t.Helper()
	for _, gvk := range []string{"apps/v1/Deployment", "/v1/Secret", "/v1/ServiceAccount"} {
		if got := c.exists(t, gvk, c.team, name); got != want {
			return fmt.Errorf("%s %s exists: %v, want %v", gvk, name, got, want)
		}
	}
	return nil
}

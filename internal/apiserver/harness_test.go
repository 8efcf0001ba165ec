package apiserver

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage/cacher/consistency"
	"k8s.io/client-go/dynamic"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/util/consistencydetector"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const (
	testToken    = "let-me-in"
	readerToken  = "let-me-read"
	podNamespace = "coder-system"
	mainTF       = "main.tf"
	// librarySaysBug is in the library's log messages about states that only a bug can cause.
	librarySaysBug = "SHOULD NOT HAPPEN"
)

var (
	workspacesGVR = schema.GroupVersionResource{Group: "aggregation.coder.com", Version: "v1alpha1", Resource: "coderworkspaces"}
	templatesGVR  = schema.GroupVersionResource{Group: "aggregation.coder.com", Version: "v1alpha1", Resource: "codertemplates"}
)

// The server that the tests of this process share. A server takes a while to start and to stop, so
// each test that needs no server of its own uses a namespace on this one.
var (
	lasting = &process{}
	logged  = &journal{}
	shared  = sync.OnceValue(func() *site {
		s := newSite(lasting, logged)
		s.start(lasting)
		return s
	})
)

// TestMain declares to the library which features the storage supports, enables the comparison of
// each list that a watch delivers with a list, and of each cache with the records, and checks the
// log.
func TestMain(m *testing.M) {
	records.EnableWatchProgress()
	consistency.PanicOnCacheInconsistency, consistency.CheckPeriod = true, 2*time.Second
	consistencydetector.SetDataConsistencyDetectionForWatchListEnabledForTest(true)
	klog.LogToStderr(false)
	klog.SetOutput(logged)
	log.SetLogger(logged.logger())
	// These tests mostly wait. The flag on the command line takes precedence.
	_ = flag.Set("test.parallel", "8")
	code := m.Run()
	failures := append(lasting.end(), logged.having(librarySaysBug)...)
	if len(failures) > 0 {
		fmt.Fprintln(os.Stderr, "FAIL: the server that the tests share:\n"+strings.Join(failures, "\n"))
		code = max(code, 1)
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, strings.Join(logged.having(""), "\n"))
	}
	os.Exit(code)
}

// fixture is a namespace with its own Coder on a site.
type fixture struct {
	*site
	namespace string
	coder     *coderdtest.Server
	template  uuid.UUID
}

// newFixture returns a namespace on the shared server. Its Coder has user ada and template starter.
func newFixture(t *testing.T, options ...coderdtest.Option) *fixture {
	t.Helper()
	t.Parallel()
	return join(t, shared(), options...)
}

// newOwnFixture returns a namespace on a server of its own, for a test that reads all namespaces or
// stops the server. It also has the namespaces empty, pending (whose control plane the test makes
// unready) and second.
func newOwnFixture(t *testing.T, options ...coderdtest.Option) *fixture {
	t.Helper()
	t.Parallel()
	s := newSite(t, logged)
	s.start(t)
	return join(t, s, options...)
}

// join creates a namespace on a site, and waits until its Coder was read.
func join(t testing.TB, s *site, options ...coderdtest.Option) *fixture {
	t.Helper()
	f := prepared(t, s, options...)
	f.becomes(t, syncstatus.Ready)
	return f
}

// prepared creates a namespace on a site that may not run yet.
func prepared(t testing.TB, s *site, options ...coderdtest.Option) *fixture {
	t.Helper()
	f := &fixture{site: s, coder: coderdtest.New(t, options...), namespace: fmt.Sprintf("coder-%d", s.joined.Add(1))}
	token := f.coder.AddUser("operator", "owner")
	f.coder.AddUser("ada", "member")
	f.template = f.coder.AddTemplate("coder", "starter", map[string]string{mainTF: "# one"})
	client, err := coderd.New(coderd.Config{URL: f.coder.URL, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.kube.CoreV1().Namespaces().Create(t.Context(), namespace(f.namespace), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.provider.add(connections.Connection{ControlPlane: f.controlPlane(), Client: client})
	t.Cleanup(func() {
		s.provider.remove(f.namespace)
		for _, line := range s.journal.having(librarySaysBug) {
			t.Error(line)
		}
	})
	return f
}

func (f *fixture) controlPlane() types.NamespacedName {
	return types.NamespacedName{Namespace: f.namespace, Name: "coder"}
}

// becomes waits until the control plane has a state.
func (f *fixture) becomes(t testing.TB, state syncstatus.State) {
	t.Helper()
	polltest.Eventually(t, "the control plane is "+string(state), func() error {
		found, _ := f.server.storage.board.InNamespace(f.namespace)
		if len(found) != 1 || found[0].State != state {
			return fmt.Errorf("the board shows %v, want %s", found, state)
		}
		return nil
	})
}

// remembered waits until the state of the control plane is stored in the cluster.
func (f *fixture) remembered(t testing.TB, state syncstatus.State) {
	t.Helper()
	polltest.Eventually(t, "the cluster has the state "+string(state), func() error {
		reported, err := f.server.storage.states.stored()
		if err == nil && reported[f.controlPlane()].State != state {
			err = fmt.Errorf("it has %v", reported)
		}
		return err
	})
}

// addWorkspace creates a workspace in Coder, and waits until it is served.
func (f *fixture) addWorkspace(t testing.TB, name string) uuid.UUID {
	t.Helper()
	id := f.coder.AddWorkspace("ada", f.template, name)
	f.hint(id)
	polltest.Eventually(t, "workspace "+name+" is shown", func() error {
		_, err := f.ws().Get(context.Background(), "coder.ada."+strings.ToLower(name), metav1.GetOptions{})
		return err
	})
	return id
}

// addMany creates workspaces scale-<number> in Coder, waits until they are served, and returns the
// names of their objects.
func (f *fixture) addMany(t testing.TB, n int) (all []string) {
	t.Helper()
	f.hint(f.coder.AddWorkspaces(n, "ada", f.template)...)
	polltest.Eventually(t, fmt.Sprintf("%d workspaces are shown", n), func() error {
		list, err := f.ws().List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) < n {
			return fmt.Errorf("%d workspaces, want %d", len(list.Items), n)
		}
		all = names(list)
		return nil
	})
	return all
}

// hint makes the mirror read workspaces at once. Otherwise it finds workspaces whose builds ended
// before the first read only after two drift checks.
func (f *fixture) hint(ids ...uuid.UUID) {
	for _, id := range ids {
		f.server.storage.hints.Object("CoderWorkspace", f.controlPlane(), id)
	}
}

// kept returns the kept metadata of the objects of the fixture.
func (f *fixture) kept() []*metadata.Record { return f.server.storage.kept.List(f.controlPlane()) }

// path returns the URL path of a resource in the fixture's namespace.
func (f *fixture) path(rest string) string {
	return "/apis/aggregation.coder.com/v1alpha1/namespaces/" + f.namespace + "/" + rest
}

// ws and tmpl return clients for the objects of the fixture's namespace.
func (f *fixture) ws() dynamic.ResourceInterface   { return f.workspacesIn(f.namespace) }
func (f *fixture) tmpl() dynamic.ResourceInterface { return f.templatesIn(f.namespace) }

func (f *fixture) workspacesIn(namespace string) dynamic.ResourceInterface {
	return f.client.Resource(workspacesGVR).Namespace(namespace)
}

func (f *fixture) templatesIn(namespace string) dynamic.ResourceInterface {
	return f.client.Resource(templatesGVR).Namespace(namespace)
}

// workspace reads a workspace until ok returns true.
func (f *fixture) workspace(t testing.TB, name string, ok func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	t.Helper()
	return until(t, f.ws(), name, ok)
}

// templateIs reads template coder.starter until ok returns true.
func (f *fixture) templateIs(t testing.TB, ok func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	t.Helper()
	return until(t, f.tmpl(), "coder.starter", ok)
}

func until(t testing.TB, objects dynamic.ResourceInterface, name string, ok func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	t.Helper()
	var found *unstructured.Unstructured
	polltest.Eventually(t, name+" is as it should be", func() error {
		var err error
		if found, err = objects.Get(context.Background(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		if !ok(found) {
			return fmt.Errorf("%s is %v", name, found.Object)
		}
		return nil
	})
	return found
}

// gone waits until an object does not exist any more.
func gone(t testing.TB, objects dynamic.ResourceInterface, name string) {
	t.Helper()
	polltest.Eventually(t, name+" is gone", func() error {
		found, err := objects.Get(context.Background(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("%s is there: %v", name, found)
	})
}

// answer is the response to a plain HTTP request.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request that the typed clients would not send, or whose headers they hide.
func (f *fixture) do(t *testing.T, method, path string, header map[string]string, body string) answer {
	t.Helper()
	return request(t, f.config, method, path, header, body)
}

// request is like do, with another client configuration.
func request(t *testing.T, config *restclient.Config, method, path string, header map[string]string, body string) answer {
	t.Helper()
	client, err := restclient.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, config.Host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range header {
		request.Header.Set(key, value)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(content)}
}

func workspaceObject(name string, spec map[string]any) *unstructured.Unstructured {
	return object("CoderWorkspace", name, spec)
}

func templateObject(name string, spec map[string]any) *unstructured.Unstructured {
	return object("CoderTemplate", name, spec)
}

func object(kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": workspacesGVR.GroupVersion().String(), "kind": kind,
		"metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// at returns a field as text.
func at(obj *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
	return text(value)
}

// idIn returns the id in Coder of an object.
func idIn(obj *unstructured.Unstructured) string { return at(obj, "status", "id") }

// condition returns status and reason of a condition.
func condition(obj *unstructured.Unstructured, kind string) string {
	all, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range all {
		if entry, ok := c.(map[string]any); ok && entry["type"] == kind {
			return text(entry["status"]) + " " + text(entry["reason"])
		}
	}
	return "absent"
}

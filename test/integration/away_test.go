package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const (
	// awayVariable sets how long kube-apiserver is unavailable in TestKubeAPIServerAway,
	// and objectsVariable the number of workspaces of TestAllReplicasRestart.
	awayVariable, objectsVariable = "CODER_K8S_TEST_AWAY", "CODER_K8S_TEST_OBJECTS"
	listPath                      = "/apis/aggregation.coder.com/v1alpha1/namespaces/%s/coderworkspaces"
)

// served is a namespace whose control plane is ready, without a replica of the API.
type served struct {
	ns, proxy string
	coder     *coderdtest.Server
}

func newServed(t *testing.T, workspaces int) *served {
	t.Helper()
	names, proxy := startCoders(t)
	s := &served{ns: namespace(t), proxy: proxy}
	controller := startProcess(t, proxy, "--app=controller", "--leader-elect=false", "--watch-namespaces="+s.ns)
	s.coder = controlPlaneReady(t, names, s.ns, "coder")
	controller.kill()
	template := s.coder.AddTemplate("coder", "hello", map[string]string{"main.tf": "# nothing\n"})
	s.coder.AddWorkspace("admin", template, "probe")
	s.coder.AddWorkspaces(workspaces-1, "admin", template)
	return s
}

// answer is a response without retries of a client library.
type answer struct {
	status  int
	header  http.Header
	objects map[string]*unstructured.Unstructured
}

// later reports whether the request was refused temporarily. The library returns 429
// while it reopens its watch of the records.
func (a *answer) later() bool {
	return (a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests) && a.header.Get("Retry-After") != ""
}

// label returns a label of the workspace that all these tests change.
func (a *answer) label(key string) string {
	if object := a.objects[probe]; object != nil {
		return object.GetLabels()[key]
	}
	return ""
}

func (s *served) get(ctx context.Context, r *replica, path string) (*answer, error) {
	c, err := rest.HTTPClientFor(r.config)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.config.Host+fmt.Sprintf(listPath, s.ns)+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := c.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	a := &answer{status: response.StatusCode, header: response.Header}
	if a.status != http.StatusOK || strings.HasPrefix(path, "/") {
		return a, nil
	}
	list := &unstructured.UnstructuredList{}
	if err := json.NewDecoder(response.Body).Decode(list); err != nil {
		return nil, err
	}
	a.objects = byName(list)
	return a, nil
}

// shows waits until a replica lists n workspaces.
func (s *served) shows(t *testing.T, r *replica, n int) {
	t.Helper()
	polltest.Eventually(t, fmt.Sprintf("%d workspaces are there", n), func(ctx context.Context) error {
		a, err := s.get(ctx, r, "?resourceVersion=0")
		if err == nil && len(a.objects) != n {
			err = fmt.Errorf("HTTP %d, %d workspaces", a.status, len(a.objects))
		}
		return err
	})
}

// replicaAt starts a replica that uses the kube-apiserver at an address.
func (s *served) replicaAt(t *testing.T, address string) *replica {
	t.Helper()
	config := operatorConfig(t)
	config.Host = address
	r := &replica{process: startProcessAs(t, config, s.proxy, "--app=aggregated-apiserver", "--watch-namespaces="+s.ns), up: true, lives: 1}
	r.serverRestarts = true
	r.ready(t)
	r.config = directConfig(t, r.process)
	return r
}

// TestKubeAPIServerAway: the kube-apiserver of one replica is killed, or paused, for a
// while, and another replica changes an object in the meantime. Consistent reads return
// 503 and Retry-After, never stale data, and are correct soon after kube-apiserver is
// available again.
func TestKubeAPIServerAway(t *testing.T) {
	server := newAPIServer(t)
	server.start(t)
	t.Cleanup(server.kill)
	s := newServed(t, 5)
	cut := s.replicaAt(t, server.address)
	s.shows(t, cut, 5)
	other := startReplicas(t, s.proxy, 1, "--watch-namespaces="+s.ns)[0]
	s.shows(t, other, 5)
	away, err := time.ParseDuration(os.Getenv(awayVariable))
	if err != nil {
		away = 3 * time.Second
	}
	for _, how := range []string{"killed", "stopped"} {
		if how == "killed" {
			server.kill()
		} else if err := server.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for _, path := range []string{"", "/" + probe} {
			polltest.Eventually(t, "consistent reads are refused", func(ctx context.Context) error {
				a, err := s.get(ctx, cut, path)
				if err == nil && !a.later() {
					err = fmt.Errorf("HTTP %d, Retry-After %q", a.status, a.header.Get("Retry-After"))
				}
				return err
			})
			t.Logf("%s: a consistent read of %q was refused %.1f s after kube-apiserver was %s", cut.name, path, time.Since(began).Seconds(), how)
		}
		if a, err := s.get(t.Context(), cut, "?resourceVersion=0"); err != nil || len(a.objects) != 5 {
			t.Errorf("%s: a read of any revision returns %v, %v", how, a, err)
		}
		if _, err := other.client.Resource(workspacesGVR).Namespace(s.ns).Patch(t.Context(), probe, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{"changed":%q}}}`, how), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		pause(t.Context(), time.Until(began.Add(away)))
		if how == "killed" {
			server.start(t)
		} else if err := server.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		s.isBack(t, cut, how, time.Since(began))
	}
}

// isBack waits until a replica serves consistent reads again, each of which must show the
// changes of the other replica.
func (s *served) isBack(t *testing.T, cut *replica, how string, away time.Duration) {
	t.Helper()
	began := time.Now()
	polltest.Eventually(t, "consistent reads are answered", func(ctx context.Context) error {
		a, err := s.get(ctx, cut, "")
		switch {
		case err != nil:
			return err
		case a.later():
			return fmt.Errorf("HTTP %d", a.status)
		case a.status != http.StatusOK || len(a.objects) != 5 || a.label("changed") != how:
			t.Errorf("HTTP %d, %d workspaces, label %q, want %q", a.status, len(a.objects), a.label("changed"), how)
		}
		return nil
	})
	t.Logf("kube-apiserver was %s for %.1f s; consistent reads were correct %.2f s after its return", how, away.Seconds(), time.Since(began).Seconds())
}

// TestSlowKubeAPIServer: what kube-apiserver sends to one replica arrives 300 ms late. Both replicas change an object in
// turn. Each read at the other shows the change, and nothing is refused.
func TestSlowKubeAPIServer(t *testing.T) {
	s := newServed(t, 5)
	way := newRelay(t, 300*time.Millisecond)
	slow := s.replicaAt(t, "https://"+way.address)
	s.shows(t, slow, 5)
	fast := startReplicas(t, s.proxy, 1, "--watch-namespaces="+s.ns)[0]
	s.shows(t, fast, 5)
	client, err := dynamic.NewForConfig(slow.config)
	if err != nil {
		t.Fatal(err)
	}
	slow.client = client
	for i := range 20 {
		writer, reader := slow, fast
		if i%2 == 1 {
			writer, reader = fast, slow
		}
		value, began := fmt.Sprint("round-", i), time.Now()
		if _, err := writer.client.Resource(workspacesGVR).Namespace(s.ns).Patch(t.Context(), probe, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{"changed":%q}},"spec":{"ttlMillis":%d}}`, value, (i+1)*3600_000), metav1.PatchOptions{}); err != nil {
			t.Fatalf("%s: %s: %v", value, writer.name, err)
		}
		wrote := time.Since(began)
		a, err := s.get(t.Context(), reader, "")
		if err != nil || a.status != http.StatusOK || len(a.objects) != 5 || a.label("changed") != value {
			t.Fatalf("%s: %s returned %+v: %v", value, reader.name, a, err)
		}
		t.Logf("%s: written in %.2f s at %s, read in %.2f s at %s", value, wrote.Seconds(), writer.name, (time.Since(began) - wrote).Seconds(), reader.name)
	}
}

// TestAllReplicasRestart: Coder is unavailable, and all replicas are killed. The first
// one that starts serves the last known objects, with a warning.
func TestAllReplicasRestart(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv(objectsVariable))
	if err != nil {
		n = 300
	}
	s := newServed(t, n)
	all := startReplicas(t, s.proxy, 2, "--watch-namespaces="+s.ns)
	for _, r := range all {
		s.shows(t, r, n)
	}
	if _, err := all[0].client.Resource(workspacesGVR).Namespace(s.ns).Patch(t.Context(), probe, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"kept":"yes"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.coder.Fail(coderdtest.Fault{DropConnection: true})
	for _, r := range all {
		r.kill()
	}
	began := time.Now()
	first := all[0]
	first.start(t)
	polltest.Eventually(t, "everything is served", func(ctx context.Context) error {
		a, err := s.get(ctx, first, "")
		switch {
		case err != nil:
			return err
		case a.later(),
			// It is not ready yet: it has not read the CA of the front proxy.
			a.status == http.StatusUnauthorized:
			return fmt.Errorf("HTTP %d", a.status)
		case a.status != http.StatusOK || len(a.objects) != n || a.label("kept") != "yes":
			t.Fatalf("HTTP %d, %d workspaces", a.status, len(a.objects))
		}
		return nil
	})
	t.Logf("%d workspaces were served %.1f s after the start of the first replica", n, time.Since(began).Seconds())
	polltest.Eventually(t, "a warning names the control plane", func(ctx context.Context) error {
		a, err := s.get(ctx, first, "?limit=1")
		if err == nil && !strings.Contains(a.header.Get("Warning"), s.ns+"/coder") {
			err = fmt.Errorf("Warning %q", a.header.Get("Warning"))
		}
		return err
	})
	t.Logf("with a warning %.1f s after the start", time.Since(began).Seconds())
}

//go:build conformance

package realserver

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const (
	// namespace is the namespace of all objects of the clients.
	namespace = "team"
	// caller is the ServiceAccount of the clients.
	caller      = "ai-tool"
	mcpAudience = "coder-k8s-mcp"
)

// fixture is the fixture: the real server with a control plane, a template and
// workspaces.
type fixture struct {
	cluster *cluster
	coder   *coderdtest.Server
	server  *program
	token   string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s := &fixture{coder: coderdtest.New(t), cluster: startCluster(t)}
	proxy := proxyTo(t, s.coder.URL)
	s.server = startProgram(t, s.cluster, "server", proxy)
	s.cluster.aggregate(t, s.server.apiPort)
	s.cluster.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	s.startControlPlane(t)
	s.cluster.createServed(t, &aggregationv1alpha1.CoderTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "coder.hello"},
		Spec:       aggregationv1alpha1.CoderTemplateSpec{Files: map[string]string{"main.tf": "# nothing\n"}},
	})
	s.createCaller(t)
	return s
}

// proxyTo returns the address of an HTTP proxy that forwards all requests to one
// server: the in-cluster names of control planes cannot be resolved here.
func proxyTo(t *testing.T, address string) string {
	t.Helper()
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(mcptest.ProxyHandler(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}))
	t.Cleanup(server.Close)
	return server.URL
}

// startControlPlane creates a control plane and sets the status of its Deployment as
// a cluster with nodes would.
func (s *fixture) startControlPlane(t *testing.T) {
	t.Helper()
	cp := &coderv1alpha1.CoderControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "coder"},
	}
	cp.Spec.ExtraEnv = []corev1.EnvVar{{Name: "CODER_PG_CONNECTION_URL", Value: "postgres://db.invalid/coder"}}
	s.cluster.create(t, cp)
	key := client.ObjectKeyFromObject(cp)
	polltest.Eventually(t, "the control plane is ready", func() error {
		deployment := &appsv1.Deployment{}
		if err := s.cluster.client.Get(t.Context(), key, deployment); err != nil {
			return err
		}
		deployment.Status = appsv1.DeploymentStatus{
			ObservedGeneration: deployment.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable",
			}},
		}
		if err := s.cluster.client.Status().Update(t.Context(), deployment); err != nil {
			return err
		}
		if err := s.cluster.client.Get(t.Context(), key, cp); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(cp.Status.Conditions, coderv1alpha1.ConditionReady) {
			return fmt.Errorf("its conditions are %+v", cp.Status.Conditions)
		}
		return nil
	})
}

// createCaller creates the caller, with the permissions of all tools, and waits until they
// take effect.
func (s *fixture) createCaller(t *testing.T) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: caller}}
	s.cluster.create(t, account)
	s.token = s.cluster.token(t, namespace, caller, mcpAudience)
	// The roles system:aggregate-to-… contain the rules of view and edit; the
	// controller that would aggregate them does not run here.
	s.cluster.bind(t, namespace, caller, "coder-k8s-view", "coder-k8s-edit", "coder-k8s-admin", "coder-k8s-owner-impersonator", "system:aggregate-to-view", "system:aggregate-to-edit")
	// kube-apiserver sees bindings in the order of their creation: when this one
	// takes effect, all do.
	s.cluster.bind(t, namespace, caller, "coder-k8s-mcp-user")
	polltest.Eventually(t, "the caller gets in", func() error { return s.canAccess(t.Context()) })
}

// settles waits until the template is built, so that repeated reads return the same.
func (s *fixture) settles(t *testing.T) {
	t.Helper()
	template := &aggregationv1alpha1.CoderTemplate{}
	polltest.Eventually(t, "the template is ready", func() error {
		if err := s.cluster.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "coder.hello"}, template); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(template.Status.Conditions, "Ready") {
			return fmt.Errorf("its conditions are %+v", template.Status.Conditions)
		}
		return nil
	})
}

// workspaces are the workspaces of one client.
type workspaces struct {
	// Running is running, with running: true.
	Running string `json:"running"`
	Told    string `json:"told"`
	// Slow is stopped. Its next builds take a moment.
	Slow string `json:"slow"`
	// Stuck is stopped. When it is started its agent never connects.
	Stuck string `json:"stuck"`
}

// newWorkspaces creates the workspaces of a client. Their names contain the client.
func (s *fixture) newWorkspaces(t *testing.T, of string) workspaces {
	t.Helper()
	slow := of + "-slow"
	w := workspaces{
		Running: s.newWorkspace(t, of+"-running", true).Name,
		Told:    s.newWorkspace(t, of+"-told", true).Name,
		Slow:    s.newWorkspace(t, slow, false).Name,
	}
	s.coder.SetBuildResult(slow, coderdtest.BuildResult{Hold: true})
	stuck := s.newWorkspace(t, of+"-stuck", false)
	id, err := uuid.Parse(stuck.Status.ID)
	if err != nil {
		t.Fatal(err)
	}
	s.coder.SetAgents(id, coderdtest.Agent{Name: "main", Status: "connecting", LifecycleState: "created"})
	w.Stuck = stuck.Name
	return w
}

// newWorkspace creates a workspace, and waits until it runs or is stopped.
func (s *fixture) newWorkspace(t *testing.T, name string, running bool) *aggregationv1alpha1.CoderWorkspace {
	t.Helper()
	ws := &aggregationv1alpha1.CoderWorkspace{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "coder.admin." + name},
		Spec:       aggregationv1alpha1.CoderWorkspaceSpec{TemplateName: "hello", Running: &running},
	}
	s.cluster.createServed(t, ws)
	polltest.Eventually(t, name+" is built", func() error {
		if err := s.cluster.client.Get(t.Context(), client.ObjectKeyFromObject(ws), ws); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(ws.Status.Conditions, aggregationv1alpha1.ConditionReady) {
			return fmt.Errorf("its conditions are %+v", ws.Status.Conditions)
		}
		return nil
	})
	return ws
}

// buildStep is long enough that a client waits for a build before it ends, and
// receives more than one progress notification: they are sent at most twice a second.
const buildStep = 2 * time.Second

// keepBuilding completes slow builds until the test ends.
func (s *fixture) keepBuilding(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			// A ticker would make up for a step that came late by a short one.
			case <-time.After(buildStep):
				s.coder.AdvanceBuilds()
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		ended.Wait()
	})
}

// canAccess returns nil if the caller has access to the server.
func (s *fixture) canAccess(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.server.mcpURL, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden {
		return fmt.Errorf("the server answers %s", response.Status)
	}
	return nil
}

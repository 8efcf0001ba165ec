package integration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// mcpFixture is the fixture of the MCP tests: a cluster with objects for all tools of
// the MCP server.
type mcpFixture struct {
	operator *process
	// ns has a control plane with a workspace, a template, a pod that crashes, a
	// workspace that cannot start and a template that cannot be built. other has a
	// control plane without pods, and away has one whose Coder does not respond.
	ns, other, away string
	coder           *coderdtest.Server
	// standIn rolls out the Deployments of ns and other.
	standIn *standIn
	// callers is the namespace of the ServiceAccounts that call.
	callers string
	// spare are templates that no call has changed yet.
	spare []spareTemplate
	// number is used for unique names and values.
	number int
}

func newMCPFixture(t *testing.T) *mcpFixture {
	t.Helper()
	names, proxy := startCoders(t)
	s := &mcpFixture{ns: namespace(t), other: namespace(t), away: namespace(t), callers: namespace(t)}
	// If there are many namespaces with control planes, such as those that other tests
	// leave behind, the server does not check all of them to hide tools.
	s.operator = startProcess(t, proxy, "--leader-elect=false", "--mcp-rate-limit=0", "--watch-namespaces="+strings.Join(s.namespaces(), ","))
	s.standIn = startStandIn(t, s.ns, s.other)
	s.coder = coderdtest.New(t)
	// The API reads Coder's workspaces after all were created: it would detect
	// workspaces that others create too late for a test.
	furnished := make(chan struct{})
	s.coder.Fail(coderdtest.Fault{Method: http.MethodGet, PathPrefix: "/api/v2/workspaces", Block: furnished})
	names.add(t, s.ns, "coder", s.coder)
	names.add(t, s.other, "coder", coderdtest.New(t))
	for _, ns := range s.namespaces() {
		create(t, controlPlane(ns, "coder", func(cp *coderv1alpha1.CoderControlPlane) {
			withDatabase(cp)
			// The version of the test server: from another minor version, a change of the image is an upgrade in phases, and
			// nothing runs their Jobs here.
			cp.Spec.Image = "ghcr.io/coder/coder:v2.30.0"
		}))
	}
	bindEverywhere(t, "mcp-callers-"+s.ns, "coder-k8s-mcp-user", group("system:serviceaccounts:"+s.callers), group(personPrefix+"callers-"+s.ns))
	s.operator.ready(t)
	waitCondition(t, s.ns, "coder", coderv1alpha1.ConditionOperatorAccess, metav1.ConditionTrue, "")
	s.furnish(t)
	close(furnished)
	s.coder.ClearFaults()
	for _, ns := range []string{s.ns, s.other} {
		waitCondition(t, ns, "coder", coderv1alpha1.ConditionReady, metav1.ConditionTrue, "")
	}
	serve(t, s.operator)
	s.isShown(t)
	s.spoil(t)
	s.crash(t)
	return s
}

func (s *mcpFixture) namespaces() []string { return []string{s.ns, s.other, s.away} }

// furnish creates the templates and workspaces: two to read, a workspace that cannot
// start and its template that cannot be built, and some to change.
func (s *mcpFixture) furnish(t *testing.T) {
	t.Helper()
	hello := s.coder.AddTemplate("coder", "hello", map[string]string{"main.tf": "# hello\n", "logo.png": "\x89PNG\xff\x00"})
	s.coder.AddWorkspace("admin", hello, "one")
	broken := s.coder.AddTemplate("coder", "broken", map[string]string{"main.tf": "# still built\n"})
	stuck := s.coder.AddWorkspace("admin", broken, "stuck")
	s.coder.BuildWorkspace(stuck, "stop")
	s.coder.SetBuildResult("stuck", coderdtest.BuildResult{Error: "terraform: no such disk"})
	s.coder.SetBuildResult("broken", coderdtest.BuildResult{Error: "terraform: no such provider"})
	for i := range spareTemplates {
		name := fmt.Sprintf("t%d", i)
		template := s.coder.AddTemplate("coder", name, map[string]string{"main.tf": "# first\n"})
		s.coder.AddWorkspace("admin", template, "runs-"+name)
		s.coder.BuildWorkspace(s.coder.AddWorkspace("admin", template, "stopped-"+name), "stop")
		first := fmt.Sprint(s.coder.TemplateFields(template)["active_version_id"])
		second := s.coder.AddTemplateVersion(template, "second", map[string]string{"main.tf": "# second\n"})
		s.coder.PatchTemplate(t, template, map[string]any{"active_version_id": second})
		s.spare = append(s.spare, spareTemplate{name: name, earlier: first})
	}
}

// isShown waits until the API lists the created objects.
func (s *mcpFixture) isShown(t *testing.T) {
	t.Helper()
	polltest.Eventually(t, "the API shows what there is in Coder", func(ctx context.Context) error {
		templates, workspaces := &aggregationv1alpha1.CoderTemplateList{}, &aggregationv1alpha1.CoderWorkspaceList{}
		if err := errors.Join(environment.client.List(ctx, templates, client.InNamespace(s.ns)), environment.client.List(ctx, workspaces, client.InNamespace(s.ns))); err != nil {
			return err
		}
		if len(templates.Items) != 2+spareTemplates || len(workspaces.Items) != 2+2*spareTemplates {
			return fmt.Errorf("there are %d templates and %d workspaces", len(templates.Items), len(workspaces.Items))
		}
		return nil
	})
}

// spoil makes builds of the workspace and of the template fail.
func (s *mcpFixture) spoil(t *testing.T) {
	t.Helper()
	patch(t, &aggregationv1alpha1.CoderWorkspace{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "coder.admin.stuck"}}, "test", `{"spec":{"running":true}}`)
	patch(t, &aggregationv1alpha1.CoderTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "coder.broken"}}, "test", `{"spec":{"files":{"main.tf":"# not built"}}}`)
	polltest.Eventually(t, "the template and the workspace are broken", func(ctx context.Context) error {
		template, ws := &aggregationv1alpha1.CoderTemplate{}, &aggregationv1alpha1.CoderWorkspace{}
		if err := errors.Join(environment.client.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: "coder.broken"}, template),
			environment.client.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: "coder.admin.stuck"}, ws)); err != nil {
			return err
		}
		if template.Status.LatestVersionStatus != "failed" || ws.Status.LatestBuildStatus != "failed" {
			return fmt.Errorf("they are %q and %q", template.Status.LatestVersionStatus, ws.Status.LatestBuildStatus)
		}
		return nil
	})
}

// spareTemplates is how many templates there are to change, each for one row of calls.
const spareTemplates = 56

// spareTemplate has two versions, of which the second is active, and two workspaces of
// the first: one that runs and one that is stopped.
type spareTemplate struct{ name, earlier string }

func (s spareTemplate) object() string  { return "coder." + s.name }
func (s spareTemplate) runs() string    { return "coder.admin.runs-" + s.name }
func (s spareTemplate) stopped() string { return "coder.admin.stopped-" + s.name }

// take returns an unchanged template. Its builds are held from now on until the test
// releases them.
func (s *mcpFixture) take(t *testing.T) spareTemplate {
	t.Helper()
	if len(s.spare) == 0 {
		t.Fatalf("%d templates are too few", spareTemplates)
	}
	taken := s.spare[0]
	s.spare = s.spare[1:]
	for _, workspace := range []string{"runs-", "stopped-"} {
		s.coder.SetBuildResult(workspace+taken.name, coderdtest.BuildResult{Hold: true})
	}
	s.coder.SetBuildResult(taken.name, coderdtest.BuildResult{Hold: true, Error: "terraform: no such image"})
	return taken
}

// crash creates two pods that crash, on a node with a kubelet that serves their logs.
func (s *mcpFixture) crash(t *testing.T) {
	t.Helper()
	kubelet := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "panic: no such database")
	}))
	t.Cleanup(kubelet.Close)
	host, port, err := net.SplitHostPort(kubelet.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.ns}}
	clusterWide(t, node)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	if err := environment.client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	stuck := read(t, &aggregationv1alpha1.CoderWorkspace{}, s.ns, "coder.admin.stuck")
	for name, labels := range map[string]map[string]string{
		"coder-0": {coderv1alpha1.LabelName: coderv1alpha1.ControlPlaneName, coderv1alpha1.LabelInstance: "coder", coderv1alpha1.LabelManagedBy: coderv1alpha1.ManagedBy},
		"stuck-0": {"com.coder.workspace.id": stuck.Status.ID},
	} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name, Labels: labels},
			Spec:       corev1.PodSpec{NodeName: node.Name, Containers: []corev1.Container{{Name: "main", Image: "example.com/main"}}},
		}
		create(t, pod)
		ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error"}}
		pod.Status.Phase = corev1.PodRunning
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: ended, LastTerminationState: ended, RestartCount: 3}}
		if err := environment.client.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
}

// next returns a new number.
func (s *mcpFixture) next() int {
	s.number++
	return s.number
}

// mcpCaller is a user that calls tools.
type mcpCaller struct {
	// user is the caller's user name in Kubernetes.
	user  string
	token string
	url   string
}

// newCaller creates a ServiceAccount whose only permission is to use the MCP server.
func (s *mcpFixture) newCaller(t *testing.T, p *process, name string) mcpCaller {
	t.Helper()
	return mcpCaller{
		user:  "system:serviceaccount:" + s.callers + ":" + name,
		token: serviceAccountToken(t, s.callers, name, mcpAudience), url: mcpURL(p),
	}
}

// subjects returns the subjects for a name: a ServiceAccount and a group of the
// issuer.
func (s *mcpFixture) subjects(name string) []rbacv1.Subject {
	return []rbacv1.Subject{serviceAccount(s.callers, name), group(personPrefix + name)}
}

// grantRights grants permissions to a caller in each of some namespaces.
func (s *mcpFixture) grantRights(t *testing.T, name string, rights []callers.Right, namespaces ...string) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "mcp-" + s.ns + "-" + name}}
	for _, right := range rights {
		if strings.HasPrefix(right.Resource, "/") {
			continue // Every user may read the paths that tools read.
		}
		role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: []string{right.Verb}, APIGroups: []string{right.Group}, Resources: []string{right.Resource}})
	}
	made(t, role)
	s.grantRole(t, name, role.Name, namespaces...)
}

// grantRole binds a ClusterRole to a caller in each of some namespaces.
func (s *mcpFixture) grantRole(t *testing.T, name, role string, namespaces ...string) {
	t.Helper()
	for _, ns := range namespaces {
		create(t, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: name + "-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   s.subjects(name),
		})
	}
}

// granted waits until kube-apiserver applies all permissions that were granted before:
// it sees roles and bindings in the order of their creation.
func (s *mcpFixture) granted(t *testing.T) {
	t.Helper()
	last := fmt.Sprintf("last-%d", s.next())
	s.grantRights(t, last, []callers.Right{{Verb: "get", Resource: last}}, s.away)
	polltest.Eventually(t, "the rights are known", func(ctx context.Context) error {
		return allowed(ctx, "system:serviceaccount:"+s.callers+":"+last, s.away, last)
	})
}

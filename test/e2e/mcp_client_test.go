//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const (
	// mcpHost is the address of the MCP server in the cluster.
	mcpHost = "coder-k8s.coder-system.svc:8090"

	legacyProtocol = mcptest.Legacy
	modernProtocol = mcptest.Modern
)

// robot is a ServiceAccount with permission to use the MCP server, and a token for
// it.
type robot struct {
	namespace, name, token string
	// since is when it was created. Earlier log lines belong to another robot with
	// the same name.
	since time.Time
}

const robotManifest = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: %[2]s, namespace: %[1]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: e2e-mcp-%[1]s-%[2]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: coder-k8s-mcp-user}
subjects: [{kind: ServiceAccount, name: %[2]s, namespace: %[1]s}]
`

const robotRole = `---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[2]s-%[3]s, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[3]s}
subjects: [{kind: ServiceAccount, name: %[2]s, namespace: %[1]s}]
`

// robotActs allows it to act as every Coder user: no rule maps it, and the
// workspaces belong to an Owner. Its other roles still limit its requests.
const robotActs = `---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: %[2]s-acts, namespace: %[1]s, labels: {e2e-robot: %[2]s}}
rules:
- apiGroups: [aggregation.coder.com]
  resources: [coderusers, coderusers/owner, coderusers/operator]
  verbs: [impersonate]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[2]s-acts, namespace: %[1]s, labels: {e2e-robot: %[2]s}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[2]s-acts}
subjects: [{kind: ServiceAccount, name: %[2]s, namespace: %[1]s}]
`

// newRobot creates a ServiceAccount that has ClusterRoles in its namespace, may act
// as every Coder user, and has no other permissions. It is deleted when the test
// ends.
func newRobot(t *testing.T, namespace, name string, clusterRoles ...string) robot {
	t.Helper()
	apply(t, fmt.Sprintf(strings.TrimPrefix(robotActs, "---"), namespace, name))
	t.Cleanup(func() {
		cleanup("-n", namespace, "delete", "role.rbac.authorization.k8s.io,rolebinding", "-l", "e2e-robot="+name)
	})
	return newAccount(t, namespace, name, clusterRoles...)
}

// newAccount creates a robot that may not act as any Coder user.
func newAccount(t *testing.T, namespace, name string, clusterRoles ...string) robot {
	t.Helper()
	since, manifest := time.Now(), fmt.Sprintf(robotManifest, namespace, name)
	for _, role := range clusterRoles {
		manifest += fmt.Sprintf(robotRole, namespace, name, role)
	}
	apply(t, manifest)
	t.Cleanup(func() {
		cleanup("delete", "clusterrolebinding", "e2e-mcp-"+namespace+"-"+name, "--ignore-not-found")
		cleanup("-n", namespace, "delete", "serviceaccount", name, "--ignore-not-found")
		for _, role := range clusterRoles {
			cleanup("-n", namespace, "delete", "rolebinding", name+"-"+role, "--ignore-not-found")
		}
	})
	token := kubectl(t, "-n", namespace, "create", "token", name, "--audience=coder-k8s-mcp")
	r := robot{namespace: namespace, name: name, token: strings.TrimSpace(token), since: since}
	if len(clusterRoles) > 0 {
		// kube-apiserver sees new bindings with a delay, separately for each kind.
		mayGet(t, r.user(), namespace)
	}
	return r
}

// mayGet waits until a user may get the workspaces of a namespace, which each user
// role allows.
func mayGet(t *testing.T, user, namespace string) {
	t.Helper()
	polltest.Eventually(t, user+" has its rights", func() error {
		out, err := tryKubectl(t, "auth", "can-i", "get", "coderworkspaces.aggregation.coder.com", "-n", namespace, "--as="+user)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// user returns the robot's user name in Kubernetes.
func (r robot) user() string { return "system:serviceaccount:" + r.namespace + ":" + r.name }

// route sends requests to the server, with a token. If it has several addresses,
// each request goes to the next one, like a Service with round-robin load balancing.
type route struct {
	token     string
	addresses []string
	// host is the Host header; empty means the address.
	host string
	turn atomic.Int64
	next http.Transport
}

// throughService returns a route through the server's Service.
func (r robot) throughService(t *testing.T) *route {
	t.Helper()
	service := get(t, "-n", "coder-system", "service", "coder-k8s")
	return &route{token: r.token, addresses: []string{net.JoinHostPort(field(service, "spec", "clusterIP"), "8090")}, host: mcpHost}
}

// RoundTrip implements http.RoundTripper. It honors Retry-After.
func (r *route) RoundTrip(request *http.Request) (*http.Response, error) {
	for {
		response, err := r.send(request)
		if err != nil || response.StatusCode != http.StatusTooManyRequests {
			return response, err
		}
		response.Body.Close()
		seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
		if err != nil || seconds > 5 {
			return nil, fmt.Errorf("there were too many requests, and Retry-After is %q", response.Header.Get("Retry-After"))
		}
		select {
		case <-request.Context().Done():
			return nil, request.Context().Err()
		case <-time.After(time.Duration(seconds) * time.Second):
		}
	}
}

func (r *route) send(request *http.Request) (*http.Response, error) {
	body := request.GetBody
	request = request.Clone(request.Context())
	if body != nil {
		var err error
		if request.Body, err = body(); err != nil {
			return nil, err
		}
	}
	if r.token != "" {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}
	request.URL.Host = r.addresses[int(r.turn.Add(1)-1)%len(r.addresses)]
	request.Host = r.host
	return r.next.RoundTrip(request)
}

// assistant is an AI tool that uses a robot's token.
type assistant struct {
	*mcp.ClientSession
	protocol, user string
	// asks reports whether it can ask its user, who always agrees.
	asks bool
	// asked and progress count the messages of the server.
	asked, progress atomic.Int64
	did             *deeds
}

// connect opens a session in one protocol. It retries, because a new account may not have
// access immediately, and a new server may not be reachable immediately.
func (r robot) connect(t *testing.T, protocol string, way *route, did *deeds) *assistant {
	t.Helper()
	a := &assistant{protocol: protocol, user: r.user(), did: did, asks: protocol == modernProtocol}
	options := &mcp.ClientOptions{
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { a.progress.Add(1) },
	}
	if a.asks {
		options.ElicitationHandler = func(_ context.Context, request *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			a.asked.Add(1)
			t.Logf("the user is asked: %s", request.Params.Message)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": true}}, nil
		}
	}
	endpoint := mcptest.Endpoint{URL: "http://" + mcpHost + "/mcp", Protocol: protocol, Transport: way, Options: options}
	polltest.Eventually(t, r.name+" is connected with "+protocol, func() error {
		client, err := endpoint.Connect(context.WithoutCancel(t.Context()))
		a.ClientSession = client.ClientSession
		return err
	})
	t.Cleanup(func() {
		_ = a.Close()
		way.next.CloseIdleConnections()
	})
	if got := a.InitializeResult(); got.ProtocolVersion != protocol || got.Instructions == "" || got.ServerInfo.Version == "" {
		t.Errorf("the server says %+v, not %s with instructions and a version", got, protocol)
	}
	return a
}

// hearsProgress waits for further progress notifications of a call. They arrive
// before the response, and are handled concurrently.
func (a *assistant) hearsProgress(t *testing.T, than int64) {
	t.Helper()
	polltest.Eventually(t, "progress was told", func() error {
		if a.progress.Load() == than {
			return errors.New("nothing was told")
		}
		return nil
	})
}

// call calls a tool of namespace coder.
func (a *assistant) call(t *testing.T, tool string, arguments map[string]any) *mcp.CallToolResult {
	t.Helper()
	arguments["namespace"] = sampleNamespace
	return a.callAnywhere(t, tool, arguments)
}

// callAnywhere calls a tool with a progress token.
func (a *assistant) callAnywhere(t *testing.T, tool string, arguments map[string]any) *mcp.CallToolResult {
	t.Helper()
	params := &mcp.CallToolParams{Name: tool, Arguments: arguments}
	params.SetProgressToken(tool)
	asked, start := a.asked.Load(), time.Now()
	result, err := a.CallTool(t.Context(), params)
	if err != nil {
		t.Fatalf("%s with %v: %v", tool, arguments, err)
	}
	// Each question is the response to a separate request.
	a.did.add(tool, !result.IsError, 1+int(a.asked.Load()-asked), time.Since(start))
	return result
}

// does calls a tool that must succeed, and returns its result.
func (a *assistant) does(t *testing.T, tool string, arguments map[string]any) map[string]any {
	t.Helper()
	return answerOf(t, tool, a.call(t, tool, arguments))
}

// answerOf returns the answer in the result of a call that must have succeeded.
func answerOf(t *testing.T, tool string, result *mcp.CallToolResult) map[string]any {
	t.Helper()
	answer, ok := result.StructuredContent.(map[string]any)
	if result.IsError || !ok {
		t.Fatalf("%s: %s", tool, words(result))
	}
	return answer
}

// refused calls a tool that must fail, and returns the error text.
func (a *assistant) refused(t *testing.T, tool string, arguments map[string]any) string {
	t.Helper()
	result := a.call(t, tool, arguments)
	if !result.IsError {
		t.Errorf("%s with %v was not refused: %s", tool, arguments, words(result))
	}
	return words(result)
}

// confirmed is does for calls that need a confirmation: the server asks the user if
// the client supports it, and otherwise requires the name of the object.
func (a *assistant) confirmed(t *testing.T, tool string, arguments map[string]any) map[string]any {
	t.Helper()
	return answerOf(t, tool, a.confirmedResult(t, tool, arguments))
}

// confirmedResult is confirmed for calls that may fail.
func (a *assistant) confirmedResult(t *testing.T, tool string, arguments map[string]any) *mcp.CallToolResult {
	t.Helper()
	name, asked := fmt.Sprint(arguments["name"]), a.asked.Load()
	if !a.asks {
		if said := a.refused(t, tool, arguments); !containsAll(said, "ask the user", `confirm: "`+name+`"`) {
			t.Errorf("%s without a confirmation: %s", tool, said)
		}
		arguments["confirm"] = name
	}
	result := a.call(t, tool, arguments)
	if a.asks && a.asked.Load() != asked+1 {
		t.Errorf("%s: the user was asked %d times", tool, a.asked.Load()-asked)
	}
	return result
}

// words returns the text of a result.
func words(result *mcp.CallToolResult) string {
	var parts []string
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			parts = append(parts, text.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// deeds records the calls of tools.
type deeds struct {
	mu sync.Mutex
	// requests counts the responses of the server by tool, and took has the
	// durations of the successful calls.
	requests map[string]int
	took     map[string][]time.Duration
}

func newDeeds() *deeds {
	return &deeds{requests: map[string]int{}, took: map[string][]time.Duration{}}
}

func (d *deeds) add(tool string, ok bool, requests int, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.requests[tool] += requests
	if ok {
		d.took[tool] = append(d.took[tool], took)
	}
}

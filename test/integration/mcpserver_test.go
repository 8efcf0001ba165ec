package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const (
	mcpAudience = "coder-k8s-mcp"
	// metricsSecret has the certificate of the metrics.
	metricsSecret = "coder-k8s-metrics-tls"
	// mcpAccount is the ServiceAccount of a process that runs only the MCP server.
	mcpAccount = "mcp-alone"
)

// mcpConfig returns the client configuration of a ServiceAccount with only the
// permissions of the MCP server: the many permissions of the controllers would hide a
// missing one.
func mcpConfig(t *testing.T) *rest.Config {
	t.Helper()
	letManageCertificate(t, operatorNamespace)
	for _, role := range []string{"coder-k8s-mcp", "system:auth-delegator"} {
		bindEverywhere(t, mcpAccount+"-"+strings.ReplaceAll(role, ":", "-"), role, serviceAccount(operatorNamespace, mcpAccount))
	}
	return serviceAccountConfig(t, operatorNamespace, mcpAccount)
}

// letManageCertificate grants that ServiceAccount the permissions for the certificate of the
// metrics of replicas that run in a namespace.
func letManageCertificate(t *testing.T, ns string) {
	t.Helper()
	if err := install(); err != nil {
		t.Fatalf("installing the RBAC: %v", err)
	}
	const name = "coder-k8s-metrics-certificate"
	role := &rbacv1.Role{}
	if err := environment.client.Get(t.Context(), client.ObjectKey{Namespace: operatorNamespace, Name: name}, role); err != nil {
		t.Fatal(err)
	}
	made(t, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Rules: role.Rules})
	made(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: mcpAccount + "-" + name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{serviceAccount(operatorNamespace, mcpAccount)},
	})
}

// startMCP starts the MCP server alone.
func startMCP(t *testing.T, args ...string) *process {
	t.Helper()
	return startProcessAs(t, mcpConfig(t), "", append([]string{"--app=mcp-http"}, args...)...)
}

// startMCPWithIssuer starts the MCP server for the users of an issuer. token creates
// their tokens.
func startMCPWithIssuer(t *testing.T) (p *process, token func(t *testing.T, user string, groups ...string) string) {
	t.Helper()
	login := newIssuer(t)
	p = newProcess(t, mcpConfig(t), "", "--app=mcp-http", "--mcp-auth=oidc", "--mcp-oidc-issuer-url="+login.URL, "--mcp-oidc-ca-file="+login.caFile,
		"--mcp-oidc-username-prefix="+personPrefix, "--mcp-oidc-groups-claim=groups", "--mcp-oidc-groups-prefix="+personPrefix)
	p.command = append(p.command, "--mcp-public-url="+mcpURL(p))
	p.run(t)
	return p, func(t *testing.T, user string, groups ...string) string {
		t.Helper()
		return login.token(t, mcpURL(p), user, groups...)
	}
}

// personPrefix is the prefix of the names of users and groups of the issuer.
const personPrefix = "oidc:"

func serviceAccount(ns, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: name}
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}
}

// bindEverywhere binds a ClusterRole in the whole cluster. The binding is not deleted.
func bindEverywhere(t *testing.T, name, role string, subjects ...rbacv1.Subject) {
	t.Helper()
	made(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   subjects,
	})
}

// made creates an object unless it exists.
func made(t *testing.T, object client.Object) {
	t.Helper()
	if err := environment.client.Create(t.Context(), object); client.IgnoreAlreadyExists(err) != nil {
		t.Fatalf("making %T %s: %v", object, object.GetName(), err)
	}
}

// onlyAsCallers fails the test if an MCP server made other requests as itself than
// those of isOwnBusiness, or read a Secret for a caller.
func onlyAsCallers(t *testing.T, p *process) {
	t.Helper()
	asCallers := 0
	for _, r := range requests(t, p.auditFrom) {
		if !slices.Contains(r.User.Extra["authentication.kubernetes.io/credential-id"], p.credential) {
			continue
		}
		switch {
		case r.ImpersonatedUser == nil && !r.isOwnBusiness():
			t.Errorf("the server does as itself: %s", r)
		case r.ImpersonatedUser != nil && r.ObjectRef.Resource == "secrets":
			t.Errorf("the server reads a Secret for %s: %s", r.ImpersonatedUser.Username, r)
		case r.ImpersonatedUser != nil:
			asCallers++
		}
	}
	if asCallers == 0 {
		t.Error("the audit log tells of nothing that was done for a caller")
	}
}

// isOwnBusiness reports whether a request of the MCP server is one of the few that it
// makes as itself: reviews, the Secret of its metrics, and discovery.
func (r request) isOwnBusiness() bool {
	switch what := fmt.Sprintf("%s %s", r.Verb, r.ObjectRef.Resource); what {
	case "create tokenreviews", "create subjectaccessreviews":
		return true
	case "create selfsubjectreviews", "create selfsubjectaccessreviews", "create selfsubjectrulesreviews":
		// At its start it checks whether it has the permissions that it needs.
		return true
	case "get secrets", "update secrets":
		return r.ObjectRef.Namespace != "" && r.ObjectRef.Name == metricsSecret
	default:
		return r.Verb == "get" && r.ObjectRef.Resource == ""
	}
}

// robot creates a ServiceAccount with ClusterRoles in its namespace, and returns its
// token. It may also use the MCP server, after a short delay.
func robot(t *testing.T, ns, name string, roles ...string) string {
	t.Helper()
	token := serviceAccountToken(t, ns, name, mcpAudience)
	bindEverywhere(t, "mcp-"+ns+"-"+name, "coder-k8s-mcp-user", serviceAccount(ns, name))
	for _, role := range roles {
		grant(t, ns, role, name)
	}
	known(t, ns, name)
	return token
}

// known waits until kube-apiserver applies the permissions that a ServiceAccount was
// granted in its namespace before: it sees bindings in the order of their creation.
func known(t *testing.T, ns, account string) {
	t.Helper()
	last := "last-of-" + account
	create(t,
		&rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: last},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{last}, Verbs: []string{"get"}}},
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: last},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: last},
			Subjects:   []rbacv1.Subject{serviceAccount(ns, account)},
		})
	polltest.Eventually(t, "the rights of "+account+" are known", func(ctx context.Context) error {
		return allowed(ctx, "system:serviceaccount:"+ns+":"+account, ns, last)
	})
}

// allowed returns an error unless a user may read a resource.
func allowed(ctx context.Context, user, ns, resource string) error {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: ns, Verb: "get", Resource: resource},
	}}
	if err := environment.client.Create(ctx, review); err != nil {
		return err
	}
	if !review.Status.Allowed {
		return errors.New("the last of them is not")
	}
	return nil
}

// entered waits until a user has access, and connects.
func entered(t *testing.T, url, token, protocol string, options *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	var session *mcp.ClientSession
	polltest.Eventually(t, "the caller gets in", func(context.Context) error {
		client, err := mcpEndpoint(url, token, protocol, options).Connect(context.WithoutCancel(t.Context()))
		if err == nil {
			t.Cleanup(client.End)
		}
		session = client.ClientSession
		return err
	})
	return session
}

// succeeds waits until a call succeeds, and returns the number of attempts.
func succeeds(t *testing.T, session *mcp.ClientSession, tool string, arguments map[string]any) int {
	t.Helper()
	tries := 0
	polltest.Eventually(t, tool+" succeeds", func(context.Context) error {
		tries++
		if answer := callTool(t, session, tool, arguments); answer.IsError {
			return errors.New(sentenceOf(answer))
		}
		return nil
	})
	return tries
}

// TestMCPIsInstalled checks that an installation grants the server the same
// permissions as the other tests, all of them to the ServiceAccount of its Deployment.
func TestMCPIsInstalled(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"default", "namespaced"} {
		given := map[string]bool{}
		for _, object := range rendered(t, name) {
			for _, subject := range field[[]any](t, object, "subjects") {
				role := field[string](t, object, "roleRef", "name")
				if s := subject.(map[string]any); s["name"] == "coder-k8s" && s["namespace"] == operatorNamespace {
					given[strings.TrimSuffix(object.GetNamespace()+"/"+role, "/")] = true
				}
			}
			given[object.GetKind()+" "+object.GetName()] = true
		}
		for _, want := range []string{
			"/coder-k8s-mcp", "/system:auth-delegator",
			"ClusterRole coder-k8s-mcp", "ClusterRole coder-k8s-mcp-user",
			"Service coder-k8s", "Deployment coder-k8s",
		} {
			if !given[want] {
				t.Errorf("%s lacks %s", name, want)
			}
		}
	}
}

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// mcpSession is a session of a caller, whose calls report their progress.
type mcpSession struct {
	*mcp.ClientSession
	mu sync.Mutex
	// calls counts the calls. The last one is in progress, and this is its progress
	// token.
	calls     int
	token     string
	meanwhile func()
}

func (c mcpCaller) connect(t *testing.T) *mcpSession {
	t.Helper()
	s := &mcpSession{}
	s.ClientSession = mustConnectMCP(t, c.url, c.token, modernProtocol, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, told *mcp.ProgressNotificationClientRequest) {
			s.progress(told.Params.ProgressToken)
		},
	})
	return s
}

// progress runs the step that must happen during a call. It ignores late notifications
// of the previous call, whose builds are not those of this one.
func (s *mcpSession) progress(token any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token == s.token && s.meanwhile != nil {
		s.meanwhile()
	}
}

func (s *mcpSession) do(t *testing.T, tool string, call toolCall) *mcp.CallToolResult {
	t.Helper()
	s.mu.Lock()
	s.calls++
	token := fmt.Sprintf("%s %d", tool, s.calls)
	s.token, s.meanwhile = token, call.meanwhile
	s.mu.Unlock()
	params := &mcp.CallToolParams{Name: tool, Arguments: call.arguments}
	params.SetProgressToken(token)
	answer, err := s.CallTool(t.Context(), params)
	s.mu.Lock()
	s.meanwhile = nil
	s.mu.Unlock()
	if err != nil {
		t.Fatalf("calling %s: %v", tool, err)
	}
	return answer
}

// TestMCPRights checks that each tool needs exactly its declared permissions, that the
// server's own role allows these for ServiceAccounts and for users, and that the user
// roles are sufficient.
func TestMCPRights(t *testing.T) {
	s := newMCPFixture(t)
	alone := startMCP(t, "--mcp-rate-limit=0")
	people, token := startMCPWithIssuer(t)
	alone.ready(t)
	people.ready(t)
	rows := s.toolCalls()
	definitions := usualTools()
	for _, d := range definitions {
		if rows[d.Name] == nil {
			t.Fatalf("there is no call of %s here", d.Name)
		}
		for name, rights := range callersOf(d) {
			s.grantRights(t, name, rights, s.namespaces()...)
		}
	}
	s.granted(t)
	robot := func(t *testing.T, name string) mcpCaller { return s.newCaller(t, alone, name) }
	person := func(t *testing.T, name string) mcpCaller {
		return mcpCaller{user: personPrefix + name, token: token(t, name, name, "callers-"+s.ns), url: mcpURL(people)}
	}
	for _, d := range definitions {
		t.Run(d.Name, func(t *testing.T) {
			s.succeeds(t, robot(t, callerName(d, "")), "impersonate:serviceaccount", d, rows[d.Name])
			s.succeeds(t, person(t, callerName(d, "")), "impersonate:user-info", d, rows[d.Name])
			s.isRefused(t, robot, d, rows[d.Name])
		})
	}
	t.Run("prompts", func(t *testing.T) { s.promptsNeedTheirRights(t, robot) })
	t.Run("callers", s.callersSeeWhatIsTheirs)
	onlyAsCallers(t, alone)
	onlyAsCallers(t, people)
}

// callersOf returns the permissions of the callers of a tool, by their names: one has
// all permissions of the tool, and each of the others lacks some.
func callersOf(d toolset.Definition) map[string][]callers.Right {
	all := map[string][]callers.Right{callerName(d, ""): d.AllRights()}
	for _, right := range d.Rights {
		all[callerName(d, "without", right)] = without(d.AllRights(), right)
	}
	if len(d.OneOf) > 0 {
		all[callerName(d, "without", d.OneOf...)] = without(d.AllRights(), d.OneOf...)
	}
	for _, right := range d.OneOf {
		all[callerName(d, "only", right)] = append(without(d.AllRights(), d.OneOf...), right)
	}
	return all
}

// callerName returns the name of a caller of a tool that lacks some permissions.
func callerName(d toolset.Definition, difference string, rights ...callers.Right) string {
	words := []string{d.Name, difference}
	for _, right := range rights {
		words = append(words, right.Verb, right.Resource)
	}
	return strings.Trim(strings.NewReplacer("_", "-", "/", "-", " ", "-").Replace(strings.Join(words, " ")), "-")
}

func without(rights []callers.Right, lacking ...callers.Right) []callers.Right {
	return slices.DeleteFunc(slices.Clone(rights), func(right callers.Right) bool { return slices.Contains(lacking, right) })
}

// succeeds checks that with the declared permissions of a tool all calls succeed,
// nothing is refused, and each permission is used.
func (s *mcpFixture) succeeds(t *testing.T, caller mcpCaller, constraint string, d toolset.Definition, row func(*testing.T) []toolCall) {
	t.Helper()
	calls, from := row(t), auditSize(t)
	session := caller.connect(t)
	for _, call := range calls {
		if answer := session.do(t, d.Name, call); fails(answer) {
			t.Errorf("%s, with all rights, calls with %v and is answered: %s", caller.user, call.arguments, sentenceOf(answer))
		}
	}
	usesExactly(t, from, caller.user, d.AllRights(), spare(d.Name)...)
	for _, r := range requestsAs(t, from, caller.user) {
		if r.AuthenticationMetadata.ImpersonationConstraint != constraint {
			t.Errorf("the server was allowed to be the caller by %q, not by %q: %s", r.AuthenticationMetadata.ImpersonationConstraint, constraint, r)
		}
	}
}

// isRefused checks that without one of the permissions no call succeeds, nothing is
// changed, and the error contains the missing permission. If a call needs one of
// several permissions, each is sufficient for one call and not for all.
func (s *mcpFixture) isRefused(t *testing.T, callerOf func(*testing.T, string) mcpCaller, d toolset.Definition, row func(*testing.T) []toolCall) {
	t.Helper()
	var lacking [][]callers.Right
	for _, right := range d.Rights {
		lacking = append(lacking, []callers.Right{right})
	}
	if len(d.OneOf) > 0 {
		lacking = append(lacking, d.OneOf)
	}
	// They change nothing, so they are the same for all.
	calls := row(t)
	for _, rights := range lacking {
		caller, from := callerOf(t, callerName(d, "without", rights...)), auditSize(t)
		session := caller.connect(t)
		for _, call := range calls {
			if err := refusedForRights(session.do(t, d.Name, call)); err != nil {
				t.Errorf("without %v, of the call with %v: %v", rights, call.arguments, err)
			}
		}
		changesNothing(t, from, caller.user)
	}
	for _, right := range d.OneOf {
		session := callerOf(t, callerName(d, "only", right)).connect(t)
		succeeded, refused := 0, 0
		for _, call := range row(t) {
			if answer := session.do(t, d.Name, call); !fails(answer) {
				succeeded++
			} else if err := refusedForRights(answer); err == nil {
				refused++
			} else {
				t.Errorf("with %v alone of %v, of the call with %v: %v", right, d.OneOf, call.arguments, err)
			}
		}
		if succeeded == 0 || refused == 0 {
			t.Errorf("with %v alone of %v, %d calls succeed and %d are refused", right, d.OneOf, succeeded, refused)
		}
	}
}

// changesNothing checks that kube-apiserver accepted no change from a user, and refused
// at least one request.
func changesNothing(t *testing.T, from int64, user string) {
	t.Helper()
	polltest.Eventually(t, "the refusal is written down", func(context.Context) error {
		if !slices.ContainsFunc(requestsAs(t, from, user), request.lacksRight) {
			return errors.New("nothing was refused")
		}
		return nil
	})
	for _, r := range requestsAs(t, from, user) {
		if r.changes() && r.ResponseStatus.Code < 300 && !strings.Contains(r.RequestURI, "dryRun=All") {
			t.Errorf("%s lacks a right and changes something: %s", user, r)
		}
	}
}

// usesExactly waits until each of the permissions is used, except the spare ones; no
// other permission is used, and nothing is refused.
func usesExactly(t *testing.T, from int64, user string, rights []callers.Right, spare ...callers.Right) {
	t.Helper()
	polltest.Eventually(t, "each right is used", func(context.Context) error {
		var used []callers.Right
		for _, r := range requestsAs(t, from, user) {
			if right, ok := r.right(); ok {
				used = append(used, right)
			}
		}
		if unused := without(rights, append(used, spare...)...); len(unused) > 0 {
			return fmt.Errorf("nothing needs %v", unused)
		}
		return nil
	})
	for _, r := range requestsAs(t, from, user) {
		if right, ok := r.right(); ok && !slices.Contains(rights, right) {
			t.Errorf("nobody says that the right %v is used", right)
		}
		if r.lacksRight() && !r.looksEverywhereFirst() {
			t.Errorf("with all rights this is refused: %s", r)
		}
	}
}

// requestsAs returns the requests that were made for a user, from an offset in the
// audit log.
func requestsAs(t *testing.T, from int64, user string) []request {
	t.Helper()
	return slices.DeleteFunc(requests(t, from), func(r request) bool { return r.ImpersonatedUser == nil || r.ImpersonatedUser.Username != user })
}

// right returns the permission that a request needs. Every user may create access
// reviews for themselves.
func (r request) right() (callers.Right, bool) {
	resource := r.ObjectRef.Resource
	switch {
	case resource == "":
		resource, _, _ = strings.Cut(r.RequestURI, "?")
	case r.ObjectRef.Subresource != "":
		resource += "/" + r.ObjectRef.Subresource
	}
	return callers.Right{Verb: r.Verb, Group: r.ObjectRef.APIGroup, Resource: resource}, r.ObjectRef.APIGroup != "authorization.k8s.io"
}

// looksEverywhereFirst reports whether a request of diagnose_workspace or
// delete_workspace lists the pods or volume claims of all namespaces, because a
// template may create them anywhere. For callers without permission for that, the tools
// list those of some namespaces.
func (r request) looksEverywhereFirst() bool {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	return r.Verb == "list" && (path == "/api/v1/pods" || path == "/api/v1/persistentvolumeclaims")
}

// spare returns permissions that these calls do not need: create_workspace reads the
// workspace if its watch breaks.
func spare(tool string) []callers.Right {
	switch tool {
	case "create_workspace":
		return []callers.Right{{Verb: "get", Group: "aggregation.coder.com", Resource: "coderworkspaces"}}
	case "update_workspace", "diagnose_workspace":
		// For callers who may not list templates.
		return []callers.Right{{Verb: "get", Group: "aggregation.coder.com", Resource: "codertemplates"}}
	}
	return nil
}

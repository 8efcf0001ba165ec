package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/agents"
)

// sessionREST implements the subresources exec and portforward.
type sessionREST[O any, P registry.OptionsOf[O]] struct {
	registry.Body
	connect func(ctx context.Context, name string, asked P) (http.Handler, error)
}

var _ rest.Connecter = (*sessionREST[metav1.ListOptions, *metav1.ListOptions])(nil)

func newSessionREST[O any, P registry.OptionsOf[O]](
	body registry.Body, connect func(ctx context.Context, name string, asked P) (http.Handler, error),
) *sessionREST[O, P] {
	return &sessionREST[O, P]{body, connect}
}

// ConnectMethods implements rest.Connecter. A WebSocket starts with GET, SPDY with POST.
func (*sessionREST[O, P]) ConnectMethods() []string { return []string{http.MethodGet, http.MethodPost} }

// NewConnectOptions implements rest.Connecter.
func (*sessionREST[O, P]) NewConnectOptions() (runtime.Object, bool, string) {
	return P(new(O)), false, ""
}

// Connect implements rest.Connecter.
func (r *sessionREST[O, P]) Connect(ctx context.Context, name string, options runtime.Object, _ rest.Responder) (_ http.Handler, err error) {
	defer coderfault.Name(ctx, &err)
	asked, ok := options.(P)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the options are a %T, want a %T", options, asked))
	}
	return r.connect(ctx, name, asked)
}

// exec implements the subresource exec.
func (r *subresource) exec(ctx context.Context, name string, asked *aggregationv1alpha1.CoderWorkspaceExecOptions) (http.Handler, error) {
	if !asked.Stdin && !asked.Stdout && !asked.Stderr {
		return nil, apierrors.NewBadRequest("at least one of stdin, stdout and stderr must be true")
	}
	if asked.SSH && (!asked.Stdin || !asked.Stdout || asked.Stderr || asked.TTY || asked.Shell || len(asked.Command) > 0) {
		return nil, apierrors.NewBadRequest("ssh needs stdin and stdout, and excludes stderr, tty, shell and command, which the SSH client sends itself")
	}
	session, err := r.open(ctx, name, asked.Agent)
	if err != nil {
		return nil, err
	}
	// Connect before the response begins, so that an error is returned as an API status.
	run, end, err := begin(ctx, session, asked)
	if err != nil {
		session.End()
		return nil, fault(name, err)
	}
	exec := execProtocol{Stdin: asked.Stdin, Stdout: asked.Stdout, Stderr: asked.Stderr, TTY: asked.TTY, Run: func(
		ctx context.Context, stdin io.Reader, stdout, stderr io.Writer, resize <-chan remotecommand.TerminalSize,
	) error {
		// The client may take longer to read the rest of the output.
		defer func() { _ = end() }()
		return run(ctx, stdin, stdout, stderr, resize)
	}}
	return serve(name, session, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		// Close the connection also if the protocol upgrade fails and nothing runs.
		defer func() { _ = end() }()
		exec.ServeHTTP(w, req)
	})), nil
}

// begin connects to the agent's SSH server. It returns a function that serves the client's streams
// through the connection, and one that closes it.
func begin(ctx context.Context, session *agents.Session, asked *aggregationv1alpha1.CoderWorkspaceExecOptions) (run runCommand, end func() error, err error) {
	if asked.SSH {
		conn, err := session.DialSSH(ctx)
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context, stdin io.Reader, stdout, _ io.Writer, _ <-chan remotecommand.TerminalSize) error {
			return agents.Relay(ctx, conn, stdin, stdout)
		}, conn.Close, nil
	}
	client, err := session.SSH(ctx)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer, resize <-chan remotecommand.TerminalSize) error {
		return agents.Run(ctx, client, agents.Command{
			Args: asked.Command, Shell: asked.Shell, TTY: asked.TTY, Stdin: stdin, Stdout: stdout, Stderr: stderr, Resize: resize,
		})
	}, client.Close, nil
}

// portForward implements the subresource portforward.
func (r *subresource) portForward(ctx context.Context, name string, asked *aggregationv1alpha1.CoderWorkspacePortForwardOptions) (http.Handler, error) {
	session, err := r.open(ctx, name, asked.Agent)
	if err != nil {
		return nil, err
	}
	return serve(name, session, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := session.Context(req.Context())
		defer cancel()
		portForwardProtocol{Dial: session.Dial}.ServeHTTP(w, req.WithContext(ctx))
	})), nil
}

// serve returns a handler that logs the end of the session and releases its slot.
func serve(name string, session *agents.Session, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer session.End()
		next.ServeHTTP(w, req)
		log.FromContext(req.Context()).V(1).Info("A session in a workspace ended", "workspace", name)
	})
}

// open connects to an agent of a workspace. Errors are API statuses.
func (r *subresource) open(ctx context.Context, name, agent string) (*agents.Session, error) {
	if err := r.authorizeCreate(ctx); err != nil {
		return nil, err
	}
	ws, err := r.kind.Find(ctx, r.store, name)
	if err != nil {
		return nil, err
	}
	client, err := r.kind.client(ctx, ws)
	if err != nil {
		return nil, err
	}
	// Read the workspace from Coder: each build has new agents, and the object may be out of date.
	w, err := client.Workspace(ctx, ws.ID)
	if err != nil {
		return nil, fault(name, err)
	}
	chosen, err := findAgent(name, w, agent)
	if err != nil {
		return nil, err
	}
	if chosen.Status != agentConnected {
		return nil, apierrors.NewConflict(resource, name, fmt.Errorf(
			"agent %q is not connected (%s): look at the workspace's conditions and at the log of its pod", chosen.Name, chosen.Status))
	}
	if err := maySession(ctx, ws, client); err != nil {
		return nil, err
	}
	session, err := r.kind.agents.Open(ctx, client, chosen.ID)
	if errors.Is(err, agents.ErrLimit) {
		return nil, apierrors.NewTooManyRequests(err.Error(), 0)
	}
	return session, fault(name, err)
}

// authorizeCreate checks the verb create for requests that were authorized with another verb. A
// WebSocket begins with a GET, and a role that may read everything must not be able to run
// commands. The API server of Kubernetes does the same for pods/exec.
func (r *subresource) authorizeCreate(ctx context.Context) error {
	attributes, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if attributes.GetVerb() == createVerb {
		return nil
	}
	decision, reason, err := r.authorizer.Authorize(ctx, asCreate{attributes})
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if decision != authorizer.DecisionAllow {
		info, _ := request.RequestInfoFrom(ctx)
		return apierrors.NewForbidden(resource, info.Name, fmt.Errorf("the verb create of %s/%s is needed: %s", Plural, info.Subresource, reason))
	}
	return nil
}

const createVerb = "create"

type asCreate struct{ authorizer.Attributes }

// GetVerb implements authorizer.Attributes.
func (asCreate) GetVerb() string { return createVerb }

// findAgent returns the agent with the name wanted, or the only agent if wanted is empty. The workspace
// must be running. Case is ignored, because OpenSSH changes the names of hosts to lower case. An exact
// match takes precedence: names that differ only in case are possible with agents of dev containers.
func findAgent(name string, w coderd.Workspace, wanted string) (coderd.Agent, error) {
	if w.LatestBuild.Transition != coderd.TransitionStart || w.LatestBuild.Status != statusRunning {
		return coderd.Agent{}, apierrors.NewConflict(resource, name, fmt.Errorf(
			"the workspace is %s, and must be running: set spec.running, or call kubectl coder start", w.LatestBuild.Status))
	}
	var names []string
	var found []coderd.Agent
	for _, agent := range w.Agents {
		if wanted == agent.Name {
			return agent, nil
		}
		names = append(names, agent.Name)
		if wanted == "" || strings.EqualFold(wanted, agent.Name) {
			found = append(found, agent)
		}
	}
	switch {
	case len(w.Agents) == 0:
		return coderd.Agent{}, apierrors.NewConflict(resource, name, errors.New(
			"the workspace has no agent: its template must have a coder_agent, and start it"))
	case len(found) == 0:
		return coderd.Agent{}, apierrors.NewBadRequest(fmt.Sprintf("agent is %q, and must be one of %s", wanted, strings.Join(names, ", ")))
	case len(found) > 1:
		return coderd.Agent{}, apierrors.NewBadRequest(fmt.Sprintf("agent must be given, because there are several: %s", strings.Join(names, ", ")))
	}
	return found[0], nil
}

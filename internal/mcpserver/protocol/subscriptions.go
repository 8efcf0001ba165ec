package protocol

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// codeBusy means that a stream cannot be opened now. It is in the range of codes that
// JSON-RPC reserves for server errors.
const codeBusy = -32000

// Subscriptions watches the resources that clients subscribe to.
type Subscriptions interface {
	// Watch returns at once, with an error if there is no such resource or the caller in
	// the context may not read it. Otherwise it calls changed after each change, from any
	// goroutine, until the context ends. It may call changed without a change.
	//
	// The error is sent to the client: it is a *jsonrpc.Error, or its text is a sentence
	// for users.
	Watch(ctx context.Context, uri string, changed func()) error
}

// subscriptions manages the subscriptions to resources. Each subscription has its own
// watch, which impersonates the caller, so that no client is notified about a resource that
// it may not read. Notifications about the same resource are combined.
type subscriptions struct {
	server *Server
	// after is time.AfterFunc, except in tests.
	after func(time.Duration, func())

	mu sync.Mutex
	// pending contains the resources for which a notification is scheduled.
	pending map[string]bool
	// bySession contains the functions that end the subscriptions of sessions, by resource.
	bySession map[*mcp.ServerSession]map[string]func()
}

func newSubscriptions(server *Server) *subscriptions {
	return &subscriptions{
		server:  server,
		after:   func(d time.Duration, tell func()) { time.AfterFunc(d, tell) },
		pending: map[string]bool{}, bySession: map[*mcp.ServerSession]map[string]func(){},
	}
}

// subscribe handles resources/subscribe. It authorizes the subscription, in or without a
// session, and starts to watch before the SDK accepts it. The SDK's own handler cannot do
// that, because it does not get the caller.
func (s *subscriptions) subscribe(ctx context.Context, req mcp.Request, params *mcp.SubscribeParams, next mcp.MethodHandler) (mcp.Result, error) {
	if err := s.add(ctx, req, params.URI); err != nil {
		return nil, err
	}
	result, err := next(authorised(ctx), methodSubscribe, req)
	if err != nil {
		s.remove(req, params.URI)
	}
	return result, err
}

// listen serves a stream of revision 2026-07-28. When the stream's context ends, the SDK
// sends its last message.
func (s *subscriptions) listen(ctx context.Context, req mcp.Request, params *mcp.SubscriptionsListenParams, next mcp.MethodHandler) (mcp.Result, error) {
	var uris []string
	if params.Notifications != nil {
		uris = params.Notifications.ResourceSubscriptions
	}
	if most := s.server.limits.urisPerStream; len(uris) > most {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("resourceSubscriptions has %d resources, and one stream is about %d at most; open another stream for the rest", len(uris), most)}
	}
	stream, end, err := s.begin(ctx, req, methodListen, uris)
	if err != nil {
		return nil, err
	}
	defer end()
	return next(authorised(stream), methodListen, req)
}

// add subscribes a session. Without a session, no notification can be delivered, so add
// only checks whether the subscription is allowed.
func (s *subscriptions) add(ctx context.Context, req mcp.Request, uri string) error {
	// The subscription outlives the request.
	stream, end, err := s.begin(context.WithoutCancel(ctx), req, methodSubscribe, []string{uri})
	if err != nil {
		return err
	}
	if !inSession(req) {
		end()
		return nil
	}
	session := req.GetSession().(*mcp.ServerSession)
	s.mu.Lock()
	defer s.mu.Unlock()
	ends := s.bySession[session]
	if ends == nil {
		ends = map[string]func(){}
		s.bySession[session] = ends
		go func() {
			// The error is the reason why the session ended.
			_ = session.Wait()
			s.removeAll(session)
		}()
	}
	if before := ends[uri]; before != nil {
		before()
	}
	ends[uri] = end
	context.AfterFunc(stream, end)
	return nil
}

// remove ends a session's subscription, if there is one.
func (s *subscriptions) remove(req mcp.Request, uri string) {
	session, ok := req.GetSession().(*mcp.ServerSession)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if end := s.bySession[session][uri]; end != nil {
		end()
		delete(s.bySession[session], uri)
	}
}

func (s *subscriptions) removeAll(session *mcp.ServerSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, end := range s.bySession[session] {
		end()
	}
	delete(s.bySession, session)
}

// begin opens a stream of the caller and watches its resources. It logs the caller and the
// resources.
func (s *subscriptions) begin(ctx context.Context, req mcp.Request, method string, uris []string) (stream context.Context, end func(), err error) {
	start, outcome := s.server.config.Clock.Now(), toolset.OutcomeOK
	defer func() {
		for _, uri := range uris {
			deed{kind: resourceDeed, target: uri}.log(ctx, method, outcome, s.server.config.Clock.Since(start))
		}
	}()
	expiry := time.Time{}
	if extra := req.GetExtra(); extra != nil {
		expiry = expiryOf(extra.TokenInfo)
	}
	stream, end, err = s.server.streams.begin(ctx, callers.NameOf(ctx), s.server.life(expiry))
	if err != nil {
		outcome = toolset.OutcomeUnavailable
		return nil, nil, &jsonrpc.Error{Code: codeBusy, Message: err.Error()}
	}
	for _, uri := range uris {
		if outcome, err = s.watch(stream, uri); err != nil {
			end()
			return nil, nil, err
		}
	}
	return stream, end, nil
}

// watch starts to watch a resource with the caller's permissions. The error is for the
// client.
func (s *subscriptions) watch(ctx context.Context, uri string) (outcome string, err error) {
	ctx, recorded := toolset.WithOutcome(ctx)
	if err = s.server.config.Subscriptions.Watch(ctx, uri, func() { s.changed(uri) }); err == nil {
		return toolset.OutcomeOK, nil
	}
	outcome = outcomeOf(recorded.String(), nil, err)
	var rpc *jsonrpc.Error
	switch {
	case !errors.As(err, &rpc):
		err = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	case isNoResource(rpc):
		err = noResource(rpc, uri)
	}
	return outcome, err
}

// changed notifies the subscribers of a resource. Several clients may watch the same
// resource, and it may change often, so all changes within limits.coalesce are combined
// into one message.
func (s *subscriptions) changed(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending[uri] {
		return
	}
	s.pending[uri] = true
	s.after(s.server.limits.coalesce, func() {
		s.mu.Lock()
		delete(s.pending, uri)
		s.mu.Unlock()
		if err := s.server.mcp.ResourceUpdated(context.Background(), &mcp.ResourceUpdatedNotificationParams{URI: uri}); err != nil {
			s.server.config.Logger.Error(err, "Could not notify a client of a changed resource")
		}
	})
}

type authorisedKey struct{}

// authorised marks the subscriptions of a request as authorized.
func authorised(ctx context.Context) context.Context {
	return context.WithValue(ctx, authorisedKey{}, true)
}

// acceptSubscription is the SDK's handler. It accepts only requests that passed subscribe.
func acceptSubscription(ctx context.Context, _ *mcp.SubscribeRequest) error {
	if ctx.Value(authorisedKey{}) == nil {
		return errors.New("bug: a subscription was not authorised")
	}
	return nil
}

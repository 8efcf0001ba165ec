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

// codeBusy says that a stream cannot be opened now. JSON-RPC leaves this code to
// servers.
const codeBusy = -32000

// Subscriptions watches resources.
type Subscriptions interface {
	// Watch returns at once: with an error where the caller of the context may not
	// read the resource, or there is none. After that it calls changed for each change,
	// from any goroutine, until the context ends. It may call it where nothing changed.
	//
	// The error is shown to the client: a *jsonrpc.Error, or one whose text is a
	// sentence for people.
	Watch(ctx context.Context, uri string, changed func()) error
}

// subscriptions are the resources that clients want to hear of. Each watch is its
// client's own and acts as its caller, so that nobody hears of what they may not
// read, and all news of a resource goes out together.
type subscriptions struct {
	server *Server
	source Subscriptions
	// after is time.AfterFunc, apart from tests.
	after func(time.Duration, func())

	mu sync.Mutex
	// pending are the resources whose news will go out.
	pending map[string]bool
	// bySession are what ends the subscriptions of sessions, by resource.
	bySession map[*mcp.ServerSession]map[string]func()
}

func newSubscriptions(server *Server) *subscriptions {
	return &subscriptions{
		server: server, source: server.config.Subscriptions,
		after:   func(d time.Duration, tell func()) { time.AfterFunc(d, tell) },
		pending: map[string]bool{}, bySession: map[*mcp.ServerSession]map[string]func(){},
	}
}

// subscribe authorises subscriptions of both eras and begins to watch, before the
// SDK accepts them: it asks its own handler without saying who the caller is.
func (s *Server) subscribe(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if s.config.Subscriptions == nil {
			return next(ctx, method, req)
		}
		switch params := req.GetParams().(type) {
		case *mcp.SubscriptionsListenParams:
			return s.subscriptions.listen(ctx, req, params, next)
		case *mcp.SubscribeParams:
			if err := s.subscriptions.add(ctx, req, params.URI); err != nil {
				return nil, err
			}
			result, err := next(authorised(ctx), method, req)
			if err != nil {
				s.subscriptions.remove(req, params.URI)
			}
			return result, err
		case *mcp.UnsubscribeParams:
			s.subscriptions.remove(req, params.URI)
		}
		return next(ctx, method, req)
	}
}

// listen serves a stream of 2026-07-28. When the stream's context ends the SDK
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

// add subscribes a session. Without a session nothing can be delivered, and all
// that remains is whether it would be allowed.
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
			// Its error is why the session ended.
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

// begin opens a stream of the caller and watches the resources that it is about.
// It writes who wants to hear of which.
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

// watch begins to watch a resource as the caller. The error is for the client.
func (s *subscriptions) watch(ctx context.Context, uri string) (outcome string, err error) {
	ctx, told := toolset.WithOutcome(ctx)
	if err = s.source.Watch(ctx, uri, func() { s.changed(uri) }); err == nil {
		return toolset.OutcomeOK, nil
	}
	outcome = outcomeOf(told.String(), nil, err)
	var rpc *jsonrpc.Error
	switch {
	case !errors.As(err, &rpc):
		err = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	case isNoResource(rpc):
		err = noResource(rpc, uri)
	}
	return outcome, err
}

// changed tells those who want to hear of a resource. Several clients may watch
// the same one, and it may change often, so that one message is for all changes
// within a short time.
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
			s.server.config.Logger.Error(err, "Could not tell that a resource changed")
		}
	})
}

type authorisedKey struct{}

// authorised marks that the subscriptions of a request were authorised.
func authorised(ctx context.Context) context.Context {
	return context.WithValue(ctx, authorisedKey{}, true)
}

// acceptSubscription is what the SDK asks. It accepts nothing that did not come
// through subscribe.
func acceptSubscription(ctx context.Context, _ *mcp.SubscribeRequest) error {
	if ctx.Value(authorisedKey{}) == nil {
		return errors.New("bug: a subscription was not authorised")
	}
	return nil
}

package protocol

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const watchedURI = "test://watched"

// fakeSource provides resources that change when the test says so. Their URIs begin with
// test://. Only alice may read those that begin with test://private.
type fakeSource struct {
	mu      sync.Mutex
	last    int
	watches map[int]func()
	callers sets.Set[string]
}

func newFakeSource() *fakeSource {
	return &fakeSource{watches: map[int]func(){}, callers: sets.New[string]()}
}

func (f *fakeSource) Watch(ctx context.Context, uri string, changed func()) error {
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return fmt.Errorf("nobody may watch %q", uri)
	}
	if strings.HasPrefix(uri, "test://private") && caller.GetName() != "alice" {
		forbidden := &toolset.CallError{Verb: "get", Resource: "things", Namespace: "coder", Name: "x", Err: apierrors.NewForbidden(schema.GroupResource{}, "x", nil)}
		_, sentence := toolset.Sentence(ctx, forbidden)
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: sentence}
	}
	if strings.HasPrefix(uri, "test://missing") {
		return mcp.ResourceNotFoundError(uri)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.callers.Insert(caller.GetName())
	f.last++
	id := f.last
	f.watches[id] = changed
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watches, id)
	})
	return nil
}

// change reports a change to all watches.
func (f *fakeSource) change() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, changed := range f.watches {
		changed()
	}
}

func (f *fakeSource) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.watches)
}

func watched(source *fakeSource) func(*Config, *limits) {
	return func(c *Config, _ *limits) { c.Subscriptions = source }
}

func TestNewsReachSubscribers(t *testing.T) {
	for name, w := range ways {
		if w == (way{legacyProtocol, false}) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			source := newFakeSource()
			h := w.of(t, watched(source))
			news := make(chan string, 100)
			c := h.connect(t, w.protocol, "alice", &mcp.ClientOptions{
				ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) { news <- req.Params.URI },
			})
			if err := c.Subscribe(t.Context(), &mcp.SubscribeParams{URI: watchedURI}); err != nil {
				t.Fatal(err)
			}
			polltest.Eventually(t, "the resource is watched", func() bool { return source.open() == 1 })
			// The server may watch before the client listens, so the change is repeated.
			for range 3 {
				polltest.Eventually(t, "news come", func() bool {
					source.change()
					select {
					case uri := <-news:
						return uri == watchedURI
					default:
						return false
					}
				})
			}
			if !source.callers.Equal(sets.New("alice")) {
				t.Errorf("it is watched as %v", source.callers.UnsortedList())
			}
			if err := c.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: watchedURI}); err != nil {
				t.Fatal(err)
			}
			polltest.Eventually(t, "the watch ends", func() bool { return source.open() == 0 })
			if got := h.logs.Lines(`"uri"="test://watched"`); len(got) != 1 || !strings.Contains(got[0], `"user"="alice"`) || !strings.Contains(got[0], `"outcome"="ok"`) {
				t.Errorf("the record says %q", got)
			}
		})
	}
}

func TestChangesThatComeTogetherAreToldOnce(t *testing.T) {
	source := newFakeSource()
	h := newHarness(t, watched(source))
	var waits []time.Duration
	var tell func()
	h.subscriptions.after = func(d time.Duration, f func()) { waits, tell = append(waits, d), f }
	streams := []*events{h.listen(t, "alice", watchedURI), h.listen(t, "bob", watchedURI)}
	for _, stream := range streams {
		stream.until(t, "notifications/subscriptions/acknowledged")
	}
	for range 20 {
		source.change()
	}
	if len(waits) != 1 || waits[0] != h.limits.coalesce {
		t.Fatalf("the changes wait for %v, want one wait of %s", waits, h.limits.coalesce)
	}
	tell()
	for _, stream := range streams {
		stream.until(t, "notifications/resources/updated")
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, stream := range streams {
		if rest := stream.until(t, `"result"`); strings.Contains(rest, "resources/updated") {
			t.Errorf("stream %d was told more than once: %s", i, rest)
		}
	}
}

func TestNobodySubscribesToWhatTheyMayNotRead(t *testing.T) {
	tests := map[string]struct{ token, uri, told, outcome string }{
		"forbidden":     {"bob", "test://private", `"code":-32602,"message":"user \"bob\" may not get things coder/x`, "denied"},
		"missing":       {"bob", "test://missing", `"code":-32602,"message":"there is no resource \"test://missing\"; resources/list and resources/templates/list show all resources"`, "notfound"},
		"not known who": {"", "test://public", `"code":-32602,"message":"nobody may watch`, "error"},
	}
	for what, tt := range tests {
		for name, w := range ways {
			t.Run(what+" "+name, func(t *testing.T) {
				source := newFakeSource()
				h := w.of(t, watched(source))
				m := mcptest.Message{Protocol: w.protocol, Token: tt.token, Method: methodSubscribe, Params: map[string]any{"uri": tt.uri}}
				switch {
				case w.protocol == modernProtocol:
					m.Method, m.Params = methodListen, map[string]any{"notifications": map[string]any{"resourceSubscriptions": []string{"test://first", tt.uri}}}
				case w.sessions:
					m.Session, _, _ = h.initialize(t, tt.token)
				}
				if _, body := h.send(t, m); !strings.Contains(body, tt.told) {
					t.Errorf("the answer is %s", body)
				}
				polltest.Eventually(t, "nothing is watched", func() bool { return source.open() == 0 && h.openStreams() == 0 })
				if got := h.logs.Lines(fmt.Sprintf(`"uri"=%q`, tt.uri)); len(got) != 1 || fields(got[0])["outcome"] != tt.outcome || fields(got[0])["user"] != tt.token {
					t.Errorf("the record says %q", got)
				}
			})
		}
	}
}

func TestWithoutASessionAnOldClientIsToldOnlyWhetherItMay(t *testing.T) {
	source := newFakeSource()
	h := newHarness(t, watched(source))
	_, body := h.send(t, mcptest.Message{Protocol: legacyProtocol, Token: "alice", Method: methodSubscribe, Params: map[string]any{"uri": "test://private"}})
	if !strings.Contains(body, `"result":{}`) {
		t.Errorf("the answer is %s", body)
	}
	polltest.Eventually(t, "nothing is watched", func() bool { return source.open() == 0 })
}

func TestOneStreamIsAboutFewResources(t *testing.T) {
	h := newHarness(t, watched(newFakeSource()), func(_ *Config, l *limits) { l.urisPerStream = 2 })
	response, body := h.send(t, mcptest.Message{Protocol: modernProtocol, Token: "alice", Method: methodListen, Params: map[string]any{
		"notifications": map[string]any{"resourceSubscriptions": []string{"test://1", "test://2", "test://3"}},
	}})
	if response.StatusCode != http.StatusBadRequest || !strings.Contains(body, "has 3 resources, and one stream is about 2 at most") {
		t.Errorf("%d %s", response.StatusCode, body)
	}
}

func TestOneUserHasFewStreams(t *testing.T) {
	source := newFakeSource()
	h := newHarness(t, watched(source), withSessions(10), func(c *Config, _ *limits) { c.MaxStreamsPerUser = 2 })
	first := h.listen(t, "alice", watchedURI)
	first.until(t, "acknowledged")
	h.listen(t, "alice", watchedURI).until(t, "acknowledged")
	const refused = `user \"alice\" already has 2 open streams and subscriptions, which is the maximum`

	_, body := h.send(t, mcptest.Message{Protocol: modernProtocol, Token: "alice", Method: methodListen, Params: map[string]any{
		"notifications": map[string]any{"resourceSubscriptions": []string{watchedURI}},
	}})
	if !strings.Contains(body, refused) || !strings.Contains(body, "-32000") {
		t.Errorf("a third stream gives %s", body)
	}
	id, _, _ := h.initialize(t, "alice")
	if _, body = h.send(t, mcptest.Message{Protocol: legacyProtocol, Token: "alice", Session: id, Method: methodSubscribe, Params: map[string]any{"uri": watchedURI}}); !strings.Contains(body, refused) {
		t.Errorf("a subscription gives %s", body)
	}
	stream := h.open(t, streamRequest(t, h, "alice", id))
	if stream.response.StatusCode != http.StatusTooManyRequests || stream.response.Header.Get("Retry-After") == "" {
		t.Errorf("a stream of a session gives %d", stream.response.StatusCode)
	}
	if streams, places := h.openStreams(), h.streams.users.Total(); streams != 2 || places != 2 {
		t.Errorf("%d streams and %d places are counted", streams, places)
	}

	// The limit is per user, and a place is free again when a stream has ended.
	h.listen(t, "bob", watchedURI).until(t, "acknowledged")
	first.cancel()
	polltest.Eventually(t, "the stream has ended", func() bool { return h.openStreams() == 2 })
	h.listen(t, "alice", watchedURI).until(t, "acknowledged")
}

// streamRequest returns a request for the stream of a session.
func streamRequest(t *testing.T, h *harness, token, session string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Mcp-Protocol-Version", legacyProtocol)
	r.Header.Set(sessionHeader, session)
	return r
}

func TestStreamsEndWithALastMessage(t *testing.T) {
	soon := func(_ *Config, l *limits) { l.stream = 100 * time.Millisecond }
	tests := map[string]struct {
		token  string
		change func(*Config, *limits)
		end    func(*testing.T, *harness)
	}{
		"when the token does":   {token: "alice/x/1100"},
		"after their time":      {token: "alice", change: soon},
		"before a longer token": {token: "alice/x/100000", change: soon},
		"with the server": {token: "alice", end: func(t *testing.T, h *harness) {
			if err := h.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			source := newFakeSource()
			changes := []func(*Config, *limits){watched(source)}
			if tt.change != nil {
				changes = append(changes, tt.change)
			}
			h := newHarness(t, changes...)
			stream := h.listen(t, tt.token, watchedURI)
			stream.until(t, "acknowledged")
			if tt.end != nil {
				tt.end(t, h)
			}
			stream.until(t, `"result":{`)
			if rest := stream.next(); rest != "" {
				t.Errorf("after the last message came %s", rest)
			}
			polltest.Eventually(t, "nothing is watched", func() bool { return source.open() == 0 && h.openStreams() == 0 })
		})
	}
}

func TestAStreamOfASessionEndsWithTheToken(t *testing.T) {
	h := newHarness(t, withSessions(2))
	id, _, _ := h.initialize(t, "alice")
	stream := h.open(t, streamRequest(t, h, "alice/x/1050", id))
	if stream.response.StatusCode != http.StatusOK {
		t.Fatalf("the stream gives %d", stream.response.StatusCode)
	}
	if rest := stream.next(); rest != "" {
		t.Errorf("the stream brought %s", rest)
	}
	polltest.Eventually(t, "no stream is open", func() bool { return h.openStreams() == 0 })
}

func TestSubscriptionsOfASessionEnd(t *testing.T) {
	tests := map[string]struct {
		token string
		end   func(*testing.T, *harness, string)
	}{
		"with the token": {token: "alice/x/1050"},
		"with the session": {token: "alice", end: func(t *testing.T, h *harness, session string) {
			r := streamRequest(t, h, "alice", session)
			r.Method = http.MethodDelete
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
		}},
		"with the server": {token: "alice", end: func(t *testing.T, h *harness, _ string) {
			if err := h.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}},
		"when they are ended": {token: "alice", end: func(t *testing.T, h *harness, session string) {
			h.send(t, mcptest.Message{Protocol: legacyProtocol, Token: "alice", Session: session, Method: "resources/unsubscribe", Params: map[string]any{"uri": watchedURI}})
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			source := newFakeSource()
			h := newHarness(t, withSessions(2), watched(source))
			id, _, _ := h.initialize(t, "alice")
			// The second subscription replaces the first.
			for range 2 {
				_, body := h.send(t, mcptest.Message{Protocol: legacyProtocol, Token: tt.token, Session: id, Method: methodSubscribe, Params: map[string]any{"uri": watchedURI}})
				if !strings.Contains(body, `"result":{}`) {
					t.Fatalf("subscribing gives %s", body)
				}
			}
			if tt.end != nil {
				polltest.Eventually(t, "one watch is left", func() bool { return source.open() == 1 && h.openStreams() == 1 })
				tt.end(t, h, id)
			}
			polltest.Eventually(t, "nothing is watched", func() bool { return source.open() == 0 && h.openStreams() == 0 })
		})
	}
}

func TestManySubscriptionsLeaveNothingBehind(t *testing.T) {
	source := newFakeSource()
	h := newHarness(t, watched(source), withSessions(100))
	before := goroutines()
	for range 100 {
		stream := h.listen(t, "alice", watchedURI)
		stream.until(t, "acknowledged")
		source.change()
		stream.cancel()
	}
	for range 20 {
		id, _, _ := h.initialize(t, "alice")
		h.send(t, mcptest.Message{Protocol: legacyProtocol, Token: "alice", Session: id, Method: methodSubscribe, Params: map[string]any{"uri": watchedURI}})
		r := streamRequest(t, h, "alice", id)
		r.Method = http.MethodDelete
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	settled(t, before)
	// Goroutines of earlier tests may have ended, so also check the counts.
	polltest.Eventually(t, "no watches, streams and sessions are left", func() bool {
		return source.open() == 0 && h.openStreams() == 0 && h.openSessions() == 0 && h.streams.users.Total() == 0 && h.sessions.places.Total() == 0
	})
}

// TestNoSubscriptionPassesUnseen checks the SDK's handler, which must reject requests that
// were not authorized before.
func TestNoSubscriptionPassesUnseen(t *testing.T) {
	if err := acceptSubscription(t.Context(), &mcp.SubscribeRequest{}); err == nil {
		t.Error("a subscription was accepted that nobody authorised")
	}
}

func TestHowLongAStreamMayLast(t *testing.T) {
	h := newHarness(t)
	if got := h.life(time.Time{}); got != 59*time.Minute {
		t.Errorf("without a known end of the token it lasts %s", got)
	}
	if got := h.life(time.Now().Add(24 * time.Hour)); got != 59*time.Minute {
		t.Errorf("with a long token it lasts %s", got)
	}
	if got := h.life(time.Now().Add(time.Minute)); got > 59*time.Second || got < 50*time.Second {
		t.Errorf("with a token of a minute it lasts %s", got)
	}
	if got := h.life(time.Now()); got > 0 {
		t.Errorf("with a token that ended it lasts %s", got)
	}
}

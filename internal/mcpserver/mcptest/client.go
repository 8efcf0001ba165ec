package mcptest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// The revisions of the protocol: with a handshake, and without.
const (
	Legacy = "2025-11-25"
	Modern = "2026-07-28"
)

// Endpoint is an MCP server that a client connects to over HTTP.
type Endpoint struct {
	URL, Protocol string
	// Token is the bearer token; without one, no token is sent.
	Token string
	// Transport sends the requests. By default, the client has connections of its own.
	Transport http.RoundTripper
	// Options may be nil. A client without them needs no stream of its own.
	Options *mcp.ClientOptions
}

// Client is a connected client of the SDK.
type Client struct {
	*mcp.ClientSession
	requests *authorized
}

// Connect connects a client, which ends with its session. It tries once.
func (e Endpoint) Connect(ctx context.Context) (*Client, error) {
	requests := &authorized{next: e.Transport}
	if requests.next == nil {
		requests.next = &http.Transport{}
	}
	requests.token.Store(e.Token)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "v0"}, e.Options).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: e.URL, HTTPClient: &http.Client{Transport: requests}, MaxRetries: -1, DisableStandaloneSSE: e.Options == nil,
	}, &mcp.ClientSessionOptions{ProtocolVersion: e.Protocol})
	return &Client{session, requests}, err
}

// Dial connects a client until the test ends.
func (e Endpoint) Dial(t testing.TB) *Client {
	t.Helper()
	c, err := e.Connect(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatalf("connecting with %s: %v", e.Protocol, err)
	}
	t.Cleanup(c.End)
	return c
}

// End closes the session and the client's own connections.
func (c *Client) End() {
	_ = c.Close()
	if own, ok := c.requests.next.(*http.Transport); ok {
		own.CloseIdleConnections()
	}
}

// SetToken replaces the token of further requests.
func (c *Client) SetToken(token string) { c.requests.token.Store(token) }

// Call calls a tool, whose result may be an error.
func (c *Client) Call(t testing.TB, tool string, arguments map[string]any) *mcp.CallToolResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), polltest.Timeout())
	defer cancel()
	result, err := c.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("calling %s: %v", tool, err)
	}
	return result
}

// authorized adds a token to each request.
type authorized struct {
	token atomic.Value
	next  http.RoundTripper
}

func (a *authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	if token := a.token.Load().(string); token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return a.next.RoundTrip(r)
}

// Message is one HTTP request, for what the SDK's client does not send.
type Message struct {
	// If Protocol is empty, no version header is sent, as before revision 2025-06-18.
	Protocol, Token string
	Method          string
	Params          map[string]any
	// Body replaces the method and the parameters.
	Body string
}

// Request returns the request for the URL of a server.
func (m Message) Request(ctx context.Context, url string) (*http.Request, error) {
	body := m.Body
	if body == "" {
		params := map[string]any{}
		for name, value := range m.Params {
			params[name] = value
		}
		if m.Protocol >= Modern {
			params["_meta"] = map[string]any{
				"io.modelcontextprotocol/protocolVersion":    m.Protocol,
				"io.modelcontextprotocol/clientCapabilities": map[string]any{},
			}
		}
		raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": m.Method, "params": params})
		if err != nil {
			return nil, err
		}
		body = string(raw)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	set := func(name, value string) {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	set("Content-Type", "application/json")
	set("Accept", "application/json, text/event-stream")
	set("Mcp-Protocol-Version", m.Protocol)
	if m.Token != "" {
		set("Authorization", "Bearer "+m.Token)
	}
	if m.Protocol >= Modern {
		set("Mcp-Method", m.Method)
		for _, field := range []string{"name", "uri"} {
			if name, ok := m.Params[field].(string); ok {
				set("Mcp-Name", name)
			}
		}
	}
	return r, nil
}

// Send sends the request and reads the whole response.
func (m Message) Send(t testing.TB, url string) (*http.Response, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), polltest.Timeout())
	defer cancel()
	r, err := m.Request(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s: %v, after %q", m.Method, err, body)
	}
	return response, string(body)
}

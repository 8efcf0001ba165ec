package coderd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/coder/v2/codersdk"
)

const (
	// DefaultTimeout limits one request if Config.Timeout is 0.
	DefaultTimeout = 30 * time.Second
	// DefaultUserAgent is used if Config.UserAgent is empty.
	DefaultUserAgent = "coder-k8s"
)

// Config configures a Client.
type Config struct {
	// URL is the address of Coder: scheme http or https, and a host. It has no path, because Coder
	// serves its API at the root.
	URL string
	// Token is the session token. It may be empty for Login and for the calls that concern the
	// first user.
	Token string
	// CurrentToken returns the session token of each request instead of Token, for a token that may
	// be replaced. It must return quickly and be safe for concurrent use. It may be nil.
	CurrentToken func() string
	// Timeout limits one request, including its response. 0 means DefaultTimeout.
	Timeout time.Duration
	// Transport sends the requests. Nil means a transport that all clients of the process share.
	Transport http.RoundTripper
	// Restricted means RestrictedTransport, if Transport is nil. It is set for a URL that the author of an object
	// chose.
	Restricted bool
	// UserAgent is sent with each request. Empty means DefaultUserAgent.
	UserAgent string
	// OnUnauthorized is called each time that Coder refuses the token (401), so that the caller can
	// drop it. It must return quickly and be safe for concurrent use. It may be nil.
	OnUnauthorized func()
	// OnUnreachable is called each time that a call with the token fails because Coder does not
	// respond or returns a server error (5xx), unless the context is done. It must return quickly
	// and be safe for concurrent use. It may be nil.
	OnUnreachable func()
	// Observe is called after each request, for metrics. It must return quickly and be safe for
	// concurrent use. It may be nil.
	Observe func(Call)
}

// Client is a client for one Coder. It is safe for concurrent use.
type Client struct {
	sdk *codersdk.Client
	// streams is used for responses that take as long as their reader. It has no timeout.
	streams        *codersdk.Client
	recorder       *recorder
	url            string
	onUnauthorized func()
	onUnreachable  func()
	logSilence     time.Duration
}

// New validates the configuration and returns a client. It sends no request.
func New(cfg Config) (*Client, error) {
	base, err := parseURL(cfg.URL)
	if err != nil {
		return nil, &Error{Op: "using the URL of Coder", Message: err.Error(), Err: err}
	}
	next := cfg.Transport
	switch {
	case next != nil:
	case cfg.Restricted:
		next = RestrictedTransport()
	default:
		next = sharedTransport()
	}
	c := newClient(base, cfg.Token, &recorder{
		next: next, userAgent: cmp.Or(cfg.UserAgent, DefaultUserAgent), observe: cfg.Observe, currentToken: cfg.CurrentToken,
		heldLogs: &atomic.Int64{},
	}, cmp.Or(cfg.Timeout, DefaultTimeout))
	c.onUnauthorized, c.onUnreachable = cfg.OnUnauthorized, cfg.OnUnreachable
	return c, nil
}

func newClient(base *url.URL, token string, transport *recorder, timeout time.Duration) *Client {
	httpClient := &http.Client{Transport: transport, Timeout: timeout, CheckRedirect: refuseRedirect}
	streaming := *httpClient
	streaming.Timeout = 0
	return &Client{
		sdk:      codersdk.New(base, codersdk.WithSessionToken(token), codersdk.WithHTTPClient(httpClient)),
		streams:  codersdk.New(base, codersdk.WithSessionToken(token), codersdk.WithHTTPClient(&streaming)),
		recorder: transport, url: base.String(), logSilence: logSilence,
	}
}

// URL returns the address of Coder, without credentials.
func (c *Client) URL() string { return c.url }

// parseURL parses the address of Coder. Its errors contain no user or password from the address.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" {
		// The error of url.Parse contains the text, so it is not wrapped. Without "//" the password is not
		// recognized as one.
		return nil, errors.New("it cannot be parsed; write it as http://host[:port] or https://host[:port]")
	}
	shown := *u
	shown.User, shown.RawQuery, shown.Fragment = nil, "", ""
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%q must begin with http:// or https://", shown.String())
	case u.Hostname() == "":
		return nil, fmt.Errorf("%q has no host; write it as %s://host[:port]", shown.String(), u.Scheme)
	case u.User != nil:
		return nil, fmt.Errorf("%q must not contain a user or a password; give the token apart", shown.String())
	case u.Path != "" && u.Path != "/":
		return nil, fmt.Errorf("%q must not have a path, because Coder serves its API at the root of a host", shown.String())
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// sharedTransport is the transport of all clients without one of their own, so that connections to
// a Coder are reused by several clients.
var sharedTransport = sync.OnceValue(func() http.RoundTripper { return newTransport(&net.Dialer{}) })

func newTransport(dialer *net.Dialer) *http.Transport {
	dialer.Timeout, dialer.KeepAlive = 10*time.Second, 30*time.Second
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          200,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		// The default of net/http is 10 MiB.
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// call runs one operation with the token, and converts every failure into an *Error. If the
// operation sends several requests, the error describes the last one.
func (c *Client) call(ctx context.Context, op string, do func(ctx context.Context) error) error {
	err := c.callWithoutToken(ctx, op, do)
	switch {
	case IsUnauthorized(err) && ActedAs(err) == "" && c.onUnauthorized != nil:
		c.onUnauthorized()
	case IsUnreachable(err) && ctx.Err() == nil && c.onUnreachable != nil:
		c.onUnreachable()
	}
	return err
}

// fetch runs one operation and converts the response.
func fetch[Response, Result any](
	ctx context.Context, c *Client, op string, convert func(Response) Result, do func(ctx context.Context) (Response, error),
) (Result, error) {
	var out Result
	err := c.call(ctx, op, func(ctx context.Context) error {
		response, err := do(ctx)
		out = convert(response)
		return err
	})
	return out, err
}

// fetchList is like fetch, for a list.
func fetchList[Item, Result any](
	ctx context.Context, c *Client, op string, convert func(Item) Result, do func(ctx context.Context) ([]Item, error),
) ([]Result, error) {
	return fetch(ctx, c, op, func(items []Item) []Result {
		var out []Result
		for _, item := range items {
			out = append(out, convert(item))
		}
		return out
	}, do)
}

// WithSDK runs one operation with Coder's own client, which sends the token and has no timeout, and
// converts every failure into an *Error. It is used by internal/coderd/agents. That package has
// large dependencies, and only programs that connect to agents include it.
func (c *Client) WithSDK(ctx context.Context, op string, do func(ctx context.Context, sdk *codersdk.Client) error) error {
	return c.call(ctx, op, func(ctx context.Context) error { return do(ctx, c.streams) })
}

// callWithoutToken is like call, for operations that require no token. Their failure does not mean
// that the token was refused.
func (c *Client) callWithoutToken(ctx context.Context, op string, do func(ctx context.Context) error) error {
	var seen answer
	err := do(context.WithValue(concealed(ctx), answerKey{}, &seen))
	if err == nil && seen.status != 0 && seen.html {
		// Coder's client accepts some responses because of their status alone. A login page in
		// front of Coder has the status 200.
		err = errNotCoder
	}
	if seen.status == http.StatusUnauthorized && seen.refused != nil {
		seen.refused()
	}
	if err != nil {
		return newError(op, c.url, &seen, err)
	}
	return nil
}

package coderd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coder/coder/v2/codersdk"
)

// DefaultTimeout limits one request if Config.Timeout is 0.
const DefaultTimeout = 30 * time.Second

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
	// UserAgent is sent with each request. Empty means coder-k8s.
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
		next: next, userAgent: cmp.Or(cfg.UserAgent, "coder-k8s"), observe: cfg.Observe, currentToken: cfg.CurrentToken,
		heldLogs: &atomic.Int64{},
	}, cmp.Or(cfg.Timeout, DefaultTimeout))
	c.onUnauthorized, c.onUnreachable = cfg.OnUnauthorized, cfg.OnUnreachable
	return c, nil
}

func newClient(base *url.URL, token string, transport *recorder, timeout time.Duration) *Client {
	refuseRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
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

// call runs one operation with the token, and converts every failure into an *Error. If the
// operation sends several requests, the error describes the last one. It sends none if one of the
// names, which are parts of its path, is not valid in Coder.
func (c *Client) call(ctx context.Context, op string, do func(ctx context.Context) error, names ...string) error {
	if err := checkNames(op, names); err != nil {
		return err
	}
	err := c.callWithoutToken(ctx, op, do)
	switch {
	case IsUnauthorized(err) && ActedAs(err) == "" && c.onUnauthorized != nil:
		c.onUnauthorized()
	case IsUnreachable(err) && ctx.Err() == nil && c.onUnreachable != nil:
		c.onUnreachable()
	}
	return err
}

// change is call for a method of Coder's client with two arguments.
func change[A, B any](ctx context.Context, c *Client, op string, method func(context.Context, A, B) error, a A, b B) error {
	return c.call(ctx, op, func(ctx context.Context) error { return method(ctx, a, b) })
}

// with returns the call of a method of Coder's client with one argument.
func with[Arg, Response any](method func(context.Context, Arg) (Response, error), arg Arg) func(context.Context) (Response, error) {
	return func(ctx context.Context) (Response, error) { return method(ctx, arg) }
}

// fetch runs one operation and converts the response.
func fetch[Response, Result any](
	ctx context.Context, c *Client, op string, convert func(Response) Result, do func(ctx context.Context) (Response, error),
	names ...string,
) (Result, error) {
	var out Result
	err := c.call(ctx, op, func(ctx context.Context) error {
		response, err := do(ctx)
		out = convert(response)
		return err
	}, names...)
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

// metadataAddresses are those at which clouds give credentials to a machine or a pod. Of most clouds they are link-local
// addresses; these are the others.
var metadataAddresses = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),   // AWS
	netip.MustParseAddr("fd00:ec2::23"),    // AWS, for pods
	netip.MustParseAddr("fd20:ce::254"),    // Google Cloud
	netip.MustParseAddr("168.63.129.16"),   // Azure
	netip.MustParseAddr("100.100.100.200"), // Alibaba Cloud
	netip.MustParseAddr("192.0.0.192"),     // Oracle Cloud
}

// nat64 is the prefix of IPv6 addresses that end with an IPv4 address, to which a gateway translates them (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// RestrictedTransport returns the transport for a host that is named by somebody who can reach less than the operator:
// the author of an object, or a Coder. It connects to no address that means another thing for the operator than for
// them: loopback, link-local, multicast and unspecified addresses, which Kubernetes does not accept in an
// EndpointSlice either, and the metadata servers of clouds. Each address is checked when it is connected to, after the
// lookup of its name. A proxy from the environment of the operator connects to what its own rules permit.
//
// Private addresses are permitted, because the Services of the cluster have such addresses.
func RestrictedTransport() http.RoundTripper { return restrictedTransport() }

var restrictedTransport = sync.OnceValue(func() http.RoundTripper {
	direct := newTransport(&net.Dialer{Control: checkAddress})
	direct.Proxy = nil
	return directly{direct}
})

// directly sends the requests for which there is no proxy with its own transport.
type directly struct{ http.RoundTripper }

func (t directly) RoundTrip(req *http.Request) (*http.Response, error) {
	if proxy, err := http.ProxyFromEnvironment(req); proxy != nil || err != nil {
		return sharedTransport().RoundTrip(req)
	}
	return t.RoundTripper.RoundTrip(req)
}

var errRestricted = errors.New("the operator does not connect to")

// IsRestricted reports whether RestrictedTransport does not connect to the address of Coder. IsUnreachable is also true for the
// error.
func IsRestricted(err error) bool { return errors.Is(err, errRestricted) }

// checkAddress is the Control of a net.Dialer.
func checkAddress(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("the address %q cannot be checked: %w", address, err)
	}
	if kind := restrictedKind(to.Addr()); kind != "" {
		return fmt.Errorf("%w %s, because it is %s; use an address that other machines can reach too", errRestricted, to.Addr(), kind)
	}
	return nil
}

// restrictedKind returns what kind of address it is, if RestrictedTransport refuses it.
func restrictedKind(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if nat64.Contains(a) {
		whole := a.As16()
		a = netip.AddrFrom4([4]byte(whole[12:]))
	}
	switch {
	case a.IsUnspecified():
		return "an unspecified address"
	case a.IsLoopback():
		return "a loopback address"
	case slices.Contains(metadataAddresses, a):
		return "the metadata server of a cloud"
	case a.IsLinkLocalUnicast():
		return "a link-local address"
	case a.IsMulticast():
		return "a multicast address"
	}
	return ""
}

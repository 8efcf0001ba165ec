package mcpserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/protocol"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// MiddlewareConfig configures a Middleware.
type MiddlewareConfig struct {
	Options Options
	// Namespace is the namespace of Service coder-k8s, and ClusterDomain is the DNS domain
	// of the cluster, such as cluster.local. Without a namespace, no names of the Service
	// are allowed.
	Namespace, ClusterDomain string
	// Authenticate accepts only authenticated callers with permission to use the server,
	// and adds the caller to the request's context (request.WithUser). It calls noteUser,
	// also for rejected callers.
	Authenticate func(http.Handler) http.Handler
	Metrics      *protocol.Metrics
	Clock        clock.PassiveClock
	Logger       logr.Logger
}

// Middleware checks, limits and logs the HTTP requests to the server.
type Middleware struct {
	cfg      MiddlewareConfig
	names    *nameCheck
	inFlight *callers.Quota
	users    *userLimits
}

// NewMiddleware creates a Middleware.
func NewMiddleware(cfg MiddlewareConfig) *Middleware {
	share := 0 // No limit.
	if cfg.Options.MaxInFlight > 0 {
		share = max(1, cfg.Options.MaxInFlight/userShare)
	}
	return &Middleware{
		cfg:      cfg,
		names:    newNameCheck(cfg),
		inFlight: callers.NewQuota(0, cfg.Options.MaxInFlight),
		users:    &userLimits{cfg: cfg, calls: callers.NewQuota(share, 0), buckets: lru.New(maxUsers)},
	}
}

// Requests wraps the handler of all paths, including public ones.
func (m *Middleware) Requests(next http.Handler) http.Handler {
	return logged(m.cfg, recovered(limited(m.names.checkHost(next))))
}

// Calls wraps a handler that requires authentication. It must be inside of Requests.
func (m *Middleware) Calls(next http.Handler) http.Handler {
	return m.names.checkOrigin(m.limitInFlight(m.cfg.Authenticate(m.users.wrap(next))))
}

// requestRecord contains the data of one request for the access log. Inner handlers fill
// it in.
type requestRecord struct{ user string }

type requestRecordKey struct{}

func noteUser(ctx context.Context, name string) {
	if rec, ok := ctx.Value(requestRecordKey{}).(*requestRecord); ok {
		rec.user = name
	}
}

// logged adds a request ID and a logger to the request, and the ID to the response. It logs
// each request. It logs neither headers nor the query, because both may contain a token.
func logged(cfg MiddlewareConfig, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, rec := uuid.NewString(), &requestRecord{}
		logger := cfg.Logger.WithValues(tracing.RequestIDLogKey, id)
		ctx := context.WithValue(r.Context(), requestRecordKey{}, rec)
		r = r.WithContext(log.IntoContext(ctx, logger))
		r.Header.Set(tracing.RequestIDHeader, id)
		a := newResponseWriter(w)
		a.Header().Set(tracing.RequestIDHeader, id)
		// Proxies must not buffer a stream.
		a.Header().Set("X-Accel-Buffering", "no")

		start := cfg.Clock.Now()
		defer func() {
			status := a.end()
			cfg.Metrics.Answered(r.Method, status)
			level := 1
			if status >= http.StatusBadRequest {
				level = 0
			}
			logger.V(level).Info("Handled a request", "method", protocol.Cut(r.Method), "path", protocol.Cut(r.URL.Path),
				"status", status, "user", rec.user, "durationMs", cfg.Clock.Since(start).Milliseconds())
		}()
		next.ServeHTTP(a, r)
	})
}

// recovered responds with 500 after a panic of an inner handler. If the response has begun,
// it closes the connection instead, so that the client does not take a part for the whole.
// Tools run on other goroutines; package protocol recovers from their panics.
func recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares the panic value itself.
				panic(p)
			}
			log.FromContext(r.Context()).Error(nil, "Recovered from a panic in an HTTP handler", "panic", p, "stack", string(debug.Stack()))
			if a, ok := w.(*responseWriter); ok && a.begun() {
				panic(http.ErrAbortHandler)
			}
			http.Error(w, "internal error; see the log of the server for details", http.StatusInternalServerError)
		}()
		next.ServeHTTP(w, r)
	})
}

const (
	// keepAliveInterval is the maximum time without a write on a stream. Proxies commonly
	// close a connection after 30 or 60 seconds without data.
	keepAliveInterval = 15 * time.Second
	// writeTimeout is the time that a client has to read what was written.
	writeTimeout = 30 * time.Second
	// keepAlive is a comment, which clients of an event stream ignore.
	keepAlive = ": keep-alive\n\n"
)

// responseWriter is a response writer that records the status, sends keep-alive comments on an
// event stream, and sets write deadlines, so that a client that does not read is
// disconnected.
//
// A timer writes the keep-alive comments between the writes of the handler. So each write
// of the handler must be a complete event, as it is in the SDK.
type responseWriter struct {
	http.ResponseWriter
	controller *http.ResponseController

	mu     sync.Mutex
	status int
	ended  bool
	// spoke reports that something was written since the last keep-alive check.
	spoke bool
	// timer is set while the response is an open event stream, or is kept open.
	timer *time.Timer
	// opened reports that a comment sent the header, and failed that an error came after it.
	opened, failed bool
}

func newResponseWriter(w http.ResponseWriter) *responseWriter {
	return &responseWriter{ResponseWriter: w, controller: http.NewResponseController(w)}
}

func (w *responseWriter) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(status)
}

func (w *responseWriter) writeHeader(status int) {
	if w.opened {
		w.failed = status >= http.StatusBadRequest
		return
	}
	w.allowTime()
	// 1xx statuses are informational and precede the response.
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
		w.startTimer()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *responseWriter) startTimer() {
	if w.timer == nil && !w.ended && strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
		w.timer = time.AfterFunc(keepAliveInterval, w.beat)
	}
}

// KeepOpen implements protocol.StreamKeeper.
func (w *responseWriter) KeepOpen() (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.startTimer()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.status == 0 && w.timer != nil {
			// The response may be of another type.
			w.timer.Stop()
			w.timer = nil
		}
	}
}

func (w *responseWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status == 0 {
		w.writeHeader(http.StatusOK)
	}
	w.spoke = true
	w.allowTime()
	if w.failed {
		// The SDK sends errors as plain JSON with a status, for which it is too late.
		_, err := fmt.Fprintf(w.ResponseWriter, "event: message\ndata: %s\n\n", p)
		return len(p), err
	}
	return w.ResponseWriter.Write(p)
}

// FlushError implements flushing for http.ResponseController. It does not interleave with a
// keep-alive comment.
func (w *responseWriter) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status == 0 {
		w.writeHeader(http.StatusOK)
	}
	w.allowTime()
	return w.controller.Flush()
}

// Unwrap returns the wrapped writer, through which http.ResponseController sets deadlines.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// beat writes a keep-alive comment if nothing was written since the last check, and
// schedules the next check.
func (w *responseWriter) beat() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || w.timer == nil {
		return
	}
	if w.status == 0 {
		w.writeHeader(http.StatusOK)
		w.opened = true
	}
	if !w.spoke {
		w.allowTime()
		// If the client disconnected, net/http cancels the request's context, which ends the
		// stream.
		_, err := w.ResponseWriter.Write([]byte(keepAlive))
		if err == nil {
			err = w.controller.Flush()
		}
		if err != nil {
			return
		}
	}
	w.spoke = false
	w.timer.Reset(keepAliveInterval)
}

// allowTime sets the deadline of the next write. Writers without deadlines, as in tests,
// return an error, which is ignored.
func (w *responseWriter) allowTime() {
	_ = w.controller.SetWriteDeadline(time.Now().Add(writeTimeout))
}

// end stops the keep-alive and returns the status. Nothing may be written after it, because
// net/http reuses the response when the handler returns.
func (w *responseWriter) end() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.status == 0 {
		return http.StatusOK
	}
	return w.status
}

// begun reports whether the client may have received a part of the response.
func (w *responseWriter) begun() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status != 0
}

// nameCheck checks the Host and Origin headers. Without these checks, a web page could resolve
// its own host name to the server's address, and then send requests from the visitor's
// browser (DNS rebinding).
//
// The Host may be a listed name or any IP address, on every address of the machine. IP
// addresses are safe: the attack needs a name, because the browser sends the host of the
// page's origin as Host. A page whose origin is an IP address can reach only that address.
// And IP addresses cannot be listed, because those of Services, nodes and load balancers
// are not known here.
type nameCheck struct {
	hosts   map[string]bool
	origins map[string]bool
}

func newNameCheck(cfg MiddlewareConfig) *nameCheck {
	allowed := &nameCheck{hosts: map[string]bool{"localhost": true}, origins: map[string]bool{}}
	if cfg.Namespace != "" {
		// The names of the server's Service.
		for _, suffix := range []string{"", "." + cfg.Namespace, "." + cfg.Namespace + ".svc", "." + cfg.Namespace + ".svc." + cfg.ClusterDomain} {
			allowed.hosts[hostname("coder-k8s"+suffix)] = true
		}
	}
	for _, host := range cfg.Options.AllowedHosts {
		allowed.hosts[hostname(host)] = true
	}
	if u, err := url.Parse(cfg.Options.Identity.PublicURL); err == nil && u.Host != "" {
		allowed.hosts[hostname(u.Host)] = true
		// A proxy may have replaced the public Host with its own.
		allowed.origins[originOf(u)] = true
	}
	for _, origin := range cfg.Options.AllowedOrigins {
		if u, err := url.Parse(origin); err == nil {
			allowed.origins[originOf(u)] = true
		}
	}
	return allowed
}

func (n *nameCheck) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !n.hostAllowed(r) {
			http.Error(w, "the host in the Host header is not allowed; an administrator can add it with --mcp-allowed-hosts", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkOrigin rejects requests whose Origin is not allowed with 403, for all methods. It
// sets CORS headers for listed origins.
func (n *nameCheck) checkOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin, allowed := n.originAllowed(r)
		if !allowed {
			http.Error(w, "pages of this Origin may not call this server; an administrator can add it with --mcp-allowed-origins", http.StatusForbidden)
			return
		}
		if origin != "" {
			// Pages of the origin may read the response, including the headers that an MCP
			// client needs.
			header := w.Header()
			header.Set("Access-Control-Allow-Origin", origin)
			header.Set("Access-Control-Expose-Headers", "Retry-After, WWW-Authenticate, "+tracing.RequestIDHeader)
			header.Add("Vary", "Origin")
			if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
				// The methods of the protocol and any header are allowed: the token is in a header, and a page
				// cannot send a token that it does not have. Browsers send preflight requests without a token,
				// so this is before authentication.
				header.Set("Access-Control-Allow-Methods", "POST")
				header.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
				header.Set("Access-Control-Max-Age", "600")
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (n *nameCheck) hostAllowed(r *http.Request) bool {
	name := hostname(r.Host)
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return n.hosts[name]
}

// originAllowed reports whether the Origin is listed or equals the Host, which has been
// checked before: a page may call the server that it was loaded from. It returns the origin
// only if it is listed.
func (n *nameCheck) originAllowed(r *http.Request) (string, bool) {
	values := r.Header.Values("Origin")
	if len(values) == 0 {
		return "", true
	}
	if len(values) > 1 {
		return "", false
	}
	u, err := url.Parse(values[0])
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", false
	}
	if origin := originOf(u); n.origins[origin] {
		return origin, true
	}
	return "", strings.EqualFold(u.Host, r.Host)
}

// hostname removes the port, the brackets of an IPv6 address and the final dot of an
// absolute name, and converts the rest to lower case.
func hostname(hostport string) string {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func originOf(u *url.URL) string {
	return strings.ToLower(u.Scheme + "://" + u.Host)
}

package mcpserver

import (
	"net/http"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"k8s.io/utils/clock"
)

// MiddlewareConfig configures a Middleware.
type MiddlewareConfig struct {
	Limits RequestLimits
	// Names are the host names and origins that clients use.
	Names AllowedNames
	// Authenticate accepts only authenticated callers with permission to use the server,
	// and adds the caller to the request's context (request.WithUser). It calls noteUser,
	// also for rejected callers.
	Authenticate func(http.Handler) http.Handler
	Metrics      requestMetrics
	Clock        clock.PassiveClock
	Logger       logr.Logger
}

// RequestLimits limit the load that clients can cause. Zero means no limit.
type RequestLimits struct {
	// RatePerUser is the number of requests per second for each user, and Burst is the
	// maximum number of requests at once.
	RatePerUser float64
	Burst       int
	// InFlight is the maximum number of concurrent requests, without open streams. One user
	// may have a quarter of it.
	InFlight int
}

// requestMetrics counts requests.
type requestMetrics interface {
	// Answered counts a response by the request's HTTP method and the status.
	Answered(method string, status int)
	// AddInFlight adds n to the number of requests in flight.
	AddInFlight(n int)
	// RateLimited counts a request that was rejected because of its user's limits.
	RateLimited()
}

// Middleware checks, limits and logs the HTTP requests to the server.
type Middleware struct {
	cfg      MiddlewareConfig
	names    *nameCheck
	inFlight *inFlightLimit
	users    *userLimits
}

// NewMiddleware creates a Middleware.
func NewMiddleware(cfg MiddlewareConfig) *Middleware {
	return &Middleware{
		cfg:      cfg,
		names:    newNameCheck(cfg.Names),
		inFlight: newInFlightLimit(cfg.Limits.InFlight, cfg.Metrics),
		users:    newUserLimits(cfg.Limits, cfg.Metrics, cfg.Clock),
	}
}

// Requests wraps the handler of all paths, including public ones.
func (m *Middleware) Requests(next http.Handler) http.Handler {
	return logged(m.cfg, uuid.NewString, recovered(limited(m.names.checkHost(next))))
}

// Calls wraps a handler that requires authentication. It must be inside of Requests.
func (m *Middleware) Calls(next http.Handler) http.Handler {
	return m.names.checkOrigin(m.inFlight.wrap(m.cfg.Authenticate(m.users.wrap(next))))
}

package gate

import (
	"net/http"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"k8s.io/utils/clock"
)

// Config configures a Gate.
type Config struct {
	Limits Limits
	// Names are the host names and origins that clients use.
	Names Names
	// Authenticate accepts only authenticated callers with permission to use the server,
	// and adds the caller to the request's context (request.WithUser). It calls NoteUser,
	// also for rejected callers.
	Authenticate func(http.Handler) http.Handler
	Metrics      Metrics
	Clock        clock.PassiveClock
	Logger       logr.Logger
}

// Limits limit the load that clients can cause. Zero means no limit.
type Limits struct {
	// RatePerUser is the number of requests per second for each user, and Burst is the
	// maximum number of requests at once.
	RatePerUser float64
	Burst       int
	// InFlight is the maximum number of concurrent requests, without open streams. One user
	// may have a quarter of it.
	InFlight int
}

// Metrics counts requests.
type Metrics interface {
	// Answered counts a response by the request's HTTP method and the status.
	Answered(method string, status int)
	// AddInFlight adds n to the number of requests in flight.
	AddInFlight(n int)
	// RateLimited counts a request that was rejected because of its user's limits.
	RateLimited()
}

// Gate is the middleware.
type Gate struct {
	cfg      Config
	names    *names
	inFlight *inFlight
	users    *users
}

// New creates a Gate.
func New(cfg Config) *Gate {
	return &Gate{
		cfg:      cfg,
		names:    newNames(cfg.Names),
		inFlight: newInFlight(cfg.Limits.InFlight, cfg.Metrics),
		users:    newUsers(cfg.Limits, cfg.Metrics, cfg.Clock),
	}
}

// Requests wraps the handler of all paths, including public ones.
func (g *Gate) Requests(next http.Handler) http.Handler {
	return logged(g.cfg, uuid.NewString, recovered(limited(g.names.checkHost(next))))
}

// Calls wraps a handler that requires authentication. It must be inside of Requests.
func (g *Gate) Calls(next http.Handler) http.Handler {
	return g.names.checkOrigin(g.inFlight.wrap(g.cfg.Authenticate(g.users.wrap(next))))
}

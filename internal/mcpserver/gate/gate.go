package gate

import (
	"net/http"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"k8s.io/utils/clock"
)

// Config is what a Gate is made of.
type Config struct {
	Limits Limits
	// Names are what the server is called by clients.
	Names Names
	// Authenticate lets only callers through whom it knows and who may enter, and
	// puts them into the request's context (request.WithUser). It tells NoteUser who
	// they are, also of those that it refuses.
	Authenticate func(http.Handler) http.Handler
	Metrics      Metrics
	Clock        clock.PassiveClock
	Logger       logr.Logger
}

// Limits bound what clients can make the server do. Zero means no limit.
type Limits struct {
	// RatePerUser is how many requests each user may make a second, and Burst how
	// many of them at once.
	RatePerUser float64
	Burst       int
	// InFlight is how many requests may be in work at once. Streams, once they are
	// open, are not among them. One user may have a quarter of it.
	InFlight int
}

// Metrics counts what passes.
type Metrics interface {
	// Answered counts an answer by the request's HTTP method and its status.
	Answered(method string, status int)
	// AddInFlight adds to the number of requests in work.
	AddInFlight(n int)
	// RateLimited counts a request that was refused for its user's limits.
	RateLimited()
}

// Gate is the way in.
type Gate struct {
	cfg      Config
	names    *names
	inFlight *inFlight
	users    *users
}

// New makes a gate.
func New(cfg Config) *Gate {
	return &Gate{
		cfg:      cfg,
		names:    newNames(cfg.Names),
		inFlight: newInFlight(cfg.Limits.InFlight, cfg.Metrics),
		users:    newUsers(cfg.Limits, cfg.Metrics, cfg.Clock),
	}
}

// Requests wraps what serves all paths, also those that anybody may ask for.
func (g *Gate) Requests(next http.Handler) http.Handler {
	return logged(g.cfg, uuid.NewString, recovered(limited(g.names.checkHost(next))))
}

// Calls wraps what only known callers may use. It must be inside of Requests.
func (g *Gate) Calls(next http.Handler) http.Handler {
	return g.names.checkOrigin(g.inFlight.wrap(g.cfg.Authenticate(g.users.wrap(next))))
}

package mcpserver

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

const (
	// maxUsers is the maximum number of users with a stored rate limiter. A user whose
	// limiter was evicted starts with a full burst again.
	maxUsers = 4096
	// userShare is the divisor of MaxInFlight for one user's share, so that the waiting calls
	// of one user cannot block all others.
	userShare = 4
)

type userLimits struct {
	cfg MiddlewareConfig
	// calls counts the requests in flight.
	calls *callers.Quota

	mu sync.Mutex
	// buckets contains a *rate.Limiter for each user name.
	buckets *lru.Cache
}

// wrap must be inside of authentication.
func (u *userLimits) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := callers.NameOf(r.Context())
		if wait := u.take(name); wait > 0 {
			u.refuse(w, wait, fmt.Sprintf("user %q makes too many requests: %g a second are allowed", name, u.cfg.Options.RateLimit))
			return
		}
		end, ok := u.calls.Begin(name)
		if !ok {
			u.refuse(w, time.Second, fmt.Sprintf("user %q already has %d calls in progress, which is the maximum; wait until one has finished", name, u.calls.PerUser()))
			return
		}
		defer end()
		next.ServeHTTP(w, r)
	})
}

// take takes a request from the user's rate limit. If the limit is reached, it returns how
// long to wait.
func (u *userLimits) take(name string) time.Duration {
	if u.cfg.Options.RateLimit <= 0 {
		return 0
	}
	now := u.cfg.Clock.Now()
	reservation := u.bucket(name).ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

func (u *userLimits) bucket(name string) *rate.Limiter {
	u.mu.Lock()
	defer u.mu.Unlock()
	if bucket, ok := u.buckets.Get(name); ok {
		return bucket.(*rate.Limiter)
	}
	bucket := rate.NewLimiter(rate.Limit(u.cfg.Options.RateLimit), max(1, u.cfg.Options.RateBurst))
	u.buckets.Add(name, bucket)
	return bucket
}

func (u *userLimits) refuse(w http.ResponseWriter, wait time.Duration, why string) {
	u.cfg.Metrics.RateLimited.Inc()
	seconds := int(math.Ceil(wait.Seconds()))
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	http.Error(w, fmt.Sprintf("%s; try again in %d s", why, seconds), http.StatusTooManyRequests)
}

// limitInFlight limits the number of concurrent requests, including unauthenticated ones,
// because checking their tokens takes resources too.
func (m *Middleware) limitInFlight(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		end, ok := m.inFlight.Begin("")
		if !ok {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "the server is busy with other requests; try again in a second", http.StatusServiceUnavailable)
			return
		}
		defer end()
		m.cfg.Metrics.InFlight.Inc()
		defer m.cfg.Metrics.InFlight.Dec()
		next.ServeHTTP(w, r)
	})
}

const (
	// maxBodyBytes limits the JSON of a call with all its arguments. All requests in flight
	// must fit into the memory of the pod. The arguments of write_workspace_file and push_template
	// mention the limit.
	maxBodyBytes = 1 << 20
	// bodyReadTimeout is the time that a client has to send the body.
	bodyReadTimeout = 30 * time.Second
)

var (
	errSlowBody   = errors.New("the body of the request did not arrive within 30 seconds; send it again")
	errBrokenBody = errors.New("the body of the request is incomplete; send it again")
)

// limited rejects bodies above the limit with 413, and sets a deadline for reading the
// body.
func limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > maxBodyBytes {
			http.Error(w, fmt.Sprintf("the request is larger than %d MiB; send less at once", maxBodyBytes>>20), http.StatusRequestEntityTooLarge)
			return
		}
		if r.Body != nil && r.Body != http.NoBody {
			controller := http.NewResponseController(w)
			// Writers without deadlines, as in tests, return an error, which is ignored.
			_ = controller.SetReadDeadline(time.Now().Add(bodyReadTimeout))
			r.Body = &deadlineBody{ReadCloser: http.MaxBytesReader(w, r.Body, maxBodyBytes), controller: controller}
		}
		next.ServeHTTP(w, r)
	})
}

type deadlineBody struct {
	io.ReadCloser
	controller *http.ResponseController
}

func (b *deadlineBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil, errors.As(err, &tooLarge):
		return n, err
	case errors.Is(err, io.EOF):
		// net/http continues to read in the background to detect that the client
		// disconnected. It would treat the deadline as a disconnect.
		_ = b.controller.SetReadDeadline(time.Time{})
		return n, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, errSlowBody
	default:
		// The connection's error contains addresses, and the SDK sends the error to the
		// client.
		return n, errBrokenBody
	}
}

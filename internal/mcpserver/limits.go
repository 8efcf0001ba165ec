package mcpserver

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

const (
	// maxUsers is the maximum number of users with a stored rate limiter. A user whose
	// limiter was evicted starts with a full burst again.
	maxUsers = 4096
	// userShare is the divisor of InFlight for one user's share, so that the waiting calls
	// of one user cannot block all others.
	userShare = 4
	// maxStreamBodyBytes is larger than any valid request for a stream, which contains a
	// few URIs.
	maxStreamBodyBytes = 64 << 10
)

// userLimits enforces the limits of each user.
type userLimits struct {
	limits  RequestLimits
	metrics requestMetrics
	clock   clock.PassiveClock
	// calls counts the requests in flight.
	calls *callers.Quota

	mu sync.Mutex
	// buckets contains a *rate.Limiter for each user name.
	buckets *lru.Cache
}

func newUserLimits(limits RequestLimits, metrics requestMetrics, clk clock.PassiveClock) *userLimits {
	return &userLimits{
		limits: limits, metrics: metrics, clock: clk,
		calls: callers.NewQuota(shareOfUser(limits.InFlight)), buckets: lru.New(maxUsers),
	}
}

// shareOfUser returns the maximum number of concurrent requests of one user; 0 means no
// limit.
func shareOfUser(inFlight int) int {
	if inFlight <= 0 {
		return 0
	}
	return max(1, inFlight/userShare)
}

// wrap must be inside of authentication. It releases the in-flight place of a stream, which
// does no work from here on.
func (u *userLimits) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := ""
		if caller, ok := request.UserFrom(r.Context()); ok {
			name = caller.GetName()
		}
		if wait := u.take(name); wait > 0 {
			u.refuse(w, wait, fmt.Sprintf("user %q makes too many requests: %g a second are allowed", name, u.limits.RatePerUser))
			return
		}
		if isStream(r) {
			if leave := requestRecordOf(r.Context()).leave; leave != nil {
				leave()
			}
			// The number of streams is limited only by the rate from here on, so limit
			// their bodies further.
			r.Body = http.MaxBytesReader(w, r.Body, maxStreamBodyBytes)
			next.ServeHTTP(w, r)
			return
		}
		end, ok := u.calls.Begin(name)
		if !ok {
			u.refuse(w, time.Second, fmt.Sprintf("user %q has %d calls that have not ended, and may have no more: wait for one of them", name, u.calls.Most()))
			return
		}
		defer end()
		next.ServeHTTP(w, r)
	})
}

// take takes a request from the user's rate limit. If the limit is reached, it returns how
// long to wait.
func (u *userLimits) take(name string) time.Duration {
	if u.limits.RatePerUser <= 0 {
		return 0
	}
	now := u.clock.Now()
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
	bucket := rate.NewLimiter(rate.Limit(u.limits.RatePerUser), max(1, u.limits.Burst))
	u.buckets.Add(name, bucket)
	return bucket
}

func (u *userLimits) refuse(w http.ResponseWriter, wait time.Duration, why string) {
	u.metrics.RateLimited()
	seconds := int(math.Ceil(wait.Seconds()))
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	http.Error(w, fmt.Sprintf("%s; try again in %d s", why, seconds), http.StatusTooManyRequests)
}

// The header values that identify a stream of revision 2026-07-28. The SDK rejects a
// request whose body does not match its headers.
const (
	versionHeader          = "Mcp-Protocol-Version"
	methodHeader           = "Mcp-Method"
	firstStatelessRevision = "2026-07-28"
	methodListen           = "subscriptions/listen"
)

// inFlightLimit limits the number of concurrent requests, including unauthenticated ones,
// because checking their tokens takes resources too.
type inFlightLimit struct {
	places  chan struct{}
	metrics requestMetrics
}

func newInFlightLimit(limit int, metrics requestMetrics) *inFlightLimit {
	f := &inFlightLimit{metrics: metrics}
	if limit > 0 {
		f.places = make(chan struct{}, limit)
	}
	return f
}

func (f *inFlightLimit) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !f.enter() {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "the server is busy with other requests; try again in a second", http.StatusServiceUnavailable)
			return
		}
		leave := sync.OnceFunc(f.leave)
		defer leave()
		requestRecordOf(r.Context()).leave = leave
		next.ServeHTTP(w, r)
	})
}

func (f *inFlightLimit) enter() bool {
	if f.places != nil {
		select {
		case f.places <- struct{}{}:
		default:
			return false
		}
	}
	f.metrics.AddInFlight(1)
	return true
}

func (f *inFlightLimit) leave() {
	f.metrics.AddInFlight(-1)
	if f.places != nil {
		<-f.places
	}
}

// isStream reports whether the request opens a stream. A stream stays open for as long as
// the client wants, does no work meanwhile, and is counted by package protocol.
func isStream(r *http.Request) bool {
	return r.Method == http.MethodGet ||
		(r.Header.Get(versionHeader) >= firstStatelessRevision && r.Header.Get(methodHeader) == methodListen)
}

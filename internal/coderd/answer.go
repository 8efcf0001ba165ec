package coderd

import (
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/coder/v2/codersdk"
)

// answer contains the parts of the last response that Coder's client does not return: its headers
// and status are lost if the client cannot read the response.
type answer struct {
	status     int
	json       bool
	html       bool
	retryAfter time.Duration
	location   string
	// requestID is the id under which Coder logs the request.
	requestID string
	// version is the version of Coder, or empty.
	version string
	// actor is the username of the Actor that made the request, or empty. refused is to be called
	// if Coder refuses that user's token.
	actor   string
	refused func()
}

type answerKey struct{}

// recorder is the transport of one client. It records the responses and sets the User-Agent header.
type recorder struct {
	next      http.RoundTripper
	userAgent string
	observe   func(Call)
	// actor makes all requests. If it is nil, the actor of the context makes the requests that
	// change something.
	actor Actor
	// currentToken is Config.CurrentToken.
	currentToken func() string
	// heldLogs is what counts against maxHeldLogBytes now.
	heldLogs *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (t *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", t.userAgent)
	if cookie, err := req.Cookie(codersdk.SessionTokenCookie); err == nil && req.Header.Get(codersdk.SessionTokenHeader) == "" {
		// For a WebSocket Coder's client sends the token only as a cookie. Coder expects another
		// cookie name if CODER_HOST_PREFIX_COOKIE is set.
		req.Header.Set(codersdk.SessionTokenHeader, cookie.Value)
	}
	seen, _ := req.Context().Value(answerKey{}).(*answer)
	if seen != nil {
		*seen = answer{}
	}
	if err := t.act(req, seen); err != nil {
		return nil, err
	}
	if changes(req) {
		if err := BeforeChange(req.Context()); err != nil {
			return nil, err
		}
	}
	res, err := t.send(req)
	if err != nil {
		return nil, err
	}
	if seen != nil {
		seen.note(res)
	}
	if isRedirect(res) && req.Header.Get("Upgrade") != "" {
		// When it opens a WebSocket, Coder's client follows redirects and sends the token.
		_ = res.Body.Close()
		return nil, errRedirected
	}
	return res, nil
}

// act sets the token of the Actor that makes the request, if there is one, or else the current token.
func (t *recorder) act(req *http.Request, seen *answer) error {
	actor := t.actor
	if actor == nil && changes(req) {
		actor = ActorFrom(req.Context())
	}
	if actor == nil {
		if t.currentToken != nil {
			setToken(req, t.currentToken())
		}
		return nil
	}
	token, err := become(req, actor)
	if seen != nil {
		seen.actor, seen.refused = actor.Username(), func() { actor.Refused(token) }
	}
	return err
}

var errRedirected = errors.New("redirects are not followed")

func isRedirect(res *http.Response) bool { return res.StatusCode >= 300 && res.StatusCode < 400 }

func (a *answer) note(res *http.Response) {
	kind := mediaType(res.Header)
	*a = answer{
		status:     res.StatusCode,
		json:       kind == "application/json",
		html:       kind == "text/html",
		retryAfter: retryAfter(res.Header),
		location:   res.Header.Get("Location"),
		requestID:  coderRequestID(res),
		version:    res.Header.Get(codersdk.BuildVersionHeader),
		actor:      a.actor,
		refused:    a.refused,
	}
}

func mediaType(h http.Header) string {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// longestRetryAfter is the longest time that the operator waits because a server asks for it.
const longestRetryAfter = 10 * time.Minute

// retryAfter reads the header in Coder's format: seconds. A date, which proxies may send, is
// compared with the Date header of the same response, so that the local clock is not used. The result
// is at most longestRetryAfter.
func retryAfter(h http.Header) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		return time.Duration(min(seconds, int(longestRetryAfter/time.Second))) * time.Second
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil || !until.After(now) {
		return 0
	}
	return min(until.Sub(now), longestRetryAfter)
}

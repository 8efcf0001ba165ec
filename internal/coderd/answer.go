package coderd

import (
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/coder/v2/codersdk"
)

// answer is what the transport saw of the last answer. Coder's client keeps
// neither the headers nor the status of an answer that it could not read.
type answer struct {
	status     int
	json       bool
	html       bool
	retryAfter time.Duration
	location   string
	// requestID is the one under which Coder logs the request.
	requestID string
	// version is that of Coder, or empty.
	version string
	// actor is the username as whom the request was made, or empty. refused is to be
	// called if Coder refuses that user's token.
	actor   string
	refused func()
}

type answerKey struct{}

// recorder notes the answers of one client and names the program in its
// requests.
type recorder struct {
	next      http.RoundTripper
	userAgent string
	bypass    bool
	observe   func(Call)
	// actor makes all requests. Nil leaves it to their context.
	actor Actor
}

// RoundTrip implements http.RoundTripper.
func (t *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", t.userAgent)
	if t.bypass {
		req.Header.Set(codersdk.BypassRatelimitHeader, "true")
	}
	if cookie, err := req.Cookie(codersdk.SessionTokenCookie); err == nil && req.Header.Get(codersdk.SessionTokenHeader) == "" {
		// For a WebSocket Coder's client sends the token only as a cookie, which Coder
		// expects under another name if CODER_HOST_PREFIX_COOKIE is set.
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
		// Coder's client follows redirects where it changes the protocol, with the token.
		_ = res.Body.Close()
		return nil, errRedirected
	}
	return res, nil
}

// act makes the request as the user as whom it is to be made.
func (t *recorder) act(req *http.Request, seen *answer) error {
	actor := t.actor
	if actor == nil && changes(req) {
		actor = ActorFrom(req.Context())
	}
	if actor == nil {
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

// retryAfter reads the form of the header that Coder sends: seconds. A date,
// which proxies may send, is measured against the answer's own Date, so that no
// clock is needed.
func retryAfter(h http.Header) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil || !until.After(now) {
		return 0
	}
	return until.Sub(now)
}

package callers

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
)

// maxTokenBytes is larger than any real token, including one with hundreds of groups.
const maxTokenBytes = 32 << 10

// bearerToken returns the token of a request, in the format of RFC 6750. It returns false
// for a request with two Authorization headers, because a proxy may have checked the other
// one.
func bearerToken(r *http.Request) (string, bool) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.Trim(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || !isToken(token) {
		return "", false
	}
	return token, true
}

// isToken reports whether s is a b64token of RFC 6750. Nothing else is sent to the
// authenticator, so that malformed tokens cannot make it fail.
func isToken(s string) bool {
	body := strings.TrimRight(s, "=")
	if body == "" || len(s) > maxTokenBytes {
		return false
	}
	for i := range len(body) {
		c := body[i]
		letter := (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
		if !letter && strings.IndexByte("-._~+/", c) < 0 {
			return false
		}
	}
	return true
}

// lastExpiry is later than the expiry of any token, and does not overflow in calculations.
var lastExpiry = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// expiry returns the value of the token's exp claim. The caller must have verified the
// token. It returns the zero time if the token is not a JWT or has no such claim.
func expiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expiry float64 `json:"exp"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.Expiry <= 0 {
		return time.Time{}
	}
	if claims.Expiry >= float64(lastExpiry.Unix()) {
		return lastExpiry
	}
	return time.Unix(int64(claims.Expiry), 0)
}

const (
	// goodTTL is how long a revoked token is still accepted.
	goodTTL = 10 * time.Second
	// badTTL is how long an invalid token is rejected without a new check.
	badTTL = 5 * time.Second
	// latelyTTL is how long after its last use a valid token is exempt from the limit on
	// new tokens.
	latelyTTL = 10 * time.Minute
	// askTimeout limits a check of a token.
	askTimeout = 5 * time.Second
	// knownSize limits the memory that invalid tokens can use.
	knownSize = 4096
)

// knownTokens caches the results of token checks for a few seconds. The key of an entry is
// a keyed hash of the token.
type knownTokens struct {
	key   []byte
	clock clock.PassiveClock
	cache *TTLCache[knownToken]
	// lately contains the hashes of tokens that were valid when they were last checked.
	lately *cache.LRUExpireCache
}

type knownToken struct {
	caller tokenOwner
	good   bool
}

func newKnownTokens(key []byte, clk clock.PassiveClock) *knownTokens {
	return &knownTokens{key: key, clock: clk, cache: NewTTLCache[knownToken](knownSize, askTimeout, clk), lately: cache.NewLRUExpireCacheWithClock(knownSize, clk)}
}

// get returns the cached result for the token, or calls ask. Concurrent calls with the same
// token share one check.
func (k *knownTokens) get(ctx context.Context, token string, ask func(context.Context, string) (tokenOwner, bool, error)) (tokenOwner, bool, error) {
	known, err := k.cache.Get(ctx, k.hash(token), func(ctx context.Context) (knownToken, time.Duration, error) {
		c, good, err := ask(ctx, token)
		if err == nil {
			k.note(token, good)
		}
		return knownToken{caller: c, good: good}, k.counts(c, good), err
	})
	return known.caller, known.good, err
}

func (k *knownTokens) note(token string, good bool) {
	if good {
		k.lately.Add(k.hash(token), nil, latelyTTL)
	} else {
		k.lately.Remove(k.hash(token))
	}
}

// validLately reports whether the token was valid when it was last checked.
func (k *knownTokens) validLately(token string) bool {
	_, ok := k.lately.Get(k.hash(token))
	return ok
}

// hash returns the cache key of a token. The token cannot be derived from it, and tokens
// cannot be tried without k.key.
func (k *knownTokens) hash(token string) string {
	mac := hmac.New(sha256.New, k.key)
	mac.Write([]byte(token))
	return string(mac.Sum(nil))
}

// counts returns how long a result is cached. A valid result is never cached beyond the
// expiry of the token.
func (k *knownTokens) counts(c tokenOwner, good bool) time.Duration {
	switch {
	case !good:
		return badTTL
	case c.expires.IsZero():
		return goodTTL
	default:
		return min(goodTTL, c.expires.Sub(k.clock.Now()))
	}
}

// recognizable is the length of a prefix of a token that must not appear in the log, in
// bytes.
const recognizable = 16

// withoutToken returns the text of an error for the log. If the error repeats the request,
// and thereby the token, its text is left out.
func withoutToken(err error, token string) string {
	text := err.Error()
	if strings.Contains(text, token[:min(len(token), recognizable)]) {
		return "(the text has the token in it)"
	}
	return text
}

// checkInterval is how long the result of a check is valid.
const checkInterval = 10 * time.Second

// health stores the result of the last token check.
type health struct {
	clock clock.PassiveClock
	// checking serializes the checks.
	checking sync.Mutex

	mu    sync.Mutex
	asked time.Time
	err   error
}

func newHealth(clk clock.PassiveClock) *health { return &health{clock: clk} }

// record stores a result.
func (h *health) record(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked, h.err = h.clock.Now(), err
}

// last returns the last result. recent reports whether it is still valid.
func (h *health) last() (recent bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.asked.IsZero() && h.clock.Since(h.asked) < checkInterval, h.err
}

// check returns the last result, or calls ask if that is too old.
func (h *health) check(ask func() error) error {
	h.checking.Lock()
	defer h.checking.Unlock()
	recent, err := h.last()
	if !recent {
		err = ask()
		h.record(err)
	}
	if err != nil {
		return fmt.Errorf("tokens cannot be checked: %w", err)
	}
	return nil
}

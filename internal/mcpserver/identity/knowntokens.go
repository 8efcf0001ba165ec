package identity

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/answers"
)

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
	cache *answers.Cache[knownToken]
	// lately contains the hashes of tokens that were valid when they were last checked.
	lately *cache.LRUExpireCache
}

type knownToken struct {
	caller caller
	good   bool
}

func newKnownTokens(key []byte, clk clock.PassiveClock) *knownTokens {
	return &knownTokens{key: key, clock: clk, cache: answers.NewCache[knownToken](knownSize, askTimeout, clk), lately: cache.NewLRUExpireCacheWithClock(knownSize, clk)}
}

// get returns the cached result for the token, or calls ask. Concurrent calls with the same
// token share one check.
func (k *knownTokens) get(ctx context.Context, token string, ask func(context.Context, string) (caller, bool, error)) (caller, bool, error) {
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
func (k *knownTokens) counts(c caller, good bool) time.Duration {
	switch {
	case !good:
		return badTTL
	case c.expires.IsZero():
		return goodTTL
	default:
		return min(goodTTL, c.expires.Sub(k.clock.Now()))
	}
}

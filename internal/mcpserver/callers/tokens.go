package callers

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
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

// tokenCharacters are those of a b64token of RFC 6750, without the final "=".
const tokenCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/"

// isToken reports whether s is a b64token of RFC 6750. Nothing else is sent to the
// authenticator, so that malformed tokens cannot make it fail.
func isToken(s string) bool {
	body := strings.TrimRight(s, "=")
	return body != "" && len(s) <= maxTokenBytes && strings.Trim(body, tokenCharacters) == ""
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

func newKnownTokens(clk clock.PassiveClock) *knownTokens {
	key := make([]byte, sha256.Size)
	// rand.Read never fails: it would end the process instead.
	_, _ = rand.Read(key)
	return &knownTokens{key: key, clock: clk, cache: NewTTLCache[knownToken](knownSize, askTimeout, clk), lately: cache.NewLRUExpireCacheWithClock(knownSize, clk)}
}

// get returns the cached result for the token, or calls ask. Concurrent calls with the same
// token share one check.
func (k *knownTokens) get(ctx context.Context, token string, ask func(context.Context, string) (tokenOwner, bool, error)) (tokenOwner, bool, error) {
	hash := k.hash(token)
	known, err := k.cache.Get(ctx, hash, func(ctx context.Context) (knownToken, time.Duration, error) {
		c, good, err := ask(ctx, token)
		switch {
		case err != nil:
			return knownToken{}, 0, err
		case good:
			k.lately.Add(hash, nil, latelyTTL)
		default:
			k.lately.Remove(hash)
		}
		return knownToken{caller: c, good: good}, k.ttl(c, good), nil
	})
	return known.caller, known.good, err
}

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

// ttl returns how long a result is cached. A valid result is never cached beyond the
// expiry of the token.
func (k *knownTokens) ttl(c tokenOwner, good bool) time.Duration {
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

const (
	// checkInterval is how long the result of a check is valid.
	checkInterval = 10 * time.Second
	// TokenReviews of tokens that were not valid here in the last minutes have a rate limit
	// for all callers together. Otherwise a flood of invalid tokens would use up the
	// requests that kube-apiserver grants this server.
	newTokensPerSecond = 20
	newTokensBurst     = 100
)

// errTooManyNewTokens is the error of a token that is not reviewed because of that limit.
var errTooManyNewTokens = errors.New("too many unknown tokens are being checked")

type tokenReviewer struct {
	reviews authenticationclient.TokenReviewInterface
	clock   clock.PassiveClock
	known   *knownTokens
	health  *Probe
	// newTokens limits the reviews of tokens that were not valid lately.
	newTokens *rate.Limiter
}

func newTokenReviewer(reviews authenticationclient.TokenReviewInterface, known *knownTokens, clk clock.PassiveClock) *tokenReviewer {
	return &tokenReviewer{
		reviews: reviews, clock: clk, known: known, health: NewProbe(clk, askTimeout, checkInterval, checkInterval),
		newTokens: rate.NewLimiter(newTokensPerSecond, newTokensBurst),
	}
}

func (t *tokenReviewer) advice() string {
	return "make one with `kubectl create token <service-account> --namespace=<namespace> --audience=" + Audience + "`"
}

// refused always returns "": the API server authenticates only its own users.
func (t *tokenReviewer) refused(user.Info) string { return "" }

func (t *tokenReviewer) authenticate(ctx context.Context, token string) (tokenOwner, bool, error) {
	if !t.known.validLately(token) && !t.newTokens.AllowN(t.clock.Now(), 1) {
		return tokenOwner{}, false, errTooManyNewTokens
	}
	status, err := t.ask(ctx, token)
	if err != nil {
		return tokenOwner{}, false, err
	}
	// An authenticator that does not support audiences returns none. Such a token is one
	// for the API server, so it is rejected too.
	if !status.Authenticated || !slices.Contains(status.Audiences, Audience) {
		log.FromContext(ctx).V(1).Info("Refused a token", "authenticated", status.Authenticated, "audiences", status.Audiences)
		return tokenOwner{}, false, nil
	}
	return tokenOwner{user: userOf(status.User), expires: expiry(token)}, true, nil
}

// ask creates a TokenReview and records whether that succeeded.
func (t *tokenReviewer) ask(ctx context.Context, token string) (authenticationv1.TokenReviewStatus, error) {
	// client-go logs the body of a request at high verbosity, and this body contains the
	// token.
	ctx = logr.NewContext(ctx, logr.Discard())
	review, err := t.reviews.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{Audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		err = errors.New("reviewing a token: " + withoutToken(err, token))
	}
	t.health.Record(err)
	if err != nil {
		return authenticationv1.TokenReviewStatus{}, err
	}
	return review.Status, nil
}

// check reviews a random token, unless there was a recent review.
func (t *tokenReviewer) check(ctx context.Context) error {
	err := t.health.Check(ctx, func(ctx context.Context) error {
		status, err := t.ask(ctx, "check-"+rand.Text())
		if err == nil && status.Authenticated {
			err = errors.New("the API server accepts a random token as that of a user")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("tokens cannot be checked: %w", err)
	}
	return nil
}

func userOf(info authenticationv1.UserInfo) user.Info {
	extra := make(map[string][]string, len(info.Extra))
	for k, v := range info.Extra {
		extra[k] = v
	}
	return &user.DefaultInfo{Name: info.Username, UID: info.UID, Groups: info.Groups, Extra: extra}
}

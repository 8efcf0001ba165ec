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
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

// maxTokenBytes is larger than any real token, including one with hundreds of groups.
const maxTokenBytes = 32 << 10

// bearerHeader matches the header of RFC 6750. Nothing else is sent to the token source, so that
// malformed tokens cannot make it fail.
var bearerHeader = regexp.MustCompile(`^(?i:bearer) +([A-Za-z0-9._~+/-]+=*) *$`)

// bearerToken returns the token of a request. It returns false for a request with two
// Authorization headers, because a proxy may have checked the other one.
func bearerToken(r *http.Request) (string, bool) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	match := bearerHeader.FindStringSubmatch(values[0])
	if match == nil || len(match[1]) > maxTokenBytes {
		return "", false
	}
	return match[1], true
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
	// TokenReviews of tokens that were not valid here in the last minutes have a rate limit
	// for all callers together. Otherwise a flood of invalid tokens would use up the
	// requests that kube-apiserver grants this server.
	newTokensPerSecond = 20
	newTokensBurst     = 100
	// latelyTTL is how long after its last review a valid token is exempt from that limit, and
	// latelySize is the maximum number of such tokens.
	latelyTTL  = 10 * time.Minute
	latelySize = 4096
)

// errTooManyNewTokens is the error of a token that is not reviewed because of that limit.
var errTooManyNewTokens = errors.New("too many unknown tokens are being checked")

// tokenReviewer checks tokens with TokenReviews. The library's authenticator for them returns the
// same error for an invalid token and for an API server that does not respond, and writes the
// error to the log, which may repeat the token.
type tokenReviewer struct {
	reviews authenticationclient.TokenReviewInterface
	logger  logr.Logger
	// newTokens limits the reviews of tokens that are not in lately.
	newTokens *rate.Limiter
	// lately contains the hashes of tokens that were valid when they were last reviewed.
	lately *cache.LRUExpireCache
	// key is the key of these hashes.
	key []byte
}

func newTokenReviewer(reviews authenticationclient.TokenReviewInterface, logger logr.Logger) *tokenReviewer {
	key := make([]byte, sha256.Size)
	// rand.Read never fails: it would end the process instead.
	_, _ = rand.Read(key)
	return &tokenReviewer{
		reviews: reviews, logger: logger, newTokens: rate.NewLimiter(newTokensPerSecond, newTokensBurst),
		lately: cache.NewLRUExpireCache(latelySize), key: key,
	}
}

func (t *tokenReviewer) advice() string {
	return "make one with `kubectl create token <service-account> --namespace=<namespace> --audience=" + Audience + "`"
}

// AuthenticateToken implements authenticator.Token.
func (t *tokenReviewer) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	mac := hmac.New(sha256.New, t.key)
	mac.Write([]byte(token))
	hash := string(mac.Sum(nil))
	if _, valid := t.lately.Get(hash); !valid && !t.newTokens.Allow() {
		return nil, false, errTooManyNewTokens
	}
	status, err := t.ask(ctx, token)
	if err != nil {
		return nil, false, err
	}
	// An authenticator that does not support audiences returns none. Such a token is one
	// for the API server, so it is rejected too.
	if !status.Authenticated || !slices.Contains(status.Audiences, Audience) {
		t.lately.Remove(hash)
		t.logger.V(1).Info("Refused a token", "authenticated", status.Authenticated, "audiences", status.Audiences)
		return nil, false, nil
	}
	t.lately.Add(hash, nil, latelyTTL)
	extra := make(map[string][]string, len(status.User.Extra))
	for k, v := range status.User.Extra {
		extra[k] = v
	}
	return &authenticator.Response{User: &user.DefaultInfo{
		Name: status.User.Username, UID: status.User.UID, Groups: status.User.Groups, Extra: extra,
	}}, true, nil
}

// ask creates a TokenReview.
func (t *tokenReviewer) ask(ctx context.Context, token string) (authenticationv1.TokenReviewStatus, error) {
	// client-go logs the body of a request at high verbosity, and this body contains the
	// token.
	ctx, cancel := context.WithTimeout(logr.NewContext(ctx, logr.Discard()), askTimeout)
	defer cancel()
	review, err := t.reviews.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{Audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.TokenReviewStatus{}, errors.New("reviewing a token: " + withoutToken(err, token))
	}
	return review.Status, nil
}

// check reviews a random token.
func (t *tokenReviewer) check(ctx context.Context) error {
	status, err := t.ask(ctx, "check-"+rand.Text())
	if err == nil && status.Authenticated {
		err = errors.New("the API server accepts a random token as that of a user")
	}
	if err != nil {
		return fmt.Errorf("tokens cannot be checked: %w", err)
	}
	return nil
}

package mcpserver

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// successTTL is how long a revoked token still works here.
	successTTL = 10 * time.Second
	// failureTTL is how long a token that was refused once stays refused.
	failureTTL = 5 * time.Second
	// reviewTimeout bounds one question to the API server.
	reviewTimeout = 5 * time.Second
	// cacheSize bounds the memory that made-up tokens can take.
	cacheSize = 4096
)

// tokenReviewer asks the API server whose a token is, and remembers the answer
// for a few seconds under a keyed hash of the token.
type tokenReviewer struct {
	reviews authenticationclient.TokenReviewInterface
	clock   clock.PassiveClock
	key     []byte
	answers *cache.LRUExpireCache
	flight  singleflight.Group
}

// reviewed is a remembered answer; user is nil for a token that is no good.
type reviewed struct{ user user.Info }

func newTokenReviewer(reviews authenticationclient.TokenReviewInterface, clk clock.PassiveClock, key []byte) *tokenReviewer {
	return &tokenReviewer{reviews: reviews, clock: clk, key: key, answers: cache.NewLRUExpireCacheWithClock(cacheSize, clk)}
}

func (t *tokenReviewer) authenticate(ctx context.Context, token string) (user.Info, bool, error) {
	mac := hmac.New(sha256.New, t.key)
	mac.Write([]byte(token))
	key := string(mac.Sum(nil))
	if answer, ok := t.answers.Get(key); ok {
		u := answer.(reviewed).user
		return u, u != nil, nil
	}
	// Callers with the same token share one review, which must not end because
	// the first of them hangs up.
	result := t.flight.DoChan(key, func() (any, error) {
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		return t.review(rctx, key, token)
	})
	select {
	case <-ctx.Done():
		return nil, false, ctx.Err()
	case r := <-result:
		if r.Err != nil {
			return nil, false, r.Err
		}
		u := r.Val.(reviewed).user
		return u, u != nil, nil
	}
}

func (t *tokenReviewer) review(ctx context.Context, key, token string) (reviewed, error) {
	review, err := t.reviews.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{Audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return reviewed{}, fmt.Errorf("reviewing a token: %w", err)
	}
	status := review.Status
	// An authenticator that knows nothing of audiences leaves them empty. Its
	// token is one for the API server, so it is refused as well.
	if !status.Authenticated || !slices.Contains(status.Audiences, Audience) {
		log.FromContext(ctx).V(1).Info("Refused a token", "reason", status.Error, "audiences", status.Audiences)
		t.answers.Add(key, reviewed{}, failureTTL)
		return reviewed{}, nil
	}
	answer := reviewed{user: userOf(status.User)}
	if ttl := min(successTTL, t.lifetime(token)); ttl > 0 {
		t.answers.Add(key, answer, ttl)
	}
	return answer, nil
}

// lifetime is how long the token has left by its own claim, which can be
// believed because the token has been reviewed. A token that is no JWT has no
// end that could be seen.
func (t *tokenReviewer) lifetime(token string) time.Duration {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return successTTL
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return successTTL
	}
	var claims struct {
		Expiry float64 `json:"exp"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.Expiry == 0 {
		return successTTL
	}
	return time.Unix(int64(claims.Expiry), 0).Sub(t.clock.Now())
}

func userOf(info authenticationv1.UserInfo) user.Info {
	extra := make(map[string][]string, len(info.Extra))
	for k, v := range info.Extra {
		extra[k] = v
	}
	return &user.DefaultInfo{Name: info.Username, UID: info.UID, Groups: info.Groups, Extra: extra}
}

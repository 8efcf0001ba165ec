package callers

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// checkTimeout limits the TokenReview of a readiness check.
const checkTimeout = 2 * time.Second

// TokenReviews of tokens that were not valid here in the last minutes have a rate limit for
// all callers together. Otherwise a flood of invalid tokens would use up the requests that
// kube-apiserver grants this server.
const (
	newTokensPerSecond = 20
	newTokensBurst     = 100
)

// errTooManyNewTokens is the error of a token that is not reviewed because of that limit.
var errTooManyNewTokens = errors.New("too many unknown tokens are being checked")

// tokenReviewer checks tokens with the TokenReview API.
type tokenReviewer struct {
	reviews authenticationclient.TokenReviewInterface
	clock   clock.PassiveClock
	known   *knownTokens
	health  *health
	// newTokens limits the reviews of tokens that were not valid lately.
	newTokens *rate.Limiter
}

func newTokenReviewer(reviews authenticationclient.TokenReviewInterface, key []byte, clk clock.PassiveClock) *tokenReviewer {
	return &tokenReviewer{
		reviews: reviews, clock: clk, known: newKnownTokens(key, clk), health: newHealth(clk),
		newTokens: rate.NewLimiter(newTokensPerSecond, newTokensBurst),
	}
}

func (t *tokenReviewer) start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (t *tokenReviewer) advice() string {
	return "make one with `kubectl create token <service-account> --namespace=<namespace> --audience=" + Audience + "`"
}

// refused always returns "": the API server authenticates only its own users.
func (t *tokenReviewer) refused(user.Info) string { return "" }

func (t *tokenReviewer) authenticate(ctx context.Context, token string) (tokenOwner, bool, error) {
	return t.known.get(ctx, token, t.review)
}

func (t *tokenReviewer) review(ctx context.Context, token string) (tokenOwner, bool, error) {
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
	t.health.record(err)
	if err != nil {
		return authenticationv1.TokenReviewStatus{}, err
	}
	return review.Status, nil
}

// check reviews a random token, unless there was a recent review.
func (t *tokenReviewer) check(ctx context.Context) error {
	return t.health.check(func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
		defer cancel()
		status, err := t.ask(ctx, "check-"+rand.Text())
		if err == nil && status.Authenticated {
			err = errors.New("the API server accepts a random token as that of a user")
		}
		return err
	})
}

func userOf(info authenticationv1.UserInfo) user.Info {
	extra := make(map[string][]string, len(info.Extra))
	for k, v := range info.Extra {
		extra[k] = v
	}
	return &user.DefaultInfo{Name: info.Username, UID: info.UID, Groups: info.Groups, Extra: extra}
}

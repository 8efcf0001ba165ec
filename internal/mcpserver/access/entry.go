package access

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/answers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

const (
	// mcpPath is the path for which a caller needs the verb post.
	mcpPath = "/mcp"
	// allowedTTL is how long a revoked permission is still accepted.
	allowedTTL = 10 * time.Second
	// deniedTTL is how long a new permission is not noticed.
	deniedTTL = 5 * time.Second
	// entryTimeout limits a request to the API server.
	entryTimeout = 5 * time.Second
)

// entryReviewer checks with SubjectAccessReviews whether a caller may post to /mcp.
type entryReviewer struct {
	reviews authorizationclient.SubjectAccessReviewInterface
	answers *answers.Cache[bool]
}

func newEntryReviewer(reviews authorizationclient.SubjectAccessReviewInterface, clk clock.PassiveClock) *entryReviewer {
	return &entryReviewer{reviews: reviews, answers: answers.NewCache[bool](cacheSize, entryTimeout, clk)}
}

// MayEnter implements Reviewer. callers.Local is always allowed.
func (e *entryReviewer) MayEnter(ctx context.Context, u user.Info) (bool, error) {
	if _, local := u.(callers.Local); local {
		return true, nil
	}
	spec := entrySpec(u)
	// The whole spec is the cache key, because any part of it can affect the result.
	key, err := json.Marshal(spec)
	if err != nil {
		return false, fmt.Errorf("bug: encoding an access review: %w", err)
	}
	return e.answers.Get(ctx, string(key), func(ctx context.Context) (bool, time.Duration, error) {
		review, err := e.reviews.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			return false, 0, fmt.Errorf("reviewing the right of user %q to enter: %w", u.GetName(), err)
		}
		if !review.Status.Allowed {
			return false, deniedTTL, nil
		}
		return true, allowedTTL, nil
	})
}

func entrySpec(u user.Info) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: mcpPath, Verb: "post"},
		User:                  u.GetName(),
		UID:                   u.GetUID(),
		Groups:                u.GetGroups(),
		Extra:                 make(map[string]authorizationv1.ExtraValue, len(u.GetExtra())),
	}
	for k, v := range u.GetExtra() {
		spec.Extra[k] = v
	}
	return spec
}

package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/utils/clock"
)

// entryReviewer asks the API server whether a caller may post to /mcp. What the
// caller may do once inside is decided by the API server on each call.
type entryReviewer struct {
	reviews authorizationclient.SubjectAccessReviewInterface
	answers *cache.LRUExpireCache
}

func newEntryReviewer(reviews authorizationclient.SubjectAccessReviewInterface, clk clock.PassiveClock) *entryReviewer {
	return &entryReviewer{reviews: reviews, answers: cache.NewLRUExpireCacheWithClock(cacheSize, clk)}
}

func (e *entryReviewer) mayEnter(ctx context.Context, u user.Info) (bool, error) {
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
	// The whole question is the key, as any part of it may decide the answer.
	raw, err := json.Marshal(spec)
	if err != nil {
		return false, fmt.Errorf("bug: encoding an access review: %w", err)
	}
	key := string(raw)
	if answer, ok := e.answers.Get(key); ok {
		return answer.(bool), nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review, err := e.reviews.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("reviewing the right of user %q to enter: %w", u.GetName(), err)
	}
	ttl := successTTL
	if !review.Status.Allowed {
		ttl = failureTTL
	}
	e.answers.Add(key, review.Status.Allowed, ttl)
	return review.Status.Allowed, nil
}

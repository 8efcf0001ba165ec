package callers

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// cacheSize is the maximum number of cached results of one kind.
const cacheSize = 4096

// Reviewer checks the permissions of callers.
type Reviewer interface {
	// MayEnter reports whether the user may post to /mcp.
	MayEnter(ctx context.Context, u user.Info) (bool, error)
	// Lacks returns true for each permission that the caller in the context certainly has
	// in no namespace. If a permission cannot be checked, the caller is assumed to have it.
	// Pass all permissions in one call, because the result is cached for the whole list.
	// The returned map must not be modified.
	Lacks(ctx context.Context, rights []Right) map[Right]bool
}

// ReviewerConfig configures a Reviewer.
type ReviewerConfig struct {
	// Kube creates SubjectAccessReviews with the server's own identity.
	Kube kubernetes.Interface
	// Callers impersonates the caller in the context. Its scheme must contain
	// authorization.k8s.io/v1.
	Callers client.Client
	// Namespaces returns the namespaces in which the tools can find objects.
	Namespaces func(context.Context) ([]string, error)
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

type reviewer struct {
	*entryReviewer
	*rightsReviewer
}

// NewReviewer returns a Reviewer that sends its checks to the API server.
func NewReviewer(cfg ReviewerConfig) Reviewer {
	clk := cfg.Clock
	if clk == nil {
		clk = clock.RealClock{}
	}
	return reviewer{
		entryReviewer:  newEntryReviewer(cfg.Kube.AuthorizationV1().SubjectAccessReviews(), clk),
		rightsReviewer: newRightsReviewer(cfg.Callers, cfg.Namespaces, clk),
	}
}

// Right is a permission as in RBAC: a verb on a resource or on a non-resource path.
type Right struct {
	// Verb is get, list, watch, create, update, patch or delete.
	Verb string
	// Group is the API group; "" is the core group.
	Group string
	// Resource is the plural name, with "/<subresource>" for a subresource, or a
	// non-resource path such as /version.
	Resource string
}

// CoderRight returns a permission on a custom resource of the operator or its subresource.
func CoderRight(verb, resource string) Right {
	return Right{Verb: verb, Group: coderv1alpha1.GroupVersion.Group, Resource: resource}
}

// AggregatedRight returns a permission on workspaces or templates or their subresources.
func AggregatedRight(verb, resource string) Right {
	return Right{Verb: verb, Group: aggregationv1alpha1.GroupVersion.Group, Resource: resource}
}

const (
	// MCPPath is the path of the MCP endpoint, for which a caller needs the verb post.
	MCPPath = "/mcp"
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
	answers *TTLCache[bool]
}

func newEntryReviewer(reviews authorizationclient.SubjectAccessReviewInterface, clk clock.PassiveClock) *entryReviewer {
	return &entryReviewer{reviews: reviews, answers: NewTTLCache[bool](cacheSize, entryTimeout, clk)}
}

// MayEnter implements Reviewer. Local is always allowed.
func (e *entryReviewer) MayEnter(ctx context.Context, u user.Info) (bool, error) {
	if _, local := u.(Local); local {
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
			return false, 0, fmt.Errorf("checking the permission of user %q to use the server: %w", u.GetName(), err)
		}
		if !review.Status.Allowed {
			return false, deniedTTL, nil
		}
		return true, allowedTTL, nil
	})
}

func entrySpec(u user.Info) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: MCPPath, Verb: "post"},
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

package callers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-helpers/auth/rbac/validation"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

const (
	// MCPPath is the path of the MCP endpoint, for which a caller needs the verb post.
	MCPPath = "/mcp"
	// rightsTTL is how long a changed permission is not noticed.
	rightsTTL = 30 * time.Second
	// unsureTTL is how long no further check is made after one that failed with an error.
	unsureTTL = 5 * time.Second
	// rightsTimeout limits all checks of one caller together.
	rightsTimeout = 3 * time.Second
	// maxNamespaces is the maximum number of requests for one caller.
	maxNamespaces = 50
	// maxReviews is the maximum number of concurrent requests for one caller.
	maxReviews = 8
	// cacheSize is the maximum number of cached results of one kind.
	cacheSize = 4096
)

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

// WithControlPlane reports whether objects of the resource exist only in namespaces with
// control planes.
func (r Right) WithControlPlane() bool {
	resource, _, _ := strings.Cut(r.Resource, "/")
	return r.Group == aggregationv1alpha1.GroupVersion.Group ||
		r.Group == coderv1alpha1.GroupVersion.Group && resource == "codercontrolplanes"
}

// ReviewRights returns the permissions that a caller needs for Reviewer.Lacks. By default,
// Kubernetes grants them to all authenticated users.
func ReviewRights() []Right {
	return []Right{{Verb: "create", Group: authorizationv1.GroupName, Resource: "selfsubjectrulesreviews"}}
}

// Reviewer checks the permissions of callers with the API server, and caches the results.
type Reviewer struct {
	callers    client.Client
	namespaces func(context.Context) ([]string, error)
	lacking    *TTLCache[map[Right]bool]
}

// NewReviewer returns a Reviewer. callers impersonates the caller in the context; its scheme must
// contain authorization.k8s.io/v1. namespaces returns the namespaces in which Lacks checks
// permissions.
func NewReviewer(callers client.Client, namespaces func(context.Context) ([]string, error), clk clock.PassiveClock) *Reviewer {
	return &Reviewer{callers: callers, namespaces: namespaces, lacking: NewTTLCache[map[Right]bool](cacheSize, rightsTimeout, clk)}
}

// Lacks returns true for each permission that the caller in the context certainly has in no
// namespace with a control plane, by the caller's own SelfSubjectRulesReviews. If a permission
// cannot be checked, the caller is assumed to have it. Pass all permissions in one call, because
// the result is cached for the whole list. The returned map must not be modified.
func (r *Reviewer) Lacks(ctx context.Context, rights []Right) map[Right]bool {
	u, ok := request.UserFrom(ctx)
	if _, local := u.(Local); !ok || local || len(rights) == 0 {
		return nil
	}
	// The key contains everything that affects the result.
	key, err := json.Marshal([]any{u.GetName(), Groups(u), rights})
	if err != nil {
		return nil
	}
	lacking, err := r.lacking.Get(ctx, string(key), func(ctx context.Context) (map[Right]bool, time.Duration, error) {
		lacking, err := r.review(ctx, u, rights)
		if err != nil {
			log.FromContext(ctx).V(1).Info("Could not read the permissions of a caller, so all tools are listed", "reason", err.Error())
			return nil, unsureTTL, nil
		}
		return lacking, rightsTTL, nil
	})
	if err != nil {
		return nil
	}
	return lacking
}

// review checks one namespace after the other until no permission is missing. The first
// namespace is checked alone, because a caller with cluster-wide permissions has them
// there. If there are more than maxNamespaces namespaces, the missing permissions are
// unknown, and nothing is reported as missing.
func (r *Reviewer) review(ctx context.Context, u user.Info, rights []Right) (map[Right]bool, error) {
	namespaces, err := r.namespacesOf(ctx, u)
	if err != nil {
		return nil, err
	}
	lacking := make(map[Right]bool, len(rights))
	for _, right := range rights {
		lacking[right] = true
	}
	for asked, size := 0, 1; asked < len(namespaces) && len(lacking) > 0; size = maxReviews {
		if asked >= maxNamespaces {
			return nil, nil
		}
		batch := namespaces[asked:min(asked+size, len(namespaces), maxNamespaces)]
		asked += len(batch)
		rules, complete, err := r.rulesIn(ctx, batch)
		if err != nil || !complete {
			return nil, err
		}
		for right := range lacking {
			if slices.ContainsFunc(rules, func(rule authorizationv1.ResourceRule) bool { return grants(rule, right) }) {
				delete(lacking, right)
			}
		}
	}
	return lacking, nil
}

// namespacesOf returns the namespaces with control planes, after the caller's own namespace
// if the caller is a service account.
func (r *Reviewer) namespacesOf(ctx context.Context, u user.Info) ([]string, error) {
	namespaces, err := r.namespaces(ctx)
	if err != nil {
		return nil, fmt.Errorf("finding the namespaces to ask about: %w", err)
	}
	if len(namespaces) == 0 {
		return nil, errors.New("there is no namespace to ask about")
	}
	own, _, err := serviceaccount.SplitUsername(u.GetName())
	if err != nil || slices.Contains(namespaces, own) {
		return namespaces, nil //nolint:nilerr // Only service accounts have a namespace.
	}
	return append([]string{own}, namespaces...), nil
}

// rulesIn returns the caller's rules in some namespaces, which it requests concurrently. It
// returns false if the API server reports that the rules are incomplete.
func (r *Reviewer) rulesIn(ctx context.Context, namespaces []string) ([]authorizationv1.ResourceRule, bool, error) {
	reviews := make([]authorizationv1.SelfSubjectRulesReview, len(namespaces))
	var group errgroup.Group
	for i, namespace := range namespaces {
		reviews[i].Spec.Namespace = namespace
		group.Go(func() error {
			if err := r.callers.Create(ctx, &reviews[i]); err != nil {
				return fmt.Errorf("asking for the rules in namespace %q: %w", namespace, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, false, err
	}
	var rules []authorizationv1.ResourceRule
	for _, review := range reviews {
		if review.Status.Incomplete {
			return nil, false, nil
		}
		rules = append(rules, review.Status.ResourceRules...)
	}
	return rules, true, nil
}

// grants reports whether a rule grants the permission, for all objects or only for the ones
// that it names.
func grants(rule authorizationv1.ResourceRule, right Right) bool {
	covered, _ := validation.Covers(
		[]rbacv1.PolicyRule{{Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources}},
		[]rbacv1.PolicyRule{{Verbs: []string{right.Verb}, APIGroups: []string{right.Group}, Resources: []string{right.Resource}}})
	return covered
}

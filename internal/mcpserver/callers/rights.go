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
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
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
)

// ReviewRights returns the permissions that a caller needs for these checks. By default,
// Kubernetes grants them to all authenticated users.
func ReviewRights() []Right {
	return []Right{{Verb: "create", Group: authorizationv1.GroupName, Resource: "selfsubjectrulesreviews"}}
}

// rightsReviewer checks permissions with SelfSubjectRulesReviews of the caller.
type rightsReviewer struct {
	callers    client.Client
	namespaces func(context.Context) ([]string, error)
	answers    *TTLCache[map[Right]bool]
}

func newRightsReviewer(c client.Client, namespaces func(context.Context) ([]string, error), clk clock.PassiveClock) *rightsReviewer {
	return &rightsReviewer{callers: c, namespaces: namespaces, answers: NewTTLCache[map[Right]bool](cacheSize, rightsTimeout, clk)}
}

// Lacks implements Reviewer.
func (r *rightsReviewer) Lacks(ctx context.Context, rights []Right) map[Right]bool {
	key, ok := question(ctx, rights)
	if !ok {
		return nil
	}
	lacking, err := r.answers.Get(ctx, key, func(ctx context.Context) (map[Right]bool, time.Duration, error) {
		lacking, err := r.review(ctx, rights)
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

// question returns the cache key, which contains everything that affects the result. It
// returns false if there is nothing to check: without a caller, and for Local.
func question(ctx context.Context, rights []Right) (string, bool) {
	u, ok := request.UserFrom(ctx)
	if !ok || len(rights) == 0 {
		return "", false
	}
	if _, local := u.(Local); local {
		return "", false
	}
	key, err := json.Marshal([]any{u.GetName(), Groups(u), rights})
	return string(key), err == nil
}

// review checks one namespace after the other until no permission is missing. The first
// namespace is checked alone, because a caller with cluster-wide permissions has them
// there. If there are more than maxNamespaces namespaces, the missing permissions are
// unknown, and nothing is reported as missing.
func (r *rightsReviewer) review(ctx context.Context, rights []Right) (map[Right]bool, error) {
	namespaces, err := r.whereToAsk(ctx)
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

// whereToAsk returns the caller's own namespace, if the caller is a service account, and
// the namespaces with control planes.
func (r *rightsReviewer) whereToAsk(ctx context.Context) ([]string, error) {
	namespaces, err := r.namespaces(ctx)
	if err != nil {
		return nil, fmt.Errorf("finding the namespaces to ask about: %w", err)
	}
	if len(namespaces) == 0 {
		return nil, errors.New("there is no namespace to ask about")
	}
	u, _ := request.UserFrom(ctx)
	own, _, err := serviceaccount.SplitUsername(u.GetName())
	if err != nil || slices.Contains(namespaces, own) {
		return namespaces, nil //nolint:nilerr // Who is no service account has no namespace of their own.
	}
	return append([]string{own}, namespaces...), nil
}

// rulesIn returns the caller's rules in some namespaces, which it requests concurrently. It
// returns false if the API server reports that the rules are incomplete.
func (r *rightsReviewer) rulesIn(ctx context.Context, namespaces []string) ([]authorizationv1.ResourceRule, bool, error) {
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

// all is the wildcard in RBAC rules.
const all = "*"

// grants reports whether a rule grants the permission, for all objects or only for the ones
// that it names.
func grants(rule authorizationv1.ResourceRule, right Right) bool {
	return has(rule.Verbs, right.Verb) && has(rule.APIGroups, right.Group) &&
		slices.ContainsFunc(rule.Resources, func(resource string) bool { return covers(resource, right.Resource) })
}

func has(values []string, value string) bool {
	return slices.Contains(values, all) || slices.Contains(values, value)
}

// covers reports whether a rule's resource matches the wanted one. "*" matches every
// resource and subresource, and "*/log" matches the subresource log of every resource.
// "pods/*" matches nothing, because RBAC does not support it.
func covers(resource, wanted string) bool {
	if resource == all || resource == wanted {
		return true
	}
	_, subresource, ok := strings.Cut(wanted, "/")
	return ok && resource == all+"/"+subresource
}

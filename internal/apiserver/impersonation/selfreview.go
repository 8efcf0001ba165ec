package impersonation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// SelfReviewPlural is the name of the resource of CoderSelfReviews.
const SelfReviewPlural = "coderselfreviews"

// SelfReview implements create for CoderSelfReviews.
type SelfReview struct {
	connections connections.Provider
	actors      *Actors
}

var (
	_ rest.Creater              = (*SelfReview)(nil) //nolint:misspell // So the library calls it.
	_ rest.Scoper               = (*SelfReview)(nil)
	_ rest.SingularNameProvider = (*SelfReview)(nil)
)

// NewSelfReview returns a SelfReview that uses the connections of the provider, and looks up users as
// the actors do.
func NewSelfReview(provider connections.Provider, actors *Actors) *SelfReview {
	return &SelfReview{connections: provider, actors: actors}
}

// New implements rest.Storage.
func (*SelfReview) New() runtime.Object { return &aggregationv1alpha1.CoderSelfReview{} }

// Destroy implements rest.Storage.
func (*SelfReview) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (*SelfReview) NamespaceScoped() bool { return true }

// GetSingularName implements rest.SingularNameProvider.
func (*SelfReview) GetSingularName() string { return "coderselfreview" }

// Create implements the verb create. It returns the review with its status.
func (r *SelfReview) Create(
	ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions,
) (_ runtime.Object, err error) {
	defer coderfault.Name(ctx, &err)
	review, ok := obj.(*aggregationv1alpha1.CoderSelfReview)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %T, want a CoderSelfReview", obj))
	}
	if validate != nil {
		if err := validate(ctx, obj.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("the request has no user")
	}
	found, err := r.connections.ForNamespace(ctx, request.NamespaceValue(ctx))
	var unavailable *connections.UnavailableError
	if err != nil && (len(found) == 0 || !errors.As(err, &unavailable)) {
		return nil, coderfault.Subject{}.Status(err)
	}
	if err != nil {
		warning.AddWarning(ctx, "", err.Error())
	}
	out := review.DeepCopy()
	out.Status = aggregationv1alpha1.CoderSelfReviewStatus{User: caller.GetName(), Groups: caller.GetGroups()}
	for _, key := range slices.Sorted(maps.Keys(caller.GetExtra())) {
		out.Status.Extra = append(out.Status.Extra, aggregationv1alpha1.CoderSelfExtra{Key: key, Values: caller.GetExtra()[key]})
	}
	for i := range found {
		out.Status.ControlPlanes = append(out.Status.ControlPlanes, r.selfIn(ctx, &found[i], caller))
	}
	return out, nil
}

// selfIn returns the caller's identity in one Coder. It looks up the user in Coder if a rule maps
// the caller to one. An error of this Coder is a problem of its entry only.
func (r *SelfReview) selfIn(ctx context.Context, connection *connections.Connection, caller user.Info) aggregationv1alpha1.CoderSelf {
	d := Decide(connection.Rules, caller)
	self := aggregationv1alpha1.CoderSelf{ControlPlane: connection.ControlPlane.Name, ActsAs: string(d.Outcome), Reason: d.Reason}
	if d.Rule >= 0 {
		self.Rule = ptr.To(int32(d.Rule)) //nolint:gosec // There are at most 100 rules.
	}
	switch d.Outcome {
	case Unmapped:
		self.Permission = Needed
	case CoderUser:
		found, err := r.actors.review(ctx, *connection, d)
		if err != nil {
			self.Problem = err.Error()
			break
		}
		self.CoderUser, self.CoderUserID = found.Username, found.ID.String()
		if found.IsOwner() {
			self.Permission = NeededForOwner(found.Username)
		}
	}
	return self
}

// review returns the user that a decision names, for a CoderSelfReview. A caller who sends many reviews
// causes at most one lookup at a time, and one in problemTTL.
func (a *Actors) review(ctx context.Context, connection connections.Connection, d Decision) (coderd.User, error) {
	if d.Problem != "" {
		return FindUser(ctx, connection.Client, d)
	}
	k := keyOf(connection, d)
	// A problem contains the reason, which is nobody else's business: it may contain attributes of the caller.
	mine := k
	mine.name += ", because " + d.Reason
	look := func() (any, error) {
		return a.known(k, func() (coderd.User, error) {
			if cached, ok := a.cached(mine); ok {
				return cached.User, cached.problem
			}
			// The other reviews of the caller wait for this lookup too.
			found, err := FindUser(context.WithoutCancel(ctx), connection.Client, d)
			if err != nil {
				a.users.Add(mine, knownUser{problem: err, readAt: a.config.Clock.Now()})
			}
			return found, err
		})
	}
	select {
	case <-ctx.Done():
		return coderd.User{}, ctx.Err()
	case result := <-a.reviews.DoChan(fmt.Sprint(mine), look):
		return result.Val.(coderd.User), result.Err
	}
}

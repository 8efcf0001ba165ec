package workspace

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/usertokens"
)

// TokenSubresource is the name of the subresource whose responses contain tokens.
const TokenSubresource = "token"

// The annotations in the audit log of the aggregated API for a new token.
const (
	auditTokenID   = "aggregation.coder.com/token-id"
	auditTokenUser = "aggregation.coder.com/token-coder-user"
)

// tokenREST implements coderworkspaces/token: POST creates a token that is restricted to the
// workspace, GET lists such tokens, and DELETE revokes them.
type tokenREST struct {
	registry.Body
	*subresource
}

var (
	_ rest.NamedCreater    = (*tokenREST)(nil)
	_ rest.Getter          = (*tokenREST)(nil)
	_ rest.GracefulDeleter = (*tokenREST)(nil)
	_ rest.StorageMetadata = (*tokenREST)(nil)
)

// ProducesMIMETypes implements rest.StorageMetadata.
func (*tokenREST) ProducesMIMETypes(string) []string { return nil }

// ProducesObject implements rest.StorageMetadata.
func (*tokenREST) ProducesObject(verb string) any {
	if verb == http.MethodPost {
		return aggregationv1alpha1.CoderWorkspaceToken{}
	}
	return aggregationv1alpha1.CoderWorkspaceTokenList{}
}

// Create implements rest.NamedCreater.
func (r *tokenREST) Create(
	ctx context.Context, name string, body runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (_ runtime.Object, err error) {
	defer coderfault.Name(ctx, &err)
	asked, err := registry.BodyOf[*aggregationv1alpha1.CoderWorkspaceToken](ctx, name, body, validate)
	if err != nil {
		return nil, err
	}
	lifetime := usertokens.DefaultWorkspaceLifetime
	if asked.Spec.ExpirationSeconds != nil {
		seconds := *asked.Spec.ExpirationSeconds
		least, most := int64(usertokens.MinWorkspaceLifetime/time.Second), int64(usertokens.MaxWorkspaceLifetime/time.Second)
		if seconds < least || seconds > most {
			return nil, invalidLifetime(name, seconds, fmt.Sprintf("must be %d to %d: a token lives at most one hour", least, most))
		}
		lifetime = time.Duration(seconds) * time.Second
	}
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewInternalError(errors.New("bug: a token for nobody"))
	}
	t, err := r.kind.Find(ctx, r.store, name)
	if err != nil {
		return nil, err
	}
	ctx, user, err := tokenUser(ctx, t, r.kind.Actors)
	if err != nil {
		return nil, err
	}
	out := &aggregationv1alpha1.CoderWorkspaceToken{
		ObjectMeta: metav1.ObjectMeta{Name: t.Object.Name, Namespace: t.Object.Namespace},
		Spec:       aggregationv1alpha1.CoderWorkspaceTokenSpec{ExpirationSeconds: ptr.To(int64(lifetime / time.Second))},
	}
	if dryrun.IsDryRun(options.DryRun) {
		out.Status.CoderUser, out.Status.WorkspaceID = user.Username, t.ID.String()
		return out, nil
	}
	now := r.kind.Clock.Now()
	value, made, err := r.kind.tokens.Create(ctx, t.Connection.Client, usertokens.WorkspaceTokenRequest{
		Workspace: t.ID, User: user.ID, By: caller.GetName(), Lifetime: lifetime,
	})
	if err != nil {
		return nil, tokenFault(name, user.Username, err)
	}
	made.Username = user.Username
	audit.AddAuditAnnotations(ctx, auditTokenID, made.ID, auditTokenUser, user.Username)
	log.FromContext(ctx).Info("Created a token for a workspace", "workspace", name, "user", caller.GetName(), "coderUser", user.Username, "id", t.ID)
	out.Status = statusOfToken(t.ID, made)
	// As in kube-apiserver, this is by the local clock. Coder's clock may differ.
	out.Status.Token, out.Status.ExpirationTimestamp = value, metav1.NewTime(now.Add(lifetime).Truncate(time.Second))
	return out, nil
}

func invalidLifetime(name string, value any, detail string) error {
	return apierrors.NewInvalid(aggregationv1alpha1.GroupVersion.WithKind("CoderWorkspaceToken").GroupKind(), name,
		field.ErrorList{field.Invalid(field.NewPath("spec", "expirationSeconds"), value, detail)})
}

// tokenUser decides who owns the token: the caller's own Coder user, or else the owner of the workspace,
// but never the operator's account. The returned context creates the token as decided. Errors are
// API statuses.
func tokenUser(ctx context.Context, t registry.Found[object], actors *impersonation.Actors) (context.Context, coderd.User, error) {
	client, name := t.Connection.Client, t.Object.Name
	// The object may be older than a deletion or a change of the owner.
	w, err := client.Workspace(ctx, t.ID)
	if err != nil {
		return ctx, coderd.User{}, fault(name, err)
	}
	if t.Object.DeletionTimestamp != nil || isDeleting(w.LatestBuild) {
		return ctx, coderd.User{}, apierrors.NewConflict(resource, name, errors.New("the workspace is being deleted, so no token can be created for it"))
	}
	if w.Dormant {
		return ctx, coderd.User{}, apierrors.NewConflict(resource, name, errors.New(
			"the workspace is dormant, so tokens cannot access it: set spec.dormant to false, or call kubectl coder start"))
	}
	s := subjectOf(name, w)
	ctx, as, err := actors.Begin(ctx, t.Connection, s)
	if err != nil {
		return ctx, coderd.User{}, err
	}
	id := w.OwnerID
	if as != nil {
		id = as.ID
		if err := impersonation.May(ctx, client, s, coderd.Permission{Resource: "workspace", Action: "read", ID: t.ID}); err != nil {
			return ctx, coderd.User{}, err
		}
	}
	user, err := client.UserByName(ctx, id.String())
	if err != nil {
		return ctx, user, fault(name, err)
	}
	operator, err := client.Me(ctx)
	switch {
	case err != nil:
		return ctx, user, fault(name, err)
	case user.ID == operator.ID:
		return ctx, user, apierrors.NewForbidden(resource, name, fmt.Errorf(
			"the token would belong to user %q, the operator's own account in Coder, and no token of this account is issued: map the caller to another user", user.Username))
	case user.IsSuspended():
		return ctx, user, apierrors.NewForbidden(resource, name, fmt.Errorf("the token would belong to user %q, who is suspended in Coder", user.Username))
	}
	return ctx, user, nil
}

func tokenFault(name, username string, err error) error {
	var many *usertokens.TooManyTokensError
	var reported *coderd.Error
	switch {
	case errors.As(err, &many):
		// With Retry-After, clients would wait and repeat the request for minutes, although only the caller can help.
		return apierrors.NewTooManyRequests(many.Error(), 0)
	case coderd.IsUnrestricted(err):
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusNotImplemented, Reason: metav1.StatusReason("NotImplemented"),
			Message: "this Coder is too old: it cannot create tokens that are restricted to a workspace. The token that it created is revoked. Upgrade Coder to 2.30 or later",
		}}
	case coderd.IsInvalid(err) && errors.As(err, &reported):
		// For example, Coder's maximum lifetime is shorter than requested.
		return invalidLifetime(name, field.OmitValueType{}, fmt.Sprintf("Coder rejected the token of user %q: %v", username, reported))
	}
	return fault(name, err)
}

// Get implements rest.Getter. It does not act as a Coder user: RBAC decides who may see the list.
func (r *tokenREST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (_ runtime.Object, err error) {
	defer coderfault.Name(ctx, &err)
	t, err := r.kind.Find(ctx, r.store, name)
	if err != nil {
		return nil, err
	}
	tokens, err := r.kind.tokens.List(ctx, t.Connection.Client, t.ID)
	if err != nil {
		return nil, fault(name, err)
	}
	return listOfTokens(t, tokens), nil
}

// Delete implements rest.GracefulDeleter. It returns the tokens that were revoked.
func (r *tokenREST) Delete(
	ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions,
) (_ runtime.Object, _ bool, err error) {
	defer coderfault.Name(ctx, &err)
	t, err := r.kind.Find(ctx, r.store, name)
	if err != nil {
		return nil, false, err
	}
	only := ""
	if p := options.Preconditions; p != nil {
		if p.ResourceVersion != nil {
			return nil, false, apierrors.NewBadRequest("preconditions.resourceVersion must not be set, because tokens have no resource version")
		}
		if p.UID != nil && *p.UID == "" {
			return nil, false, apierrors.NewBadRequest("preconditions.uid is empty: give the id of one token, or no preconditions to revoke all tokens of the workspace")
		}
		only = string(ptr.Deref(p.UID, ""))
	}
	if validate != nil {
		if err := validate(ctx, t.Object.DeepCopyObject()); err != nil {
			return nil, false, err
		}
	}
	w, err := t.Connection.Client.Workspace(ctx, t.ID)
	if err != nil {
		return nil, false, fault(name, err)
	}
	if ctx, _, err = r.kind.Actors.Begin(ctx, t.Connection, subjectOf(name, w)); err != nil {
		return nil, false, err
	}
	tokens, err := r.kind.tokens.List(ctx, t.Connection.Client, t.ID)
	if err != nil {
		return nil, false, fault(name, err)
	}
	if only != "" {
		if tokens = slices.DeleteFunc(tokens, func(token usertokens.WorkspaceToken) bool { return token.ID != only }); len(tokens) == 0 {
			return nil, false, apierrors.NewConflict(resource, name, fmt.Errorf("the workspace has no token with the tokenID %q of preconditions.uid", only))
		}
	}
	if !dryrun.IsDryRun(options.DryRun) {
		if tokens, err = revoke(ctx, t, tokens); err != nil {
			return nil, false, err
		}
	}
	return listOfTokens(t, tokens), true, nil
}

// revoke revokes tokens and returns those that it revoked. If the caller may not revoke one of
// them, the others are still revoked.
func revoke(ctx context.Context, t registry.Found[object], tokens []usertokens.WorkspaceToken) (revoked []usertokens.WorkspaceToken, _ error) {
	var failed []error
	for _, token := range tokens {
		err := t.Connection.Client.DeleteToken(ctx, token.UserID.String(), token.ID)
		if coderd.IsNotFound(err) && coderd.ActedAs(err) == "" {
			err = nil
		}
		if err != nil {
			failed = append(failed, fault(t.Object.Name, err))
			continue
		}
		revoked = append(revoked, token)
		log.FromContext(ctx).Info("Revoked a token of a workspace", "workspace", t.Object.Name, "coderUser", token.Username, "id", t.ID)
	}
	if len(failed) == 0 {
		return revoked, nil
	}
	var status *apierrors.StatusError
	if errors.As(failed[0], &status) {
		reported := *status
		reported.ErrStatus.Message = fmt.Sprintf("%d of %d tokens were revoked; another one was not: %s", len(revoked), len(tokens), status.ErrStatus.Message)
		return revoked, &reported
	}
	return revoked, failed[0]
}

func listOfTokens(t registry.Found[object], tokens []usertokens.WorkspaceToken) *aggregationv1alpha1.CoderWorkspaceTokenList {
	out := &aggregationv1alpha1.CoderWorkspaceTokenList{Items: []aggregationv1alpha1.CoderWorkspaceToken{}}
	for _, token := range tokens {
		out.Items = append(out.Items, aggregationv1alpha1.CoderWorkspaceToken{
			ObjectMeta: metav1.ObjectMeta{Name: t.Object.Name, Namespace: t.Object.Namespace},
			Status:     statusOfToken(t.ID, token),
		})
	}
	return out
}

func statusOfToken(id uuid.UUID, token usertokens.WorkspaceToken) aggregationv1alpha1.CoderWorkspaceTokenStatus {
	return aggregationv1alpha1.CoderWorkspaceTokenStatus{
		TokenID: token.ID, CoderUser: token.Username, RequestedBy: token.By, WorkspaceID: id.String(),
		CreationTimestamp:   ptr.To(metav1.NewTime(token.CreatedAt.Truncate(time.Second))),
		ExpirationTimestamp: metav1.NewTime(token.ExpiresAt.Truncate(time.Second)),
	}
}

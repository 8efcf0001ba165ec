package workspace

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

const (
	// maxShares is how many users and groups a workspace can be shared with.
	maxShares = 100
	// maxUsernames limits the cache of usernames, and usernameTTL is how long one is cached. A user may
	// be renamed.
	maxUsernames = 10_000
	usernameTTL  = time.Hour
	// roleOther is shown for permissions in Coder that are no role.
	roleOther = "other"
)

var sharedWithPath = specPath.Child("sharedWith")

// share is a user or a group that a workspace is shared with.
type share = aggregationv1alpha1.WorkspaceShare

// userKey identifies a user. The Coder of another control plane may use the same ids.
type userKey struct {
	controlPlane types.NamespacedName
	uid          types.UID
	id           uuid.UUID
}

func keyOf(connection connections.Connection, user uuid.UUID) userKey {
	return userKey{connection.ControlPlane, connection.UID, user}
}

// username is the cached name of a user.
type username struct {
	name   string
	readAt time.Time
}

// learnUsernames reads the names of the users that a workspace is shared with, if they are not cached or
// older than maxAge. Coder reports only their ids. It stops at the first error.
func (k *Kind) learnUsernames(ctx context.Context, connection connections.Connection, w coderd.Workspace, maxAge time.Duration) error {
	for _, s := range w.SharedWith {
		key := keyOf(connection, s.ID)
		if known, ok := k.usernames.Get(key); s.IsGroup || ok && k.Clock.Since(known.(username).readAt).Abs() < maxAge {
			continue
		}
		user, err := connection.Client.UserByName(ctx, s.ID.String())
		if err != nil && !coderd.IsNotFound(err) {
			return err
		}
		// A user who does not exist any more is shown by the id.
		k.usernames.Add(key, username{cmp.Or(user.Username, s.ID.String()), k.Clock.Now()})
	}
	return nil
}

// tryUsernames is learnUsernames for a conversion. The rest of the object is correct without the names.
func (k *Kind) tryUsernames(ctx context.Context, connection connections.Connection, w coderd.Workspace) {
	if err := k.learnUsernames(ctx, connection, w, usernameTTL); err != nil {
		log.FromContext(ctx).V(1).Info("Could not read the name of a user that a workspace is shared with; serving the earlier list", "id", w.ID, "reason", err.Error())
	}
}

// shownAs returns the entry of the object for one of Coder. A user whose name is not known is shown by the id.
func (k *Kind) shownAs(connection connections.Connection, s coderd.Share) (_ share, known bool) {
	role := cmp.Or(s.Role, roleOther)
	if s.IsGroup {
		return share{Group: cmp.Or(s.GroupName, s.ID.String()), Role: role}, true
	}
	cached, known := k.usernames.Get(keyOf(connection, s.ID))
	user, _ := cached.(username)
	return share{User: cmp.Or(user.name, s.ID.String()), Role: role}, known
}

// sharedWith returns the users and then the groups that a workspace is shared with, sorted, and whether
// all names are known.
func (k *Kind) sharedWith(connection connections.Connection, w coderd.Workspace) (out []share, known bool) {
	known = true
	for _, s := range w.SharedWith {
		shown, ok := k.shownAs(connection, s)
		out, known = append(out, shown), known && ok
	}
	slices.SortFunc(out, compareShares)
	return out, known
}

func compareShares(a, b share) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.User, b.User), strings.Compare(a.Role, b.Role))
}

// sameShares ignores the order.
func sameShares(a, b []share) bool {
	return equality.Semantic.DeepEqual(slices.SortedFunc(slices.Values(a), compareShares), slices.SortedFunc(slices.Values(b), compareShares))
}

// inOrder returns the shares of Coder in the order of the spec. If the spec has the field, the result
// is not nil.
func inOrder(shared, spec []share) []share {
	out := slices.Clone(shared)
	if out == nil && spec != nil {
		out = []share{}
	}
	// The index of one that the spec does not have is the largest number.
	position := func(s share) uint {
		return uint(slices.IndexFunc(spec, func(o share) bool { return o.User == s.User && o.Group == s.Group }))
	}
	slices.SortStableFunc(out, func(a, b share) int { return cmp.Compare(position(a), position(b)) })
	return out
}

// validateSharing validates the users and groups, without requests to Coder. Those that the workspace
// is already shared with are valid.
func validateSharing(shares, old []share) field.ErrorList {
	var errs field.ErrorList
	if sameShares(shares, old) {
		// Two groups or users may be shown by the same name, for example after a rename.
		return nil
	}
	if len(shares) > maxShares {
		errs = append(errs, field.TooMany(sharedWithPath, len(shares), maxShares))
	}
	seen := map[share]bool{}
	for i, s := range shares {
		path, who := sharedWithPath.Index(i), share{User: s.User, Group: s.Group}
		switch {
		case (s.User == "") == (s.Group == ""):
			errs = append(errs, field.Invalid(path, s, "set exactly one of user and group"))
		case seen[who]:
			errs = append(errs, field.Duplicate(path, s.User+s.Group))
		case s.Role != coderd.RoleUse && s.Role != coderd.RoleAdmin && !slices.Contains(old, s):
			errs = append(errs, field.NotSupported(path.Child("role"), s.Role, []string{coderd.RoleUse, coderd.RoleAdmin}))
		}
		seen[who] = true
	}
	return errs
}

// planSharing returns the changes after which a workspace is shared with exactly these users and
// groups. It only reads. Errors are API statuses.
func (k *Kind) planSharing(ctx context.Context, s subject, shares []share) ([]coderd.Share, error) {
	client := s.connection.Client
	if err := client.CheckSharing(ctx); coderd.IsInvalid(err) {
		return nil, invalid(s.name, field.Invalid(sharedWithPath, shares, err.Error()))
	} else if err != nil {
		return nil, fault(s.name, err)
	}
	// The name that is cached may be that of another user now.
	if err := k.learnUsernames(ctx, s.connection, s.workspace, 0); err != nil {
		return nil, fault(s.name, err)
	}
	shares = slices.Clone(shares)
	var changes []coderd.Share
	for _, shared := range s.workspace.SharedWith {
		shown, _ := k.shownAs(s.connection, shared)
		i := slices.IndexFunc(shares, func(o share) bool { return o.User == shown.User && o.Group == shown.Group })
		role := ""
		if i >= 0 {
			role = shares[i].Role
			shares = slices.Delete(shares, i, i+1)
		}
		if role != shown.Role {
			shared.Role = role
			changes = append(changes, shared)
		}
	}
	for _, wanted := range shares {
		id, problem, err := s.find(ctx, wanted)
		switch {
		case err != nil:
			return nil, fault(s.name, err)
		case problem != "":
			return nil, invalid(s.name, field.Invalid(sharedWithPath, wanted.User+wanted.Group, problem))
		}
		if wanted.User != "" {
			k.usernames.Add(keyOf(s.connection, id), username{wanted.User, k.Clock.Now()})
		}
		changes = append(changes, coderd.Share{ID: id, IsGroup: wanted.Group != "", Role: wanted.Role})
	}
	return changes, nil
}

// mayShare returns an error if Coder would not let the caller share the workspace.
func mayShare(ctx context.Context, s subject, p coderd.Permission) error {
	p.Resource, p.Action = info.InCoder, "share"
	return impersonation.May(ctx, s.connection.Client, subjectOf(s.name, s.workspace), p)
}

// find returns the id of a user or a group, or why a workspace cannot be shared with it.
func (s subject) find(ctx context.Context, wanted share) (id uuid.UUID, problem string, err error) {
	client, w := s.connection.Client, s.workspace
	if wanted.Group != "" {
		id, err := client.GroupID(ctx, w.OrganizationID, wanted.Group)
		switch {
		case coderd.IsNotFound(err):
			return id, fmt.Sprintf("there is no such group in organization %q", w.OrganizationName), nil
		case coderd.IsNotSupported(err), coderd.IsNotEntitled(err):
			return id, fmt.Sprintf("without a license for groups, the only group is %s", coderd.EveryoneGroup), nil
		}
		return id, "", err
	}
	user, err := client.UserByName(ctx, wanted.User)
	switch {
	case coderd.IsNotFound(err):
		return uuid.Nil, "there is no such user in Coder", nil
	case err != nil:
		return uuid.Nil, "", err
	case user.Username != wanted.User:
		// Coder ignores case, and accepts ids and "me" as names.
		return uuid.Nil, fmt.Sprintf("must be the exact username, such as %q", user.Username), nil
	case user.ID == w.OwnerID:
		return uuid.Nil, "is the owner of the workspace", nil
	case !slices.Contains(user.OrganizationIDs, w.OrganizationID):
		return uuid.Nil, fmt.Sprintf("is not a member of organization %q, so sharing would have no effect", w.OrganizationName), nil
	}
	return user.ID, "", nil
}

package mirror

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// stock holds the state of one kind that all control planes share.
type stock[Item any] struct {
	Resource[Item]
	source source[Item]
	// held is Held of the Config.
	held func() bool
}

// kind returns the name of the kind in records and metrics.
func (s *stock[Item]) kind() string { return s.Store.Kind() }

// source reads the items of one kind from Coder.
type source[Item any] struct {
	// call is the name under which health counts the reads.
	call string
	// batch is the maximum number of items in one read.
	batch int
	// parts is the number of names in Coder in the name of an object.
	parts int
	id    func(Item) uuid.UUID
	// read returns those of the ids that exist. The result may contain other items too.
	read func(coder Coder, ctx context.Context, ids []uuid.UUID) ([]Item, error)
	one  func(coder Coder, ctx context.Context, id uuid.UUID) (Item, error)
	// list reads all items. It is set for kinds that are read as a whole.
	list func(ctx context.Context, p *plane, coder Coder) ([]Item, error)
	// busy reports whether the item is about to change by itself. If nil, none is.
	busy func(controlPlane types.NamespacedName, item Item) bool
	// removed is called after an item was deleted. It may be nil.
	removed func(controlPlane types.NamespacedName, id uuid.UUID)
	// resource is the resource of the permission in Coder to read the items.
	resource string
}

func newWorkspaces(config *Config) *stock[coderd.Workspace] {
	return &stock[coderd.Workspace]{config.Workspaces, source[coderd.Workspace]{
		call: callWorkspaces, batch: coderd.MaxWorkspaceIDs, parts: 3,
		id:   func(w coderd.Workspace) uuid.UUID { return w.ID },
		read: Coder.WorkspacesByID,
		one:  Coder.Workspace,
		busy: func(controlPlane types.NamespacedName, w coderd.Workspace) bool {
			connecting := w.LatestBuild.Status == "running" && slices.ContainsFunc(w.Agents, func(a coderd.Agent) bool {
				return a.Status == "connecting" || a.Status == "connected" && (a.LifecycleState == "created" || a.LifecycleState == "starting")
			})
			return connecting || slices.Contains(unsettled[:], w.LatestBuild.Status) || config.Unsettled(controlPlane, w)
		},
		removed:  config.Gone,
		resource: "workspace",
	}, config.Held}
}

func newTemplates(config *Config) *stock[coderd.Template] {
	return &stock[coderd.Template]{config.Templates, source[coderd.Template]{
		call: callTemplates, batch: 1 << 20, parts: 2,
		id:   func(t coderd.Template) uuid.UUID { return t.ID },
		read: readTemplates,
		one:  Coder.Template,
		list: func(ctx context.Context, p *plane, coder Coder) ([]coderd.Template, error) {
			return ask(ctx, p, callTemplates, coder.Templates, nil)
		},
		resource: "template",
	}, config.Held}
}

func newUsers(config *Config) *stock[coderd.User] {
	return &stock[coderd.User]{config.Users, source[coderd.User]{
		call: callUsers, batch: usersAtOnce, parts: 1,
		id:   func(u coderd.User) uuid.UUID { return u.ID },
		read: readUsers,
		one:  Coder.UserByID,
		list: listUsers,

		resource: coderd.ResourceUser,
	}, config.Held}
}

// uidOf returns the id of an item in the records.
func uidOf(id uuid.UUID) types.UID { return types.UID(id.String()) }

// idOf returns the id in Coder of an object, or uuid.Nil if it is not a UUID.
func idOf(object records.Object) uuid.UUID {
	id, err := uuid.Parse(string(records.IDOf(object)))
	if err != nil {
		return uuid.Nil
	}
	return id
}

// readTemplates requests a single template by its id, and reads several from Coder's list, which
// has no pages. A single template that is not found is looked up in the list too.
func readTemplates(coder Coder, ctx context.Context, ids []uuid.UUID) ([]coderd.Template, error) {
	if len(ids) == 1 {
		template, err := coder.Template(ctx, ids[0])
		if !coderd.IsNotFound(err) {
			return []coderd.Template{template}, err
		}
	}
	return coder.Templates(ctx)
}

const (
	// usersAtOnce is the maximum number of users that are read one by one because they changed.
	usersAtOnce = 5
	// maxListed is the maximum number of users, and of templates, in one Coder.
	maxListed = 50_000
)

// readUsers reads users one by one, because Coder has no request for several ids. Users that are
// not found are left out.
func readUsers(coder Coder, ctx context.Context, ids []uuid.UUID) ([]coderd.User, error) {
	var all []coderd.User
	for _, id := range ids {
		user, err := coder.UserByID(ctx, id)
		if err != nil && !coderd.IsNotFound(err) {
			return nil, err
		}
		if err == nil {
			all = append(all, user)
		}
	}
	return all, nil
}

// listUsers reads all users. Coder sorts the pages by name, so a user that is renamed or deleted
// meanwhile moves other users to another page. The caller requests missing users one by one before
// they are removed.
func listUsers(ctx context.Context, p *plane, coder Coder) ([]coderd.User, error) {
	var all []coderd.User
	found := map[uuid.UUID]bool{}
	for offset, count := 0, 1; offset < count; offset += coderd.MaxUserPage {
		page, err := ask(ctx, p, callUsers, func(ctx context.Context) (coderd.UserPage, error) {
			return coder.UserPage(ctx, offset, coderd.MaxUserPage)
		}, nil)
		if err != nil {
			return nil, err
		}
		if count = page.Count; count > maxListed {
			return nil, fmt.Errorf("Coder has %d users, but users are served only up to %d", count, maxListed)
		}
		for _, user := range page.Users {
			if !found[user.ID] {
				found[user.ID] = true
				all = append(all, user)
			}
		}
	}
	return all, nil
}

// unsettled holds the statuses of a workspace that change by themselves.
var unsettled = [...]string{"pending", "starting", "stopping", "canceling", "deleting"}

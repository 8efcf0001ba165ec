package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/warning"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
)

// retryAfter is the Retry-After of responses while nothing is known about a control plane yet.
const retryAfter = time.Second

// Gate checks whether the stored records can be served. Until a control plane was read, it has no
// records. Then the Gate returns 503 and not an empty list, because the garbage collector deletes
// dependents of objects that do not exist.
type Gate struct {
	// Board holds the sync status of each control plane.
	Board *syncstatus.Board
	// Filled returns nil once the records of this replica are loaded.
	Filled func() error
	// Serves reports whether a namespace has a control plane to serve, according to this replica's
	// own view of the cluster.
	Serves func(ctx context.Context, namespace string) (bool, error)
	// Namespaces reports which namespaces are being deleted.
	Namespaces Namespaces
}

// Namespaces reports whether the objects of a namespace are released. They are released when the
// namespace is being deleted: the API no longer serves them, but they stay in Coder.
type Namespaces interface {
	// Released reads a cache and may lag behind.
	Released(namespace string) bool
	// ReleasedNow reads the current state. It is called before something is deleted.
	ReleasedNow(ctx context.Context, namespace string) (bool, error)
}

// nothing reports whether a namespace certainly has no objects, regardless of the state of this
// replica. Kubernetes lists every namespace that it deletes, so the answer must not depend on the
// sync status.
func (g *Gate) nothing(ctx context.Context, namespace string) bool {
	if namespace == "" {
		return false
	}
	if g.Namespaces.Released(namespace) {
		return true
	}
	serves, err := g.Serves(ctx, namespace)
	if err != nil || serves {
		return false
	}
	known, _ := g.Board.InNamespace(namespace)
	return len(known) == 0
}

// read returns an error if the objects of a namespace, or of all namespaces if it is empty, cannot
// be served. It adds a warning for each control plane whose objects may be out of date.
func (g *Gate) read(ctx context.Context, namespace string) error {
	all, err := g.statuses(ctx, namespace)
	if err != nil {
		return err
	}
	// A control plane that was served before does not block lists of all namespaces forever, but a
	// list of its own namespace never omits its objects. A control plane that was never served has
	// no objects that a client could miss.
	unread := slices.IndexFunc(all, func(p syncstatus.Status) bool {
		return !p.NeverServed && (p.State == syncstatus.Syncing || namespace != "" && !p.Seen)
	})
	if unread >= 0 {
		return unavailable(all[unread])
	}
	for _, p := range all {
		warn(ctx, p)
	}
	return nil
}

// readOne is like read, but for one object. The prefix of its name identifies its control plane.
func (g *Gate) readOne(ctx context.Context, namespace, prefix string) error {
	p, err := g.find(ctx, namespace, prefix)
	switch {
	case err != nil || p == nil:
		return err
	case !p.Seen:
		return unavailable(*p)
	}
	warn(ctx, *p)
	return nil
}

// absent returns an error if an object that is not in the records may exist nevertheless: it may have
// been created since Coder was last read. Nothing can be created then either.
func (g *Gate) absent(ctx context.Context, namespace, prefix string) error {
	p, err := g.find(ctx, namespace, prefix)
	if err != nil || p == nil || p.State == syncstatus.Ready {
		return err
	}
	return unavailable(*p)
}

func (g *Gate) find(ctx context.Context, namespace, prefix string) (*syncstatus.Status, error) {
	all, err := g.statuses(ctx, namespace)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(p syncstatus.Status) bool { return !p.Unnamed && p.NamePrefix == prefix })
	if i < 0 {
		// A control plane whose name prefix is not decided yet may get this prefix.
		i = slices.IndexFunc(all, func(p syncstatus.Status) bool { return p.Unnamed })
	}
	if i < 0 {
		return nil, nil
	}
	return &all[i], nil
}

// statuses returns the sync statuses of a namespace, or of all namespaces if it is empty. It
// returns an error if they are not known yet.
func (g *Gate) statuses(ctx context.Context, namespace string) ([]syncstatus.Status, error) {
	if err := g.Filled(); err != nil {
		return nil, coderfault.Unavailable("this replica has not loaded its objects yet: "+err.Error(), retryAfter)
	}
	all, known := g.Board.All()
	if !known {
		return nil, coderfault.Unavailable("the control planes are not known yet", retryAfter)
	}
	if namespace == "" {
		return all, nil
	}
	all = slices.DeleteFunc(all, func(p syncstatus.Status) bool { return p.ControlPlane.Namespace != namespace })
	if len(all) > 0 {
		return all, nil
	}
	// A control plane that was just created is not on the board yet.
	serves, err := g.Serves(ctx, namespace)
	if err != nil {
		return nil, coderfault.Unavailable(fmt.Sprintf("the control planes of namespace %q cannot be read now: %v", namespace, err), retryAfter)
	}
	if serves {
		return nil, coderfault.Unavailable(fmt.Sprintf("the control plane of namespace %q is not read yet", namespace), retryAfter)
	}
	return nil, nil
}

func unavailable(p syncstatus.Status) error {
	return coderfault.Unavailable(fmt.Sprintf("CoderControlPlane %s is not available (%s since %s): %s",
		p.ControlPlane, p.State, p.Since.UTC().Format(time.RFC3339), orNoReason(p.Message)), retryAfter)
}

// warn adds a warning if the objects of a control plane are omitted, or served as they were last
// read.
func warn(ctx context.Context, p syncstatus.Status) {
	if p.NeverServed {
		warning.AddWarning(ctx, "", fmt.Sprintf("the templates and workspaces of CoderControlPlane %s are missing from this response, because it was not served yet (%s since %s): %s",
			p.ControlPlane, p.State, p.Since.UTC().Format(time.RFC3339), orNoReason(p.Message)))
		return
	}
	if p.State != syncstatus.Stale && p.State != syncstatus.Quarantined {
		return
	}
	what := "are in their last known state"
	if !p.Seen {
		what = "are missing from this response"
	}
	warning.AddWarning(ctx, "", fmt.Sprintf("the objects of CoderControlPlane %s %s, because Coder is unavailable since %s: %s",
		p.ControlPlane, what, p.Since.UTC().Format(time.RFC3339), orNoReason(p.Message)))
}

func orNoReason(message string) string {
	if message = strings.TrimSpace(message); message != "" {
		return message
	}
	return "the reason is not known"
}

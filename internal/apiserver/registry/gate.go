package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/warning"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/partition"
)

// retryAfter is what a client is told to wait where nothing is known yet.
const retryAfter = time.Second

// Gate decides whether what the log holds may be told. The log of a control plane
// that was not read yet has no objects, and nobody may take that for an answer:
// the garbage collector of Kubernetes deletes what it is told does not exist.
type Gate struct {
	// Board says how much is known of each control plane.
	Board *partition.Board
	// Filled is nil once the log of this replica was filled.
	Filled func() error
	// Serves says whether a namespace has a control plane to serve, from this
	// replica's own view of the cluster.
	Serves func(ctx context.Context, namespace string) (bool, error)
	// Namespaces says which namespaces are being deleted.
	Namespaces Namespaces
}

// Namespaces says whether the objects of a namespace are released: it is being
// deleted, and they are shown no more but stay in Coder.
type Namespaces interface {
	// Released may be late.
	Released(namespace string) bool
	// ReleasedNow asks, before something is destroyed.
	ReleasedNow(ctx context.Context, namespace string) (bool, error)
}

// nothing says that a namespace has no objects for certain, whatever state this
// replica is in. Every namespace of a cluster is listed when it is deleted, so the
// answer must not depend on us.
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

// read says whether the objects of a namespace, or of all of them where it is
// empty, can be told. Where some may be out of date it adds a warning.
func (g *Gate) read(ctx context.Context, namespace string) error {
	all, err := g.partitions(ctx, namespace)
	if err != nil {
		return err
	}
	// A control plane that was served before does not block lists of all namespaces for
	// ever, but a list of its own namespace never omits its objects. One that was never
	// served has none that anybody could miss.
	unread := slices.IndexFunc(all, func(p partition.Partition) bool {
		return !p.NeverServed && (p.State == partition.Syncing || namespace != "" && !p.Seen)
	})
	if unread >= 0 {
		return unavailable(all[unread])
	}
	for _, p := range all {
		warn(ctx, p)
	}
	return nil
}

// readOne is read for one object, which belongs to the control plane whose
// objects have the prefix.
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

// absent says whether the absence of an object from the log is an answer. An
// object that was made since Coder was last asked may exist.
func (g *Gate) absent(ctx context.Context, namespace, prefix string) error {
	p, err := g.find(ctx, namespace, prefix)
	if err != nil || p == nil || p.State == partition.Ready {
		return err
	}
	return unavailable(*p)
}

// create says whether something can be created. It needs a Coder that answers.
func (g *Gate) create(ctx context.Context, namespace, prefix string) error {
	return g.absent(ctx, namespace, prefix)
}

func (g *Gate) find(ctx context.Context, namespace, prefix string) (*partition.Partition, error) {
	all, err := g.partitions(ctx, namespace)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(p partition.Partition) bool { return !p.Unnamed && p.NamePrefix == prefix })
	if i < 0 {
		// One whose names are not settled may be the one with this prefix.
		i = slices.IndexFunc(all, func(p partition.Partition) bool { return p.Unnamed })
	}
	if i < 0 {
		return nil, nil
	}
	return &all[i], nil
}

// partitions are those of a namespace, or all of them. It is an error where they
// are not known yet.
func (g *Gate) partitions(ctx context.Context, namespace string) ([]partition.Partition, error) {
	if err := g.Filled(); err != nil {
		return nil, coderfault.Unavailable("this replica does not know the workspaces and templates yet: "+err.Error(), retryAfter)
	}
	all, known := g.Board.All()
	if !known {
		return nil, coderfault.Unavailable("no replica has looked for control planes yet", retryAfter)
	}
	if namespace == "" {
		return all, nil
	}
	all = slices.DeleteFunc(all, func(p partition.Partition) bool { return p.ControlPlane.Namespace != namespace })
	if len(all) > 0 {
		return all, nil
	}
	// One that was created this moment is not on the board yet.
	serves, err := g.Serves(ctx, namespace)
	if err != nil {
		return nil, coderfault.Unavailable(fmt.Sprintf("the control planes of namespace %q cannot be read now: %v", namespace, err), retryAfter)
	}
	if serves {
		return nil, coderfault.Unavailable(fmt.Sprintf("the control plane of namespace %q was not read yet", namespace), retryAfter)
	}
	return nil, nil
}

func unavailable(p partition.Partition) error {
	return coderfault.Unavailable(fmt.Sprintf("CoderControlPlane %s cannot be asked now (%s since %s): %s",
		p.ControlPlane, p.State, p.Since.UTC().Format(time.RFC3339), orNoReason(p.Message)), retryAfter)
}

// warn adds a warning if the objects of a control plane are shown as they were last
// seen, or are left out.
func warn(ctx context.Context, p partition.Partition) {
	if p.NeverServed {
		warning.AddWarning(ctx, "", fmt.Sprintf("the templates and workspaces of CoderControlPlane %s are left out, because it was never served (%s since %s): %s",
			p.ControlPlane, p.State, p.Since.UTC().Format(time.RFC3339), orNoReason(p.Message)))
		return
	}
	if p.State != partition.Stale && p.State != partition.Quarantined {
		return
	}
	what := "is shown as it was last seen"
	if !p.Seen {
		what = "is left out"
	}
	warning.AddWarning(ctx, "", fmt.Sprintf("what CoderControlPlane %s has %s, because Coder cannot be asked since %s: %s",
		p.ControlPlane, what, p.Since.UTC().Format(time.RFC3339), orNoReason(p.Message)))
}

func orNoReason(message string) string {
	if message = strings.TrimSpace(message); message != "" {
		return message
	}
	return "no reason is known"
}

package controlplane

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// prefixes remembers the first control plane of each namespace. A decision is recorded here under
// the lock before it is written to the status, so that two control planes of a namespace cannot
// both become the first while the writes are in progress. If there is no record, the decision comes
// from an uncached list, because a new process only knows what was written.
type prefixes struct {
	mu    sync.Mutex
	first map[string]holder
}

// holder identifies the first control plane of a namespace.
type holder struct {
	name string
	uid  types.UID
}

// decidePrefix decides once the prefix of the names of this control plane's templates and
// workspaces. The pass writes the prefix to the status. If that write fails, the next pass decides
// the same.
func (r *Reconciler) decidePrefix(ctx context.Context, s *scope) error {
	p := &r.prefixes
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.prefix != nil {
		if *s.prefix == "" {
			p.first[s.cp.Namespace] = holder{name: s.cp.Name, uid: s.cp.UID}
		}
		return nil
	}
	first, known := p.first[s.cp.Namespace]
	// An object with the same name and another uid replaced the first one.
	if !known || first.name == s.cp.Name && first.uid != s.cp.UID {
		list := &coderv1alpha1.CoderControlPlaneList{}
		if err := r.kit.Live.List(ctx, list, client.InNamespace(s.cp.Namespace)); err != nil {
			return fmt.Errorf("listing the control planes of namespace %q: %w", s.cp.Namespace, err)
		}
		oldest := firstOf(s.cp, list.Items)
		p.first[oldest.Namespace] = holder{name: oldest.Name, uid: oldest.UID}
	}
	s.prefix = ptr.To(s.cp.Name + ".")
	if p.first[s.cp.Namespace].uid == s.cp.UID {
		s.prefix = ptr.To("")
	}
	return nil
}

// release forgets a control plane that no longer exists, or that can no longer become the first and
// was not yet recorded as such in its status.
func (p *prefixes) release(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first[key.Namespace].name == key.Name {
		delete(p.first, key.Namespace)
	}
}

// firstOf returns the first control plane of a namespace: the one whose status already says so, or
// the oldest one that can become it.
func firstOf(cp *coderv1alpha1.CoderControlPlane, all []coderv1alpha1.CoderControlPlane) *coderv1alpha1.CoderControlPlane {
	first := cp
	for i := range all {
		other := &all[i]
		if other.UID == cp.UID {
			continue
		}
		if other.Status.ObjectNamePrefix != nil && *other.Status.ObjectNamePrefix == "" {
			return other
		}
		if undecided(other) && framework.Older(other, first) {
			first = other
		}
	}
	return first
}

func undecided(cp *coderv1alpha1.CoderControlPlane) bool {
	return cp.Status.ObjectNamePrefix == nil && cp.DeletionTimestamp.IsZero() &&
		!cp.Spec.OperatorAccess.Disabled && invalidName(cp) == ""
}

// invalidName returns why a control plane cannot be created with its name, or an empty string.
func invalidName(cp *coderv1alpha1.CoderControlPlane) string {
	return framework.InvalidName(&framework.Pass{Kind: kind(), Workload: resources.ControlPlane(cp, resources.Cluster{})})
}

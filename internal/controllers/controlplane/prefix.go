package controlplane

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/resources"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
)

// prefixes remembers which control plane of each namespace is the first, or is
// going to be. A decision is noted here, under the lock, before it is written to
// the status, so that no two control planes of a namespace come out as the first
// while the writes are on their way. What is not noted is decided from a list that
// is not cached: a process that begins knows only what was written.
type prefixes struct {
	mu    sync.Mutex
	first map[string]holder
}

// holder is a control plane that is the first of its namespace.
type holder struct {
	name string
	uid  types.UID
}

// decidePrefix decides once what stands in front of the names of this control
// plane's templates and workspaces. The status that the pass writes tells it; where
// that write fails, the next pass decides the same.
func (r *Reconciler) decidePrefix(ctx context.Context, s *scope) error {
	p := &r.prefixes
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.prefix != nil {
		if *s.prefix == "" {
			p.hold(s.cp)
		}
		return nil
	}
	first, known := p.first[s.cp.Namespace]
	// One of the same name and another uid took the place of the first.
	if !known || first.name == s.cp.Name && first.uid != s.cp.UID {
		list := &coderv1alpha1.CoderControlPlaneList{}
		if err := r.kit.Live.List(ctx, list, client.InNamespace(s.cp.Namespace)); err != nil {
			return fmt.Errorf("listing the control planes of namespace %q: %w", s.cp.Namespace, err)
		}
		p.hold(firstOf(s.cp, list.Items))
	}
	s.prefix = ptr.To(s.cp.Name + ".")
	if p.first[s.cp.Namespace].uid == s.cp.UID {
		s.prefix = ptr.To("")
	}
	return nil
}

// hold notes the first of a namespace. The lock is held.
func (p *prefixes) hold(cp *coderv1alpha1.CoderControlPlane) {
	if p.first == nil {
		p.first = map[string]holder{}
	}
	p.first[cp.Namespace] = holder{name: cp.Name, uid: cp.UID}
}

// release forgets a control plane that does not exist any more, or that has no
// claim any more before it was written that it is the first.
func (p *prefixes) release(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first[key.Namespace].name == key.Name {
		delete(p.first, key.Namespace)
	}
}

// firstOf is the first control plane of a namespace: the one that is it already, or
// else the oldest that has a claim to be it.
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
		if undecided(other) && older(other, first) {
			first = other
		}
	}
	return first
}

func undecided(cp *coderv1alpha1.CoderControlPlane) bool {
	return cp.Status.ObjectNamePrefix == nil && cp.DeletionTimestamp.IsZero() &&
		!cp.Spec.OperatorAccess.Disabled && invalidName(cp) == ""
}

// invalidName says what keeps a control plane from being made at all.
func invalidName(cp *coderv1alpha1.CoderControlPlane) string {
	return workload.InvalidName(&workload.Pass{Kind: kind(), Workload: resources.Workload(cp, resources.Inputs{})})
}

func older(a, b *coderv1alpha1.CoderControlPlane) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

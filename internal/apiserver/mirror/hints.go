package mirror

import (
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
)

// Hints report that objects must be read again. They are created before the components that notice changes and before the Mirror,
// which takes the hints while it runs. Without a running Mirror, hints are dropped: a Mirror that starts reads everything.
//
// It is safe for concurrent use.
type Hints struct {
	mu sync.Mutex
	// epoch is nil while no Mirror runs.
	epoch *epoch
}

// deliverTo sets the epoch that takes the hints, or nil.
func (h *Hints) deliverTo(e *epoch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.epoch = e
}

// plane returns the mirror of a control plane, or nil if this replica does not mirror it.
func (h *Hints) plane(controlPlane types.NamespacedName) *plane {
	h.mu.Lock()
	e := h.epoch
	h.mu.Unlock()
	if e == nil {
		return nil
	}
	return e.plane(controlPlane)
}

// Object triggers an immediate read of an object that was just written.
func (h *Hints) Object(kind string, controlPlane types.NamespacedName, id uuid.UUID) {
	h.mark(kind, controlPlane, id, 0)
}

// podsGap is the delay between a change of a workspace's pods and the read of the workspace. It
// limits pods that change all the time to one request a second.
const podsGap = time.Second

// Pods triggers a read of a known workspace after podsGap, because its pods changed.
func (h *Hints) Pods(controlPlane types.NamespacedName, id uuid.UUID) {
	p := h.plane(controlPlane)
	if p == nil {
		return
	}
	// A pod may carry the id of a workspace that does not exist. Such ids are ignored.
	if entry, _ := p.workspaces.Store.Table.Find(controlPlane, uidOf(id)); entry != nil {
		p.workspaces.mark(id, podsGap)
	}
}

func (h *Hints) mark(kind string, controlPlane types.NamespacedName, id uuid.UUID, after time.Duration) {
	if p := h.plane(controlPlane); p != nil {
		if f := p.feedOf(kind); f != nil {
			f.mark(id, after)
		}
	}
}

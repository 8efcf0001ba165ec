package partition

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// State is how much the log knows of a control plane.
type State string

// The states.
const (
	// Syncing: it was never read. Nothing can be said about its objects.
	Syncing State = "Syncing"
	// Ready: the log equals Coder but for the last moments.
	Ready State = "Ready"
	// Stale: Coder cannot be asked. The objects are as they were last seen.
	Stale State = "Stale"
	// Quarantined: Coder could not be asked for long, or was never read in that
	// time. It no longer holds up lists of all namespaces.
	Quarantined State = "Quarantined"
)

// Partition is one control plane.
type Partition struct {
	ControlPlane types.NamespacedName `json:"controlPlane"`
	// NamePrefix stands in front of the names of its objects.
	NamePrefix string `json:"namePrefix,omitempty"`
	State      State  `json:"state"`
	// Seen says that it was read once, so that the log has its objects.
	Seen bool `json:"seen,omitempty"`
	// NeverServed says that it was never read by any replica, now or before, so that
	// nobody misses its objects.
	NeverServed bool `json:"neverServed,omitempty"`
	// Unnamed says that NamePrefix is not settled yet: any name may be one of its.
	Unnamed bool `json:"unnamed,omitempty"`
	// Since is when the state began.
	Since metav1.Time `json:"since"`
	// Message says for people why it is not ready.
	Message string `json:"message,omitempty"`
}

// Board is safe for concurrent use. Its zero value knows nothing yet.
type Board struct {
	mu         sync.Mutex
	known      bool
	partitions []Partition
	changed    chan struct{}
}

// Replace puts up what is known now.
func (b *Board) Replace(all []Partition) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known && slices.Equal(b.partitions, all) {
		return
	}
	b.known, b.partitions = true, slices.Clone(all)
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// All gives the partitions, and whether anything is known at all.
func (b *Board) All() (all []Partition, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.partitions), b.known
}

// InNamespace gives those of one namespace.
func (b *Board) InNamespace(namespace string) (found []Partition, known bool) {
	all, known := b.All()
	return slices.DeleteFunc(all, func(p Partition) bool { return p.ControlPlane.Namespace != namespace }), known
}

// Changed is closed when something else is put up.
func (b *Board) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed
}

package syncstatus

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// State is the sync status of a control plane.
type State string

// The states.
const (
	// Syncing means that it was never read. Nothing is known about its objects.
	Syncing State = "Syncing"
	// Ready means that the records match Coder, except for changes in the last seconds.
	Ready State = "Ready"
	// Stale means that Coder is unreachable. The objects are as they were last read.
	Stale State = "Stale"
	// Quarantined means that Coder has been unreachable for long, or was never read in that time.
	// It no longer blocks lists of all namespaces.
	Quarantined State = "Quarantined"
)

// Status is the sync status of one control plane.
type Status struct {
	ControlPlane types.NamespacedName `json:"controlPlane"`
	// UID is the UID of the control plane. It is empty if it is not known, and for a static connection.
	UID types.UID `json:"uid,omitempty"`
	// DeploymentID is the id of the Coder deployment that its objects were read from.
	DeploymentID string `json:"deploymentID,omitempty"`
	// NamePrefix is the prefix of the names of its objects.
	NamePrefix string `json:"namePrefix,omitempty"`
	State      State  `json:"state"`
	// Seen is true if it was read at least once, so that the records have its objects.
	Seen bool `json:"seen,omitempty"`
	// NeverServed is true if no replica ever read it, so that no client can miss its objects.
	NeverServed bool `json:"neverServed,omitempty"`
	// Unnamed is true if NamePrefix is not decided yet, so that any name may belong to it.
	Unnamed bool `json:"unnamed,omitempty"`
	// Since is the time of the last change of the state.
	Since metav1.Time `json:"since"`
	// Message is the human-readable reason why it is not ready.
	Message string `json:"message,omitempty"`
	// Incomplete is the number of objects that could not be stored, or not completely.
	Incomplete int `json:"incomplete,omitempty"`
}

// Board holds the sync statuses of all control planes. It is safe for concurrent use. Its zero
// value has no data yet.
type Board struct {
	mu       sync.Mutex
	known    bool
	statuses []Status
	changed  chan struct{}
}

// Replace sets all sync statuses.
func (b *Board) Replace(all []Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known && slices.Equal(b.statuses, all) {
		return
	}
	b.known, b.statuses = true, slices.Clone(all)
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// All returns the sync statuses, and reports whether they were ever set.
func (b *Board) All() (all []Status, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.statuses), b.known
}

// InNamespace returns the sync statuses of one namespace.
func (b *Board) InNamespace(namespace string) (found []Status, known bool) {
	all, known := b.All()
	return slices.DeleteFunc(all, func(s Status) bool { return s.ControlPlane.Namespace != namespace }), known
}

// Changed returns a channel that is closed at the next change.
func (b *Board) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed
}

package metadata

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Config says where records are kept.
type Config struct {
	Cluster Cluster
	// ControlPlaneUID gives the UID of a CoderControlPlane, which then owns its
	// records. It may be nil, or not know it: such records stay when the control
	// plane goes.
	ControlPlaneUID func(controlPlane types.NamespacedName) (types.UID, bool)
}

// Store keeps records as resources in the cluster.
type Store struct {
	cluster         Cluster
	controlPlaneUID func(types.NamespacedName) (types.UID, bool)
	view            *view

	mu sync.Mutex
	// missing are the namespaces that were not read yet.
	missing map[string]bool
	synced  chan struct{}
}

var (
	_ Records = (*Store)(nil)
	_ Feed    = (*Store)(nil)
)

// NewStore makes one that knows nothing until it runs.
func NewStore(config Config) *Store {
	s := &Store{
		cluster: config.Cluster, controlPlaneUID: config.ControlPlaneUID, view: newView(),
		missing: map[string]bool{}, synced: make(chan struct{}),
	}
	if s.controlPlaneUID == nil {
		s.controlPlaneUID = func(types.NamespacedName) (types.UID, bool) { return "", false }
	}
	for _, namespace := range s.cluster.Namespaces() {
		s.missing[namespace] = true
	}
	return s
}

// Run watches until the context ends.
func (s *Store) Run(ctx context.Context) error { return s.cluster.Watch(ctx, s) }

// Synced is closed when everything was read once. Before, a record that is not
// found may well be there.
func (s *Store) Synced() <-chan struct{} { return s.synced }

// Ready says why not everything was read yet.
func (s *Store) Ready() error {
	select {
	case <-s.synced:
		return nil
	default:
		return errors.New("the records in CoderObjectMetadata were not read yet: see whether its custom resource definition is installed and may be read")
	}
}

// CatchUp reads what is in the cluster by now. Who begins to write calls it once
// the store is ready, so that nothing is missed that the writer before wrote
// last.
func (s *Store) CatchUp(ctx context.Context) error {
	listings, err := s.cluster.List(ctx)
	if err != nil {
		return notKept(err)
	}
	for _, listing := range listings {
		s.Replace(ctx, listing)
	}
	return nil
}

// Get implements Records.
func (s *Store) Get(controlPlane types.NamespacedName, uid types.UID) (*Record, bool) {
	s.view.mu.RLock()
	defer s.view.mu.RUnlock()
	h := s.view.byID[byID{controlPlane, uid}]
	if h == nil {
		return nil, false
	}
	return h.record, true
}

// List implements Records.
func (s *Store) List(controlPlane types.NamespacedName) []*Record {
	s.view.mu.RLock()
	defer s.view.mu.RUnlock()
	var records []*Record
	for _, h := range s.view.planes[controlPlane] {
		records = append(records, h.record)
	}
	return records
}

// PendingFor implements Records.
func (s *Store) PendingFor(controlPlane types.NamespacedName, kind, name string) (*Record, bool) {
	s.view.mu.RLock()
	defer s.view.mu.RUnlock()
	h := s.view.pending[byName{controlPlane, kind, name}]
	if h == nil || s.view.replaced[h.uid] > 0 {
		return nil, false
	}
	return h.record, true
}

// OnChange implements Records.
func (s *Store) OnChange(changed func(*Record)) { s.view.listen(changed) }

// Replace implements Feed.
func (s *Store) Replace(ctx context.Context, listing Listing) {
	version, err := parseVersion(listing.Version)
	if err != nil {
		log.FromContext(ctx).Error(err, "Ignoring a list of CoderObjectMetadata without a version that can be compared", "version", listing.Version)
		return
	}
	seen := make(map[types.NamespacedName]bool, len(listing.Resources))
	for _, resource := range listing.Resources {
		seen[types.NamespacedName{Namespace: resource.Namespace, Name: resource.Name}] = true
		s.changed(ctx, resource, version)
	}
	s.view.listed(listing.Namespace, version)
	for _, key := range s.view.stale(listing.Namespace, seen, version) {
		s.view.told(key, func() *held { return s.view.lose(key, version) })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.missing, listing.Namespace); len(s.missing) == 0 && s.Ready() != nil {
		close(s.synced)
	}
}

// Changed implements Feed. A resource that is being removed counts as removed.
func (s *Store) Changed(ctx context.Context, resource *Resource) { s.changed(ctx, resource, 0) }

// changed takes up what the watch tells, or a list of that version.
func (s *Store) changed(ctx context.Context, resource *Resource, list uint64) {
	if resource.DeletionTimestamp != nil {
		s.Removed(ctx, resource)
		return
	}
	h, err := hold(resource)
	if h == nil {
		log.FromContext(ctx).Error(err, "Ignoring a CoderObjectMetadata", "namespace", resource.Namespace, "name", resource.Name)
		return
	}
	s.view.told(h.key, func() *held {
		if known := s.view.byKey[h.key]; err != nil && (known == nil || known.version < h.version) {
			log.FromContext(ctx).Error(err, "Ignoring what a CoderObjectMetadata keeps; it is written anew when its object is changed, or can be deleted",
				"namespace", resource.Namespace, "name", resource.Name)
		}
		return s.view.hear(h, list)
	})
}

// Removed implements Feed.
func (s *Store) Removed(ctx context.Context, resource *Resource) {
	version, err := parseVersion(resource.ResourceVersion)
	if err != nil {
		log.FromContext(ctx).Error(err, "Ignoring the removal of a CoderObjectMetadata without a version", "namespace", resource.Namespace, "name", resource.Name)
		return
	}
	key := types.NamespacedName{Namespace: resource.Namespace, Name: resource.Name}
	s.view.told(key, func() *held { return s.view.lose(key, version) })
}

// hold reads a resource. Where only its content cannot be read there is a result
// and an error.
func hold(resource *Resource) (*held, error) {
	version, err := parseVersion(resource.ResourceVersion)
	if err != nil {
		return nil, err
	}
	h := &held{
		key: types.NamespacedName{Namespace: resource.Namespace, Name: resource.Name},
		uid: resource.UID, version: version, others: othersOf(resource),
	}
	for _, owner := range resource.OwnerReferences {
		if isControlPlane(owner) {
			h.ownerUID = owner.UID
		}
	}
	h.record, h.pendingUID, err = decode(resource)
	return h, err
}

// othersOf gives what somebody else put on the resource itself, which must
// survive a write. Nobody is the usual case, and costs nothing.
func othersOf(resource *Resource) *metav1.ObjectMeta {
	owners := slices.DeleteFunc(copyOwners(resource.OwnerReferences), isControlPlane)
	if len(resource.Labels) == 0 && len(resource.Annotations) == 0 && len(resource.Finalizers) == 0 && len(owners) == 0 {
		return nil
	}
	return &metav1.ObjectMeta{
		Labels: maps.Clone(resource.Labels), Annotations: maps.Clone(resource.Annotations),
		Finalizers: slices.Clone(resource.Finalizers), OwnerReferences: owners,
	}
}

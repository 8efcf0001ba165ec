package metadata

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"

	metadatav1alpha1 "github.com/coder-k8s/coder-k8s/api/metadata/v1alpha1"
)

// Put implements Records.
func (s *Store) Put(ctx context.Context, record *Record) (*Record, error) {
	return s.put(ctx, record, "")
}

// put writes a record that takes the place of a pending one with that UID.
func (s *Store) put(ctx context.Context, record *Record, pendingUID types.UID) (*Record, error) {
	wanted := record.DeepCopy()
	if err := normalize(wanted); err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("a record cannot be kept: %w", err))
	}
	key, err := resourceKey(wanted)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if err := checkSize(wanted); err != nil {
		return nil, err
	}
	release, err := s.view.hold(ctx, key)
	if err != nil {
		return nil, notKept(err)
	}
	defer release()
	known := s.view.current(key)
	switch {
	case wanted.IsEmpty():
		return s.putNothing(ctx, wanted, known)
	case known == nil && wanted.Version != "":
		return nil, changed(wanted, "was removed meanwhile")
	case known == nil:
		return s.create(ctx, wanted, pendingUID)
	}
	return s.replace(ctx, wanted, known, pendingUID)
}

// putNothing removes the resource of a record that has become empty.
func (s *Store) putNothing(ctx context.Context, wanted *Record, known *held) (*Record, error) {
	if known != nil && wanted.Version == "" && known.record != nil {
		return nil, changed(wanted, "was made meanwhile")
	}
	if known != nil {
		if err := s.remove(ctx, wanted, known); err != nil {
			return nil, err
		}
	}
	wanted.Version = ""
	return wanted, nil
}

// replace writes over what is known.
func (s *Store) replace(ctx context.Context, wanted *Record, known *held, pendingUID types.UID) (*Record, error) {
	version := formatVersion(known.version)
	switch {
	case known.record == nil:
		log.FromContext(ctx).Info("Writing anew a CoderObjectMetadata that cannot be read", "namespace", known.key.Namespace, "name", known.key.Name)
	case same(known.record, wanted), pendingUID != "" && pendingUID == known.pendingUID:
		return known.record, nil
	case known.record.ControlPlane != wanted.ControlPlane:
		return nil, apierrors.NewInternalError(fmt.Errorf(
			"the metadata of %s %q cannot be kept: CoderObjectMetadata %q in namespace %q belongs to control plane %q, whose Coder has an object with the same id, so one is a copy of the other; put control planes on copies of one database into namespaces of their own",
			wanted.Kind, wanted.Name, known.key.Name, known.key.Namespace, known.record.ControlPlane.Name))
	case version != wanted.Version:
		return nil, changed(wanted, "has version "+version)
	}
	if pendingUID == "" {
		pendingUID = known.pendingUID
	}
	resource, err := s.resource(wanted, pendingUID, known)
	if err != nil {
		return nil, err
	}
	resource.ResourceVersion = version
	switch err := s.cluster.Update(ctx, resource); {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return s.settle(ctx, wanted, known.key, pendingUID)
	case err != nil:
		return nil, notKept(err)
	}
	return s.written(resource)
}

func (s *Store) create(ctx context.Context, wanted *Record, pendingUID types.UID) (*Record, error) {
	resource, err := s.resource(wanted, pendingUID, nil)
	if err != nil {
		return nil, err
	}
	key := types.NamespacedName{Namespace: resource.Namespace, Name: resource.Name}
	switch err := s.cluster.Create(ctx, resource); {
	case apierrors.IsAlreadyExists(err):
		return s.settle(ctx, wanted, key, pendingUID)
	case err != nil:
		return nil, notKept(err)
	}
	return s.written(resource)
}

// settle reads what stands where something else was expected. That may be what
// was wanted, from a write whose answer was lost.
func (s *Store) settle(ctx context.Context, wanted *Record, key types.NamespacedName, pendingUID types.UID) (*Record, error) {
	resource, err := s.cluster.Get(ctx, key)
	switch {
	case apierrors.IsNotFound(err):
		if known := s.view.current(key); known != nil {
			s.view.bury(known)
		}
		return nil, changed(wanted, "was removed meanwhile")
	case err != nil:
		return nil, notKept(err)
	case resource.DeletionTimestamp != nil:
		return nil, changed(wanted, "is being removed, and held by its finalizers "+strings.Join(resource.Finalizers, ", "))
	}
	found, err := hold(resource)
	if found == nil {
		return nil, notKept(err)
	}
	s.view.write(found)
	if found.record != nil && (same(found.record, wanted) || pendingUID != "" && pendingUID == found.pendingUID) {
		return found.record, nil
	}
	return nil, changed(wanted, "has version "+resource.ResourceVersion)
}

// resource makes what is written: what others put on it stays.
func (s *Store) resource(wanted *Record, pendingUID types.UID, known *held) (*Resource, error) {
	resource, err := encode(wanted, pendingUID)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("a record cannot be kept: %w", err))
	}
	if known != nil && known.others != nil {
		copied := known.others.DeepCopy()
		resource.Labels, resource.Annotations = copied.Labels, copied.Annotations
		resource.Finalizers, resource.OwnerReferences = copied.Finalizers, copied.OwnerReferences
	}
	uid, ok := s.controlPlaneUID(wanted.ControlPlane)
	if !ok {
		uid = ""
		if known != nil {
			uid = known.ownerUID
		}
	}
	if uid != "" {
		resource.OwnerReferences = append(resource.OwnerReferences, metav1.OwnerReference{
			APIVersion: coderv1alpha1.GroupVersion.String(), Kind: controlPlaneKind, Name: wanted.ControlPlane.Name, UID: uid,
		})
	}
	return resource, nil
}

const controlPlaneKind = "CoderControlPlane"

func isControlPlane(owner metav1.OwnerReference) bool {
	group, _ := schema.ParseGroupVersion(owner.APIVersion)
	return group.Group == coderv1alpha1.GroupVersion.Group && owner.Kind == controlPlaneKind
}

func (s *Store) written(resource *Resource) (*Record, error) {
	h, err := hold(resource)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("CoderObjectMetadata %q in namespace %q was written and cannot be read: %w", resource.Name, resource.Namespace, err))
	}
	s.view.write(h)
	return h.record, nil
}

// Bind implements Records.
func (s *Store) Bind(ctx context.Context, pending *Record, uid types.UID) (*Record, error) {
	if !pending.Pending() {
		return nil, apierrors.NewInternalError(fmt.Errorf("%s %q already has the id %s", pending.Kind, pending.Name, pending.UID))
	}
	key, err := resourceKey(pending)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	known := s.view.current(key)
	bound := pending.DeepCopy()
	bound.UID, bound.Version = uid, ""
	var pendingUID types.UID
	if known != nil {
		pendingUID = known.uid
	}
	out, err := s.put(ctx, bound, pendingUID)
	if err != nil || known == nil {
		return out, err
	}
	// From here on the pending record is not found any more. What remains of it is
	// no reason to fail: the janitor removes it.
	if err := s.Delete(ctx, known.ghost(pending)); err != nil {
		log.FromContext(ctx).Error(err, "Leaving a pending CoderObjectMetadata to the janitor", "namespace", key.Namespace, "name", key.Name)
	}
	return out, nil
}

// ghost is a record that names the resource, whatever its version is.
func (h *held) ghost(record *Record) *Record {
	return &Record{ControlPlane: record.ControlPlane, Kind: record.Kind, Name: record.Name, UID: record.UID}
}

// Delete implements Records.
func (s *Store) Delete(ctx context.Context, record *Record) error {
	key, err := resourceKey(record)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	release, err := s.view.hold(ctx, key)
	if err != nil {
		return notKept(err)
	}
	defer release()
	known := s.view.current(key)
	if known == nil {
		return nil
	}
	return s.remove(ctx, record, known)
}

// remove removes the resource in the record's version.
func (s *Store) remove(ctx context.Context, record *Record, known *held) error {
	if record.Version != "" && record.Version != formatVersion(known.version) {
		return changed(record, "has version "+formatVersion(known.version))
	}
	err := s.cluster.Delete(ctx, &Resource{ObjectMeta: metav1.ObjectMeta{
		Namespace: known.key.Namespace, Name: known.key.Name, UID: known.uid, ResourceVersion: record.Version,
	}})
	switch {
	case apierrors.IsConflict(err):
		if _, err := s.settle(ctx, record, known.key, ""); err != nil && !apierrors.IsConflict(err) {
			return err
		}
		return changed(record, "was written meanwhile")
	case err != nil && !apierrors.IsNotFound(err):
		return notKept(err)
	}
	s.view.bury(known)
	return nil
}

// changed is the answer where a record is not as it was read.
func changed(record *Record, how string) error {
	key, _ := resourceKey(record)
	return apierrors.NewConflict(schema.GroupResource{Group: metadatav1alpha1.GroupVersion.Group, Resource: resourcePlural}, key.Name,
		fmt.Errorf("what is kept of %s %q %s; read it again", record.Kind, record.Name, how))
}

// notKept is the answer where the cluster refused. It is no fault of who asked,
// so that it is none of theirs in the status either.
func notKept(err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError("metadata could not be kept in time: "+err.Error(), 1)
	case apierrors.IsNotFound(err):
		return apierrors.NewServiceUnavailable("metadata cannot be kept: the custom resource definition coderobjectmetadata.internal.coder.com or the namespace is missing: " + err.Error())
	case apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, "NamespaceTerminating"):
		return apierrors.NewServiceUnavailable("metadata cannot be kept: the operator may not write CoderObjectMetadata; see its role coder-k8s-apiserver: " + err.Error())
	}
	return apierrors.NewServiceUnavailable("metadata could not be kept; try again: " + err.Error())
}

const resourcePlural = "coderobjectmetadata"

func formatVersion(version uint64) string { return fmt.Sprint(version) }

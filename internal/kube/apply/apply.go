package apply

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// ErrTerminating reports that the object is being deleted, so that it cannot be applied until it is
// gone.
var ErrTerminating = errors.New("is being deleted")

// noVersion is a resource version that no object has: it is the highest revision of etcd, which
// counts from 1. kube-apiserver rejects an apply with it if the object exists (Conflict), and
// creates the object if it does not exist.
const noVersion = "9223372036854775807"

// Applier applies objects. It is safe for concurrent use with different objects.
type Applier struct {
	// Client writes objects, and reads them from its cache if it has one.
	Client client.Client
	// Live reads from the API server without a cache.
	Live client.Reader
	// FieldOwner is the name of the operator in managed fields. It must never change: with another
	// name the operator would no longer own the fields that it applied before.
	FieldOwner string

	memory memory
}

// Apply applies desired to the cluster unless the claim does not hold the existing object.
// Afterwards desired holds the object as the API server returned it. Apply reports whether the
// object changed. If desired has a resource version and the object has another one, nothing is
// written and the error is a conflict, because desired was built from an outdated state.
func (a *Applier) Apply(ctx context.Context, claim Claim, desired client.Object) (bool, error) {
	if err := claim.stamp(desired); err != nil {
		return false, fmt.Errorf("claiming %s: %w", client.ObjectKeyFromObject(desired), err)
	}
	content, err := toApply(desired)
	if err != nil {
		return false, err
	}
	// The resource version is a precondition and no part of the content.
	onlyTo := content.GetResourceVersion()
	content.SetResourceVersion("")
	// The keys of JSON objects are sorted, so the same content has the same hash.
	raw, err := json.Marshal(content.Object)
	if err != nil {
		return false, fmt.Errorf("serializing %s: %w", client.ObjectKeyFromObject(desired), err)
	}
	wanted := digest(sha256.Sum256(raw))
	key := objectKey{kind: content.GroupVersionKind(), name: client.ObjectKeyFromObject(desired)}

	live, err := a.read(ctx, a.Client, key)
	if err != nil {
		return false, err
	}
	created := false
	if _, applied := a.memory.of(key); live == nil && onlyTo == "" && !applied {
		if created, err = a.create(ctx, content); err != nil {
			return false, err
		}
	}
	if !created {
		if live, err = a.confirmed(ctx, key, claim, live); err != nil {
			return false, err
		}
		if live != nil && a.memory.matches(key, record{uid: live.GetUID(), desired: wanted, owned: ownedFields(live, a.FieldOwner)}) {
			return false, overwrite(desired, live)
		}
		if err := a.update(ctx, claim, live, onlyTo, content); err != nil {
			return false, err
		}
	}
	a.memory.Store(key, record{
		uid: content.GetUID(), desired: wanted, owned: ownedFields(content, a.FieldOwner), version: content.GetResourceVersion(),
	})
	changed := live == nil || live.GetResourceVersion() != content.GetResourceVersion()
	return changed, overwrite(desired, content)
}

// Forget drops the state of an object that was deleted.
func (a *Applier) Forget(obj client.Object) {
	if kind, err := apiutil.GVKForObject(obj, a.Client.Scheme()); err == nil {
		a.memory.Delete(objectKey{kind: kind, name: client.ObjectKeyFromObject(obj)})
	}
}

// create applies an object that the cache does not contain, and reports whether it was created. If
// it exists, because the cache is stale or contains only part of the cluster, nothing is written.
func (a *Applier) create(ctx context.Context, content *unstructured.Unstructured) (bool, error) {
	content.SetResourceVersion(noVersion)
	err := a.write(ctx, content)
	// With these errors, the API server certainly did not create an object, perhaps because it exists.
	// kube-apiserver checks some permissions and the content before the version. So the last three do
	// not mean that the object does not exist, and that it belongs to another owner matters more.
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) ||
		apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		content.SetResourceVersion("")
		return false, nil
	}
	return err == nil, err
}

// confirmed returns the existing object, or nil if the API server has none. It returns an error if
// the claim does not hold the object. cached is the object in the cache, or nil.
func (a *Applier) confirmed(ctx context.Context, key objectKey, claim Claim, cached client.Object) (client.Object, error) {
	obj := cached
	// A stale cache may not contain the object, a change of its owner, or the last apply. In the
	// last case it shows the pods of the previous revision as those of the current one.
	if obj == nil || !claim.Holds(obj) || a.memory.behind(key, obj) {
		var err error
		if obj, err = a.read(ctx, a.Live, key); obj == nil || err != nil {
			return nil, err
		}
	}
	switch {
	case !claim.Holds(obj):
		e := &NotOwnedError{Kind: key.kind.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
		if controller := metav1.GetControllerOf(obj); controller != nil {
			e.Owner = fmt.Sprintf("%s %q", controller.Kind, controller.Name)
		}
		return nil, e
	case !obj.GetDeletionTimestamp().IsZero():
		return nil, fmt.Errorf("%s %s %w", key.kind.Kind, key.name, ErrTerminating)
	}
	return obj, nil
}

// update applies an object to the one that the API server has, or creates it if live is nil. If
// onlyTo is not empty, an existing object must have that version.
func (a *Applier) update(ctx context.Context, claim Claim, live client.Object, onlyTo string, content *unstructured.Unstructured) error {
	if live == nil {
		content.SetResourceVersion(noVersion)
		return a.write(ctx, content)
	}
	if claim.adopt != nil {
		if err := claim.adopt(ctx, live); err != nil {
			return fmt.Errorf("%s %s %w", content.GetKind(), client.ObjectKeyFromObject(live), err)
		}
	}
	content.SetUID(live.GetUID())
	content.SetResourceVersion(onlyTo)
	return a.write(ctx, content)
}

// read returns an object, or nil if the reader has none.
func (a *Applier) read(ctx context.Context, reader client.Reader, key objectKey) (client.Object, error) {
	empty, err := a.Client.Scheme().New(key.kind)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", key.kind.Kind, err)
	}
	obj, ok := empty.(client.Object)
	if !ok {
		return nil, fmt.Errorf("bug: %s is not an object", key.kind)
	}
	err = reader.Get(ctx, key.name, obj)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", key.kind.Kind, key.name, err)
	}
	return obj, nil
}

func (a *Applier) write(ctx context.Context, content *unstructured.Unstructured) error {
	kind, name := content.GetKind(), types.NamespacedName{Namespace: content.GetNamespace(), Name: content.GetName()}
	err := a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(content),
		client.FieldOwner(a.FieldOwner), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", kind, name, err)
	}
	return nil
}

// overwrite replaces a typed object by the one in the cluster.
func overwrite(desired, live client.Object) error {
	content, ok := live.(*unstructured.Unstructured)
	if !ok {
		raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
		if err != nil {
			return fmt.Errorf("converting %T: %w", live, err)
		}
		content = &unstructured.Unstructured{Object: raw}
	}
	kind := desired.GetObjectKind().GroupVersionKind()
	reflect.ValueOf(desired).Elem().SetZero()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, desired); err != nil {
		return fmt.Errorf("converting %T: %w", desired, err)
	}
	desired.GetObjectKind().SetGroupVersionKind(kind)
	return nil
}

// toApply returns the object with only the fields that its builder set. A typed object also
// serializes its status, null fields and some empty structs, and the operator would own them if it
// sent them. Other empty maps are kept, because an emptyDir volume is one.
func toApply(obj client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("converting %T: %w", obj, err)
	}
	delete(content, "status")
	dropNoise(content)
	return &unstructured.Unstructured{Object: content}, nil
}

func dropNoise(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, entry := range v {
			if entry == nil || isNoise(key, entry) {
				delete(v, key)
				continue
			}
			dropNoise(entry)
		}
	case []any:
		for _, entry := range v {
			dropNoise(entry)
		}
	}
}

// isNoise reports whether an entry is an empty struct field that the types of Kubernetes always
// serialize.
func isNoise(key string, value any) bool {
	switch key {
	case "strategy", "updateStrategy", "resources", "status", "loadBalancer":
		empty, ok := value.(map[string]any)
		return ok && len(empty) == 0
	case "creationTimestamp":
		return value == ""
	}
	return false
}

type digest [sha256.Size]byte

type objectKey struct {
	kind schema.GroupVersionKind
	name types.NamespacedName
}

// record describes what was applied to an object, and the state of the object afterwards.
type record struct {
	uid     types.UID
	desired digest
	owned   digest
	// version is the resource version afterwards. It is not compared.
	version string
}

// memory contains the last record of each object. It is lost on a restart. Then every object is
// applied once more, which the API server answers without a write if nothing changed.
type memory struct{ sync.Map }

// of returns the record of an object, and reports whether it was applied and not forgotten since.
func (m *memory) of(key objectKey) (record, bool) {
	known, _ := m.Load(key)
	r, ok := known.(record)
	return r, ok
}

func (m *memory) matches(key objectKey, r record) bool {
	old, ok := m.of(key)
	r.version = old.version
	return ok && old == r
}

// behind reports whether an object is older than the last apply. Versions that cannot be compared
// do not count as older.
func (m *memory) behind(key objectKey, seen client.Object) bool {
	old, ok := m.of(key)
	if !ok || old.uid != seen.GetUID() {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(seen.GetResourceVersion(), old.version)
	return err == nil && order < 0
}

// ownedFields returns a hash of the fields that the field owner owns and of the time of its last
// apply. The time shows that another writer with the same name applied other values. An apply that
// changes nothing keeps it. If a cache strips the managed fields, the hash is that of the resource
// version.
func ownedFields(live client.Object, fieldOwner string) digest {
	for _, entry := range live.GetManagedFields() {
		if entry.Manager == fieldOwner && entry.Operation == metav1.ManagedFieldsOperationApply &&
			entry.Subresource == "" && entry.FieldsV1 != nil {
			raw := entry.FieldsV1.GetRawBytes()
			// The API server sorts list keys by their values, with port 80 before 443. An unstructured object
			// sorts them by their text.
			var fields any
			if json.Unmarshal(raw, &fields) == nil {
				raw, _ = json.Marshal(fields) // What was decoded from JSON can always be encoded again.
			}
			return sha256.Sum256(append(raw, ptr.Deref(entry.Time, metav1.Time{}).UTC().String()...))
		}
	}
	return sha256.Sum256([]byte(live.GetResourceVersion()))
}

// Claim defines how an object shows its owner.
type Claim struct {
	// Holds reports whether an object in the cluster has the mark.
	Holds func(live client.Object) bool
	// stamp marks an object that is about to be applied.
	stamp func(obj client.Object) error
	// adopt returns an error if an object that the claim holds must not be written. It may be nil.
	adopt func(ctx context.Context, live client.Object) error
}

// ControlledBy returns a claim to objects in the namespace of their owner. The mark is a controller
// reference. The garbage collector deletes the objects with the owner.
func ControlledBy(owner client.Object, scheme *runtime.Scheme) Claim {
	return Claim{
		Holds: func(live client.Object) bool { return metav1.IsControlledBy(live, owner) },
		stamp: func(obj client.Object) error { return controllerutil.SetControllerReference(owner, obj, scheme) },
	}
}

// ErrOwnerDeleted reports that the owner is being deleted or gone. It must not adopt an object,
// because the garbage collector would delete the object with it.
var ErrOwnerDeleted = errors.New("is not adopted, because its owner is being deleted")

// Adopting returns a claim that extends another one. It also holds an object without a controller
// that has the annotation with the given value: a user who may write the object handed it over.
// Before an object is adopted, confirm reads the owner from the API server and returns
// ErrOwnerDeleted if it must not adopt. A cached owner is not enough: if it was deleted with
// --cascade=orphan, its objects look like ones that were just handed over.
func Adopting(claim Claim, annotation, value string, confirm func(context.Context) error) Claim {
	return Claim{
		Holds: func(live client.Object) bool {
			return claim.Holds(live) ||
				(metav1.GetControllerOf(live) == nil && live.GetAnnotations()[annotation] == value)
		},
		stamp: claim.stamp,
		adopt: func(ctx context.Context, live client.Object) error {
			if claim.Holds(live) {
				return nil
			}
			return confirm(ctx)
		},
	}
}

// MarkedWith returns a claim to objects in other namespaces, to which an owner reference cannot
// point. The marks are labels, and annotations with the uid of the owner.
func MarkedWith(ownerLabels, ownerAnnotations map[string]string) Claim {
	return Claim{
		Holds: func(live client.Object) bool {
			return metav1.GetControllerOf(live) == nil &&
				matches(ownerLabels, live.GetLabels()) && matches(ownerAnnotations, live.GetAnnotations())
		},
		stamp: func(obj client.Object) error {
			obj.SetLabels(labels.Merge(obj.GetLabels(), ownerLabels))
			obj.SetAnnotations(labels.Merge(obj.GetAnnotations(), ownerAnnotations))
			return nil
		},
	}
}

// matches also compares annotations, whose keys have the same form as those of labels.
func matches(wanted, set labels.Set) bool { return labels.ValidatedSetSelector(wanted).Matches(set) }

// NotOwnedError reports that an object with the wanted name belongs to another owner. The object
// was not changed.
type NotOwnedError struct {
	Kind, Namespace, Name string
	// Owner is the controller of the object, for example `Deployment "web"`. It is empty if there
	// is none.
	Owner string
}

func (e *NotOwnedError) Error() string {
	whose := "was not created by this operator for this object"
	if e.Owner != "" {
		whose = "belongs to " + e.Owner
	}
	return fmt.Sprintf("%s %q in namespace %q %s and was not changed; delete or rename one of the two",
		e.Kind, e.Name, e.Namespace, whose)
}

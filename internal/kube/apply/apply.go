package apply

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// ErrTerminating reports that the object is being deleted, so that it cannot be applied until it is
// gone.
var ErrTerminating = errors.New("is being deleted")

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
	if err := claim.Stamp(desired); err != nil {
		return false, fmt.Errorf("claiming %s: %w", client.ObjectKeyFromObject(desired), err)
	}
	content, err := toApply(desired)
	if err != nil {
		return false, err
	}
	// The resource version is a precondition and no part of the content.
	onlyTo := content.GetResourceVersion()
	content.SetResourceVersion("")
	wanted, err := digestOf(content)
	if err != nil {
		return false, fmt.Errorf("serializing %s: %w", client.ObjectKeyFromObject(desired), err)
	}
	key := objectKey{kind: content.GroupVersionKind(), name: client.ObjectKeyFromObject(desired)}

	live, err := a.read(ctx, key, claim)
	if err != nil {
		return false, err
	}
	if live != nil {
		if a.memory.matches(key, record{uid: live.GetUID(), desired: wanted, owned: ownedFields(live, a.FieldOwner)}) {
			return false, overwrite(desired, live)
		}
		if err := mayWrite(ctx, claim, live); err != nil {
			return false, fmt.Errorf("%s %s %w", key.kind.Kind, key.name, err)
		}
		content.SetUID(live.GetUID())
		content.SetResourceVersion(onlyTo)
	}
	if err := a.write(ctx, content); err != nil {
		return false, err
	}
	a.memory.remember(key, record{
		uid: content.GetUID(), desired: wanted, owned: ownedFields(content, a.FieldOwner), version: content.GetResourceVersion(),
	})
	changed := live == nil || live.GetResourceVersion() != content.GetResourceVersion()
	return changed, overwrite(desired, content)
}

// Forget drops the state of an object that was deleted.
func (a *Applier) Forget(obj client.Object) {
	if kind, err := apiutil.GVKForObject(obj, a.Client.Scheme()); err == nil {
		a.memory.forget(objectKey{kind: kind, name: client.ObjectKeyFromObject(obj)})
	}
}

// read returns the existing object, or nil if the API server has none. It returns an error if the
// claim does not hold the object.
func (a *Applier) read(ctx context.Context, key objectKey, claim Claim) (client.Object, error) {
	live, err := a.Client.Scheme().New(key.kind)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", key.kind.Kind, err)
	}
	obj, ok := live.(client.Object)
	if !ok {
		return nil, fmt.Errorf("bug: %s is not an object", key.kind)
	}
	err = a.Client.Get(ctx, key.name, obj)
	// A stale cache may not contain the object, a change of its owner, or the last apply. In the
	// last case it shows the pods of the previous revision as those of the current one.
	if apierrors.IsNotFound(err) || (err == nil && (!claim.Holds(obj) || a.memory.behind(key, obj))) {
		err = a.Live.Get(ctx, key.name, obj)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", key.kind.Kind, key.name, err)
	case !claim.Holds(obj):
		return nil, notOwned(key.kind.Kind, obj)
	case !obj.GetDeletionTimestamp().IsZero():
		return nil, fmt.Errorf("%s %s %w", key.kind.Kind, key.name, ErrTerminating)
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

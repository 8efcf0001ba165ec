package apply

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Claim defines how an object shows its owner.
type Claim interface {
	// Stamp marks an object that is about to be applied.
	Stamp(obj client.Object) error
	// Holds reports whether an object in the cluster has the mark.
	Holds(live client.Object) bool
}

// ControlledBy returns a claim to objects in the namespace of their owner. The mark is a controller
// reference. The garbage collector deletes the objects with the owner.
func ControlledBy(owner client.Object, scheme *runtime.Scheme) Claim {
	return controlled{owner: owner, scheme: scheme}
}

type controlled struct {
	owner  client.Object
	scheme *runtime.Scheme
}

func (c controlled) Stamp(obj client.Object) error {
	return controllerutil.SetControllerReference(c.owner, obj, c.scheme)
}

func (c controlled) Holds(live client.Object) bool {
	return metav1.IsControlledBy(live, c.owner)
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
	return adopting{Claim: claim, annotation: annotation, value: value, confirm: confirm}
}

type adopting struct {
	Claim
	annotation, value string
	confirm           func(context.Context) error
}

// mayWrite returns an error if the object would be adopted and must not be.
func (a adopting) mayWrite(ctx context.Context, live client.Object) error {
	if a.Claim.Holds(live) {
		return nil
	}
	return a.confirm(ctx)
}

// mayWrite returns an error if the claim does not allow writing an object that it holds.
func mayWrite(ctx context.Context, claim Claim, live client.Object) error {
	if a, ok := claim.(adopting); ok {
		return a.mayWrite(ctx, live)
	}
	return nil
}

func (a adopting) Holds(live client.Object) bool {
	return a.Claim.Holds(live) ||
		(metav1.GetControllerOf(live) == nil && live.GetAnnotations()[a.annotation] == a.value)
}

// MarkedWith returns a claim to objects in other namespaces, to which an owner reference cannot
// point. The marks are labels, and annotations with the uid of the owner.
func MarkedWith(ownerLabels, ownerAnnotations map[string]string) Claim {
	return marked{labels: ownerLabels, annotations: ownerAnnotations}
}

type marked struct{ labels, annotations map[string]string }

func (m marked) Stamp(obj client.Object) error {
	obj.SetLabels(labels.Merge(obj.GetLabels(), m.labels))
	obj.SetAnnotations(labels.Merge(obj.GetAnnotations(), m.annotations))
	return nil
}

func (m marked) Holds(live client.Object) bool {
	return metav1.GetControllerOf(live) == nil &&
		matches(m.labels, live.GetLabels()) && matches(m.annotations, live.GetAnnotations())
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

// Error implements error.
func (e *NotOwnedError) Error() string {
	whose := "was not created by this operator for this object"
	if e.Owner != "" {
		whose = "belongs to " + e.Owner
	}
	return fmt.Sprintf("%s %q in namespace %q %s and was not changed; delete or rename one of the two",
		e.Kind, e.Name, e.Namespace, whose)
}

func notOwned(kind string, live client.Object) error {
	e := &NotOwnedError{Kind: kind, Namespace: live.GetNamespace(), Name: live.GetName()}
	if controller := metav1.GetControllerOf(live); controller != nil {
		e.Owner = fmt.Sprintf("%s %q", controller.Kind, controller.Name)
	}
	return e
}

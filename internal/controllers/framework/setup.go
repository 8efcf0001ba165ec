package framework

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	recordsv1alpha1 "github.com/coder-k8s/coder-k8s/api/records/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

const (
	// IndexReferences is the name of the index of custom resources by the Secrets and ConfigMaps
	// that they refer to, as "Secret/<name>".
	IndexReferences = "coder.com/references"
	// IndexControlPlane is the name of the index of custom resources by the control plane that they
	// name.
	IndexControlPlane = ".spec.controlPlaneRef.name"
)

// Registration describes the controller of a kind to SetUp.
type Registration struct {
	Kind Kind
	// Name is the name of the controller in logs and metrics, for example codercontrolplane.
	Name string
	// For is an empty object of the kind.
	For client.Object
	// References returns the Secrets and ConfigMaps whose content an object of the kind depends on.
	// ReferencesOf returns those of its pods.
	References func(client.Object) []resources.Reference
	// ControlPlane returns the control plane that an object of the kind names, or nil. If the
	// function is nil, the kind names none.
	ControlPlane func(client.Object) *coderv1alpha1.ControlPlaneReference
	// ControlPlaneChanges selects the changes of a control plane that affect the objects which name
	// it.
	ControlPlaneChanges []predicate.Predicate
	Reconciler          reconcile.Reconciler
	// Further adds the watches that only this kind needs. It may be nil.
	Further func(*builder.Builder)
}

// SetUp registers the controller of a kind and its watches: the kind itself, the children, the
// metadata of Secrets and ConfigMaps that the object owns or refers to, and the optional kinds as
// they appear. The controller runs on the leader only.
func (t *Toolkit) SetUp(ctx context.Context, mgr manager.Manager, r Registration) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, r.For, IndexReferences, IndexByReferences(r.References)); err != nil {
		return fmt.Errorf("indexing what a %s refers to: %w", r.Kind.Noun, err)
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named(r.Name).
		For(r.For, builder.WithPredicates(t.orphaning.watched(),
			predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Owns(&batchv1.Job{}).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(t.whoseContent(r, resources.KindSecret))).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(t.whoseContent(r, resources.KindConfigMap))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 8,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
				500*time.Millisecond, 30*time.Second),
		})
	for _, child := range Children() {
		b = b.Owns(child)
	}
	// Objects in other namespaces have no owner reference.
	if r.Kind.OwnerLabel != "" {
		b = b.Watches(&rbacv1.Role{}, handler.EnqueueRequestsFromMapFunc(OwnerByLabels(r.Kind)))
		b = b.Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(OwnerByLabels(r.Kind)))
	}
	if r.ControlPlane != nil {
		if err := mgr.GetFieldIndexer().IndexField(ctx, r.For, IndexControlPlane, IndexByControlPlane(r.ControlPlane)); err != nil {
			return fmt.Errorf("indexing each %s by control plane: %w", r.Kind.Noun, err)
		}
		b = b.Watches(&coderv1alpha1.CoderControlPlane{}, handler.EnqueueRequestsFromMapFunc(t.OfControlPlane(r)),
			builder.WithPredicates(r.ControlPlaneChanges...))
	}
	if r.Further != nil {
		r.Further(b)
	}
	c, err := b.Build(t.Traced(r.Kind.Name, r.Reconciler))
	if err != nil {
		return fmt.Errorf("making the controller of %s: %w", r.Kind.Name, err)
	}
	if optional, ok := t.Optional.(*OptionalKinds); ok {
		optional.OnAppear(t.watchOptional(mgr, r, c))
	}
	return nil
}

// ReferencesOf returns the Secrets and ConfigMaps that the pods of a workload refer to.
func ReferencesOf(w resources.Workload) []resources.Reference {
	return resources.References(resources.MergeablePodTemplate(w).Spec)
}

// IndexByReferences returns the keys of an object in IndexReferences.
func IndexByReferences(references func(client.Object) []resources.Reference) client.IndexerFunc {
	return func(obj client.Object) []string {
		var all []string
		for _, reference := range references(obj) {
			all = append(all, reference.Kind+"/"+reference.Name)
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
}

// ReferringTo selects the objects that refer to a Secret or a ConfigMap.
func ReferringTo(kind, name string) client.MatchingFields {
	return client.MatchingFields{IndexReferences: kind + "/" + name}
}

// whoseContent returns a function that maps a Secret or ConfigMap to the objects that own it or
// refer to it.
func (t *Toolkit) whoseContent(r Registration, kind string) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		var requests []reconcile.Request
		if owner := metav1.GetControllerOf(obj); owner != nil && owner.Kind == r.Kind.Name &&
			owner.APIVersion == coderv1alpha1.GroupVersion.String() {
			requests = append(requests, requestFor(obj.GetNamespace(), owner.Name))
		}
		ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("kind", kind, "name", obj.GetName()))
		return append(requests, t.requestsFor(ctx, r, obj.GetNamespace(), ReferringTo(kind, obj.GetName()))...)
	}
}

// OfControlPlane returns a function that maps a control plane to the objects that name it.
func (t *Toolkit) OfControlPlane(r Registration) handler.MapFunc {
	return func(ctx context.Context, cp client.Object) []reconcile.Request {
		ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("controlPlane", cp.GetName()))
		return t.requestsFor(ctx, r, cp.GetNamespace(), client.MatchingFields{IndexControlPlane: cp.GetName()})
	}
}

// requestsFor returns requests for the objects of a kind that an index contains. A watch handler
// cannot return an error, so an error is logged, and the objects are reconciled when they are
// checked again.
func (t *Toolkit) requestsFor(ctx context.Context, r Registration, namespace string, index client.MatchingFields) []reconcile.Request {
	all, err := t.list(ctx, t.Client, r.For, client.InNamespace(namespace), index)
	if err != nil {
		log.FromContext(ctx).Error(err, "Could not list the objects that refer to an object")
		return nil
	}
	var requests []reconcile.Request
	for _, obj := range all {
		requests = append(requests, requestFor(obj.GetNamespace(), obj.GetName()))
	}
	return requests
}

// IndexByControlPlane returns the keys of an object in IndexControlPlane. ref returns the reference
// of an object of the kind.
func IndexByControlPlane(ref func(client.Object) *coderv1alpha1.ControlPlaneReference) client.IndexerFunc {
	return func(obj client.Object) []string {
		if named := ref(obj); named != nil {
			return []string{named.Name}
		}
		return nil
	}
}

// ControlPlane returns the control plane that an object in the namespace names, or nil if there is
// none.
func (t *Toolkit) ControlPlane(ctx context.Context, namespace string, ref *coderv1alpha1.ControlPlaneReference) (*coderv1alpha1.CoderControlPlane, error) {
	if ref == nil {
		return nil, nil
	}
	cp := &coderv1alpha1.CoderControlPlane{}
	err := t.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, cp)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading CoderControlPlane %q: %w", ref.Name, err)
	}
	return cp, nil
}

// OwnerByLabels returns a function that maps an object in any namespace to its owner.
func OwnerByLabels(kind Kind) handler.MapFunc {
	return func(_ context.Context, obj client.Object) []reconcile.Request {
		namespace, name := obj.GetLabels()[kind.OwnerNamespaceLabel], obj.GetLabels()[kind.OwnerLabel]
		if namespace == "" || name == "" {
			return nil
		}
		return []reconcile.Request{requestFor(namespace, name)}
	}
}

func requestFor(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// watchOptional returns a function that watches the children of an optional kind that the cluster
// has begun to serve, and enqueues all objects, because some may wait for that kind.
func (t *Toolkit) watchOptional(mgr manager.Manager, r Registration, c controller.Controller) func(context.Context, schema.GroupVersionKind) error {
	return func(_ context.Context, kind schema.GroupVersionKind) error {
		child := OptionalChildren()[kind]
		owned := handler.TypedEnqueueRequestForOwner[client.Object](mgr.GetScheme(), mgr.GetRESTMapper(), r.For, handler.OnlyControllerOwner())
		if err := c.Watch(source.Kind(mgr.GetCache(), child, owned)); err != nil {
			return fmt.Errorf("watching %s: %w", kind.Kind, err)
		}
		// Enqueueing all objects is cheap and happens once.
		return c.Watch(source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			all, err := t.list(ctx, t.Client, r.For)
			for _, obj := range all {
				queue.Add(requestFor(obj.GetNamespace(), obj.GetName()))
			}
			return err
		}))
	}
}

// CacheOptions restricts a manager's cache to the objects that the operator created. Without it the
// cache holds every Deployment, Service, Role and so on of the cluster. The controllers work with and
// without it, because the API server rejects the creation of an object that exists.
func CacheOptions() cache.Options {
	// The optional kinds are not in ByObject, because the cluster must serve all kinds in it. So every
	// other kind that is read from the cache must be there, with its own selector.
	ours := labels.SelectorFromSet(labels.Set{coderv1alpha1.LabelManagedBy: coderv1alpha1.ManagedBy})
	labelled := cache.ByObject{Label: ours}
	all := cache.ByObject{Label: labels.Everything()}
	// All Secrets and ConfigMaps are cached, but only with the metadata that identifies them.
	bare := cache.ByObject{Label: labels.Everything(), Transform: stripMetadata}
	objects := map[client.Object]cache.ByObject{
		&coderv1alpha1.CoderControlPlane{}:   all,
		&coderv1alpha1.CoderProvisioner{}:    all,
		&coderv1alpha1.CoderTemplateTest{}:   all,
		&coderv1alpha1.CoderWorkspaceProxy{}: all,
		&coderv1alpha1.CoderBackup{}:         all,
		&coderv1alpha1.CoderBackupSchedule{}: all,
		&recordsv1alpha1.CoderMirrorState{}:  all,
		&batchv1.Job{}:                       labelled,
		&rbacv1.Role{}:                       labelled,
		&rbacv1.RoleBinding{}:                labelled,
		&corev1.Secret{}:                     bare,
		&corev1.ConfigMap{}:                  bare,
	}
	for _, child := range Children() {
		objects[child] = labelled
	}
	return cache.Options{DefaultLabelSelector: ours, ByObject: objects}
}

// stripMetadata removes all metadata that does not identify an object. Annotations may repeat the
// content: kubectl apply writes it there. Objects other than PartialObjectMetadata are not changed.
func stripMetadata(in any) (any, error) {
	obj, ok := in.(*metav1.PartialObjectMetadata)
	if !ok {
		return in, nil
	}
	obj.ObjectMeta = metav1.ObjectMeta{
		Name: obj.Name, Namespace: obj.Namespace, UID: obj.UID, ResourceVersion: obj.ResourceVersion,
		Labels: obj.Labels, OwnerReferences: obj.OwnerReferences,
	}
	return obj, nil
}

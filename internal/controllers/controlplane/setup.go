package controlplane

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/access"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply"
)

const (
	// DefaultFieldOwner names the operator in the managed fields of its objects.
	DefaultFieldOwner = "coder-k8s"
	// DefaultConcurrency is how many control planes are reconciled at once.
	DefaultConcurrency = 4

	controllerName = "coder-k8s-controlplane"

	shortestBackoff = 500 * time.Millisecond
	longestBackoff  = 30 * time.Second
)

// Options are what the controller can be told. The zero value works.
type Options struct {
	// Access gets the operator's access to Coder. Nil means an access.Manager with
	// a client of its own, without a cache.
	Access Access
	// Connect reaches a Coder without a token. Nil means package coderd.
	Connect func(url string) (Coder, error)
	// Logs reads the logs of pods. Nil means the API server's.
	Logs PodLogs
	// Clock is the time. Nil means the real one.
	Clock clock.PassiveClock
	// FieldOwner names the operator in managed fields. Empty means coder-k8s.
	FieldOwner string
	// ClusterDomain is the DNS domain of the cluster. Empty means cluster.local.
	ClusterDomain string
	// MaxConcurrentReconciles is how many control planes are reconciled at once. 0
	// means DefaultConcurrency.
	MaxConcurrentReconciles int
}

// New makes the controller of a manager. SetupWithManager starts it with that.
func New(mgr manager.Manager, options Options) (*Reconciler, error) {
	if options.Logs == nil {
		clientset, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
		if err != nil {
			return nil, fmt.Errorf("making a client for logs: %w", err)
		}
		options.Logs = podLogs{client: clientset}
	}
	if options.Access == nil {
		uncached, err := client.New(mgr.GetConfig(), client.Options{
			HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		})
		if err != nil {
			return nil, fmt.Errorf("making a client for operator access: %w", err)
		}
		options.Access = &access.Manager{Client: uncached, Clock: options.Clock}
	}
	return newReconciler(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder(controllerName), options), nil
}

func newReconciler(c client.Client, live client.Reader, recorder events.EventRecorder, options Options) *Reconciler {
	if options.Connect == nil {
		options.Connect = connectToCoder
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.FieldOwner == "" {
		options.FieldOwner = DefaultFieldOwner
	}
	if options.MaxConcurrentReconciles == 0 {
		options.MaxConcurrentReconciles = DefaultConcurrency
	}
	return &Reconciler{
		client: c, live: live, recorder: recorder,
		applier: &apply.Applier{Client: c, Live: live, FieldOwner: options.FieldOwner},
		access:  options.Access, connect: options.Connect, logs: options.Logs, clock: options.Clock,
		clusterDomain: options.ClusterDomain, concurrency: options.MaxConcurrentReconciles,
	}
}

func connectToCoder(url string) (Coder, error) {
	return coderd.New(coderd.Config{URL: url, Timeout: answerTimeout})
}

// SetupWithManager registers the controller and its watches. It runs on the
// leader only. Of Secrets it watches the metadata. Roles and role bindings are
// found by their labels, because those in other namespaces have no owner.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("codercontrolplane").
		For(&coderv1alpha1.CoderControlPlane{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		Owns(&corev1.ServiceAccount{}).
		Owns(&batchv1.Job{}).
		Owns(&corev1.Secret{}, builder.OnlyMetadata).
		Watches(&rbacv1.Role{}, handler.EnqueueRequestsFromMapFunc(ownerByLabels)).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(ownerByLabels)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: r.concurrency,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
				shortestBackoff, longestBackoff),
		}).
		Complete(r)
}

func ownerByLabels(_ context.Context, obj client.Object) []reconcile.Request {
	name := types.NamespacedName{
		Namespace: obj.GetLabels()[coderv1alpha1.LabelControlPlaneNamespace],
		Name:      obj.GetLabels()[coderv1alpha1.LabelControlPlane],
	}
	if name.Namespace == "" || name.Name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: name}}
}

// CacheByObject restricts a manager's cache to the objects that the operator
// made: without it the cache holds every Deployment, Service, Role and so on of
// the cluster. The controller works with and without it, because it believes
// only the API server that an object does not exist.
func CacheByObject() map[client.Object]cache.ByObject {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{coderv1alpha1.LabelManagedBy: coderv1alpha1.ManagedBy})}
	return map[client.Object]cache.ByObject{
		&appsv1.Deployment{}:     ours,
		&corev1.Service{}:        ours,
		&corev1.ServiceAccount{}: ours,
		&corev1.Secret{}:         ours,
		&batchv1.Job{}:           ours,
		&rbacv1.Role{}:           ours,
		&rbacv1.RoleBinding{}:    ours,
	}
}

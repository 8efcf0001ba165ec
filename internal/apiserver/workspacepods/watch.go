package workspacepods

import (
	"context"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// askAgain is the interval of checks for permission to read the pods of a namespace.
const askAgain = time.Minute

// watch watches the pods of a namespace until the context is canceled.
func (w *Watcher) watch(ctx context.Context, name string) {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("namespace", name))
	n := &namespace{name: name, pods: map[string]*record{}, groups: map[uuid.UUID]*group{}}
	w.mu.Lock()
	w.pods[name] = n
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.pods[name] == n {
			delete(w.pods, name)
		}
	}()
	if !w.mayRead(ctx, n) {
		return
	}
	pods := w.config.Client.CoreV1().Pods(name)
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = aggregationv1alpha1.LabelWorkspaceID
			return pods.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = aggregationv1alpha1.LabelWorkspaceID
			return pods.Watch(ctx, options)
		},
	}, w.config.Client)
	reflector := cache.NewReflectorWithOptions(source, &corev1.Pod{}, &sink{w, n},
		cache.ReflectorOptions{Name: "pods of workspaces", TypeDescription: "Pod"})
	reflector.RunWithContext(ctx)
}

// mayRead waits until there is permission to read the pods of a namespace. A reflector would log an
// error every few seconds instead.
func (w *Watcher) mayRead(ctx context.Context, n *namespace) bool {
	for reported := false; ; {
		_, err := w.config.Client.CoreV1().Pods(n.name).List(ctx, metav1.ListOptions{LabelSelector: aggregationv1alpha1.LabelWorkspaceID, Limit: 1})
		if !apierrors.IsForbidden(err) {
			return ctx.Err() == nil
		}
		if !reported {
			log.FromContext(ctx).Info("No permission to read pods, so workspaces do not report problems of their pods", "error", err.Error())
			reported = true
		}
		w.setRead(n)
		select {
		case <-ctx.Done():
			return false
		case <-w.config.Clock.After(askAgain):
		}
	}
}

// stripped returns a pod with only the fields that determine its problem.
func stripped(pod *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: pod.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
			Labels: map[string]string{aggregationv1alpha1.LabelWorkspaceID: pod.Labels[aggregationv1alpha1.LabelWorkspaceID]},
		},
		Spec: corev1.PodSpec{
			NodeName: pod.Spec.NodeName, Containers: images(pod.Spec.Containers), InitContainers: images(pod.Spec.InitContainers),
		},
		Status: corev1.PodStatus{
			Phase: pod.Status.Phase, Reason: pod.Status.Reason, Message: pod.Status.Message, Conditions: pod.Status.Conditions,
			InitContainerStatuses: pod.Status.InitContainerStatuses, ContainerStatuses: pod.Status.ContainerStatuses,
		},
	}
}

func images(containers []corev1.Container) []corev1.Container {
	var all []corev1.Container
	for i := range containers {
		all = append(all, corev1.Container{Name: containers[i].Name, Image: containers[i].Image})
	}
	return all
}

// sink stores the pods of a reflector in a namespace.
type sink struct {
	watcher   *Watcher
	namespace *namespace
}

var _ cache.TransformingStore = (*sink)(nil)

// Transformer implements cache.TransformingStore. The reflector keeps all pods until it has read the
// last one.
func (*sink) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		if pod, ok := obj.(*corev1.Pod); ok {
			return stripped(pod), nil
		}
		return obj, nil
	}
}

// Add implements cache.ReflectorStore.
func (s *sink) Add(obj any) error { return s.Update(obj) }

// Resync implements cache.ReflectorStore.
func (*sink) Resync() error { return nil }

// Update implements cache.ReflectorStore.
func (s *sink) Update(obj any) error {
	s.change(func(now time.Time) []uuid.UUID {
		if pod, ok := obj.(*corev1.Pod); ok {
			return s.namespace.put(pod, now)
		}
		return nil
	})
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *sink) Delete(obj any) error {
	s.change(func(now time.Time) []uuid.UUID {
		if pod, ok := obj.(*corev1.Pod); ok {
			return s.namespace.remove(pod.Name, "is gone", now)
		}
		return nil
	})
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *sink) Replace(objs []any, _ string) error {
	s.change(func(now time.Time) []uuid.UUID {
		var changed []uuid.UUID
		there := make(map[string]bool, len(objs))
		for _, obj := range objs {
			if pod, ok := obj.(*corev1.Pod); ok {
				there[pod.Name] = true
				// A new pod without a problem is not reported.
				known := s.namespace.pods[pod.Name] != nil
				ids := s.namespace.put(pod, now)
				r := s.namespace.pods[pod.Name]
				if known || r != nil && r.problem != nil {
					changed = append(changed, ids...)
				} else if r != nil {
					s.namespace.groups[r.workspace].changed = time.Time{}
				}
			}
		}
		for name := range s.namespace.pods {
			if !there[name] {
				changed = append(changed, s.namespace.remove(name, "is gone", now)...)
			}
		}
		return changed
	})
	s.watcher.setRead(s.namespace)
	return nil
}

// change modifies the namespace while holding the lock, and reports the changes after releasing it.
func (s *sink) change(make func(now time.Time) []uuid.UUID) {
	s.watcher.mu.Lock()
	changed := make(s.watcher.config.Clock.Now())
	s.watcher.mu.Unlock()
	s.watcher.report(s.namespace.name, changed)
}

package apiserver

import (
	"context"
	"errors"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/flowcontrol"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// informerFactory creates the informers that this server and the library need. The factory of client-go refers to the
// informers and clients of all Kubernetes resources, and makes the program 5.6 MB larger.
type informerFactory struct {
	// SharedInformerFactory is nil. It declares the groups and methods that neither this server nor the library calls.
	informers.SharedInformerFactory

	client    kubernetes.Interface
	mu        sync.Mutex
	informers map[reflect.Type]cache.SharedIndexInformer
	started   map[reflect.Type]bool
}

func newInformerFactory(client kubernetes.Interface) *informerFactory {
	return &informerFactory{
		client: client, informers: map[reflect.Type]cache.SharedIndexInformer{}, started: map[reflect.Type]bool{},
	}
}

// Admissionregistration, Core and Flowcontrol return the informers of a group.
func (f *informerFactory) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(f, metav1.NamespaceAll, nil)
}

func (f *informerFactory) Core() core.Interface { return core.New(f, metav1.NamespaceAll, nil) }

func (f *informerFactory) Flowcontrol() flowcontrol.Interface {
	return flowcontrol.New(f, metav1.NamespaceAll, nil)
}

// ForResource returns an error. The library calls it for the parameters of an admission policy. After the error it uses a
// dynamic informer, as it does for custom resources.
func (*informerFactory) ForResource(schema.GroupVersionResource) (informers.GenericInformer, error) {
	return nil, errors.New("there are no informers by resource")
}

// InformerFor returns the informer of the type of an object. It creates the informer on the first call.
func (f *informerFactory) InformerFor(object runtime.Object, create internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	kind := reflect.TypeOf(object)
	if f.informers[kind] == nil {
		f.informers[kind] = create(f.client, resync)
	}
	return f.informers[kind]
}

// InformerName returns nil, so no metrics of the informers are recorded.
func (*informerFactory) InformerName() *cache.InformerName { return nil }

// Start starts the informers that are not running.
func (f *informerFactory) Start(stop <-chan struct{}) {
	f.StartWithContext(wait.ContextForChannel(stop))
}

// StartWithContext starts the informers that are not running.
func (f *informerFactory) StartWithContext(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for kind, informer := range f.informers {
		if !f.started[kind] {
			f.started[kind] = true
			go informer.RunWithContext(ctx)
		}
	}
}

// WaitForCacheSync reports whether the caches of the running informers are filled. It does not wait: it is for /readyz of the
// library.
func (f *informerFactory) WaitForCacheSync(<-chan struct{}) map[reflect.Type]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	filled := map[reflect.Type]bool{}
	for kind := range f.started {
		filled[kind] = f.informers[kind].HasSynced()
	}
	return filled
}

// synced waits until the caches of the informers are filled. It reports false if the context ended before.
func (f *informerFactory) synced(ctx context.Context) bool {
	f.mu.Lock()
	var filled []cache.DoneChecker
	for _, informer := range f.informers {
		filled = append(filled, informer.HasSyncedChecker())
	}
	f.mu.Unlock()
	return cache.WaitFor(ctx, "", filled...)
}

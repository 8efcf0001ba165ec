package controllertest

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// interceptors returns interceptors that record every write and apply the fault to it.
func (f *Fixture[O]) interceptors() interceptor.Funcs {
	write := func(verb string, obj client.Object, do func() error) error {
		return f.record(verb, obj, f.Fault.Around(do))
	}
	return interceptor.Funcs{
		// client-go sends no request for a name that is invalid in a path.
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if strings.Contains(key.Name, "/") {
				return fmt.Errorf("invalid resource name %q", key.Name)
			}
			return c.Get(ctx, key, obj, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			f.giveUID(obj)
			return write("create", obj, func() error { return c.Create(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return write("update", obj, func() error { return c.Update(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return f.record("delete", obj, f.Fault.AroundDeletion(func() error { return c.Delete(ctx, obj, opts...) }, opts...))
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return write("patch", obj, func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return write("patch "+sub, obj, func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, applied runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			obj, ok := applied.(client.Object)
			if !ok {
				return fmt.Errorf("%T is not an object", applied)
			}
			if f.RejectApply != nil {
				if err := f.RejectApply(obj); err != nil {
					return err
				}
			}
			return write("apply", obj, func() error { return kubetest.Apply(ctx, c, applied, opts...) })
		},
	}
}

// record records a write as "verb Kind namespace/name". It returns the error of the write.
func (f *Fixture[O]) record(verb string, obj client.Object, err error) error {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if known, err := apiutil.GVKForObject(obj, f.Cluster.Scheme()); err == nil {
		kind = known.Kind
	}
	if f.AfterWrite != nil {
		f.AfterWrite()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes = append(f.writes, fmt.Sprintf("%s %s %s/%s", verb, kind, obj.GetNamespace(), obj.GetName()))
	return err
}

// giveUID sets the uid of a new object like an API server.
func (f *Fixture[O]) giveUID(obj client.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if obj.GetUID() == "" {
		f.uids++
		obj.SetUID(types.UID(fmt.Sprintf("uid-%d", f.uids)))
	}
}

// Events records Events as "type reason: note". It implements events.EventRecorder.
type Events struct {
	mu  sync.Mutex
	all []string
}

// Eventf implements events.EventRecorder.
func (e *Events) Eventf(_, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, eventType+" "+reason+": "+fmt.Sprintf(note, args...))
}

// All returns all Events.
func (e *Events) All() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.all...)
}

// Count returns the number of Events that begin with a text.
func (e *Events) Count(prefix string) int {
	n := 0
	for _, event := range e.All() {
		if strings.HasPrefix(event, prefix) {
			n++
		}
	}
	return n
}

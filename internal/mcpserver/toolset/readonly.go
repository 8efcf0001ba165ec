package toolset

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

// errReadsOnly is the error of every write through a read-only client.
var errReadsOnly = errors.New("this client only reads")

// readsOnly returns a client that rejects all writes, including dry runs. Tools that read
// use it, so that a mistake in one of them cannot change anything. Exec is not restricted,
// because files in workspaces are read by commands.
func readsOnly(kube *callers.Kube) *callers.Kube {
	return &callers.Kube{WithWatch: &reader{kube: kube.WithWatch}, Raw: kube.Raw, Exec: kube.Exec}
}

// reader embeds no client, so new methods of the interface cannot bypass the check.
type reader struct{ kube client.WithWatch }

var _ client.WithWatch = (*reader)(nil)

func (r *reader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return r.kube.Get(ctx, key, obj, opts...)
}

func (r *reader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return r.kube.List(ctx, list, opts...)
}

func (r *reader) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	return r.kube.Watch(ctx, list, opts...)
}

func (r *reader) Scheme() *runtime.Scheme     { return r.kube.Scheme() }
func (r *reader) RESTMapper() meta.RESTMapper { return r.kube.RESTMapper() }

func (r *reader) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	return r.kube.GroupVersionKindFor(obj)
}

func (r *reader) IsObjectNamespaced(obj runtime.Object) (bool, error) {
	return r.kube.IsObjectNamespaced(obj)
}

func (r *reader) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errReadsOnly
}

func (r *reader) Create(context.Context, client.Object, ...client.CreateOption) error {
	return errReadsOnly
}

func (r *reader) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return errReadsOnly
}

func (r *reader) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return errReadsOnly
}

func (r *reader) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errReadsOnly
}

func (r *reader) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errReadsOnly
}

func (r *reader) Status() client.SubResourceWriter { return r.SubResource("status") }

func (r *reader) SubResource(name string) client.SubResourceClient {
	return &subresourceReader{kube: r.kube.SubResource(name)}
}

type subresourceReader struct{ kube client.SubResourceReader }

func (r *subresourceReader) Get(ctx context.Context, obj, subresource client.Object, opts ...client.SubResourceGetOption) error {
	return r.kube.Get(ctx, obj, subresource, opts...)
}

func (r *subresourceReader) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return errReadsOnly
}

func (r *subresourceReader) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return errReadsOnly
}

func (r *subresourceReader) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return errReadsOnly
}

func (r *subresourceReader) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errReadsOnly
}

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
	return &callers.Kube{WithWatch: &reader{kube.WithWatch, kube.WithWatch}, Raw: kube.Raw, Exec: kube.Exec}
}

// readMethods are the methods of a client that change nothing.
type readMethods interface {
	client.Reader
	Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error)
	Scheme() *runtime.Scheme
	RESTMapper() meta.RESTMapper
	GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error)
	IsObjectNamespaced(obj runtime.Object) (bool, error)
}

// reader embeds no client, so new methods of the interface cannot bypass the check.
type reader struct {
	readMethods
	subresources client.SubResourceClientConstructor
}

var _ client.WithWatch = (*reader)(nil)

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
	return &subresourceReader{r.subresources.SubResource(name)}
}

type subresourceReader struct{ client.SubResourceReader }

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

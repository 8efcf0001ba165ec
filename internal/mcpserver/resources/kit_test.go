package resources

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// world is a fake API with objects and raw responses.
type world struct {
	ctx   context.Context
	funcs interceptor.Funcs
	// raw contains responses by path.
	raw     map[string]string
	objects []client.Object
	clock   *clocktesting.FakeClock
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	return &world{
		ctx: request.WithUser(t.Context(), &user.DefaultInfo{Name: "ada"}), raw: map[string]string{}, objects: objects,
		clock: clocktesting.NewFakeClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)),
	}
}

// Get is callers.Kube.Raw.
func (w *world) Get(_ context.Context, path string, _ url.Values) (io.ReadCloser, error) {
	if body, ok := w.raw[path]; ok {
		return io.NopCloser(strings.NewReader(body)), nil
	}
	return nil, notFound("raw", path)
}

// knownKinds are the kinds of the fake cluster.
var knownKinds = kubetest.KindsOf(coderv1alpha1.AddToScheme, aggregationv1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme)

func (w *world) resources(t *testing.T) *Resources {
	t.Helper()
	builder := knownKinds.Cluster(t).WithObjects(w.objects...).WithInterceptorFuncs(w.funcs)
	for _, kind := range []client.Object{&coderv1alpha1.CoderControlPlane{}, &aggregationv1alpha1.CoderWorkspace{}, &aggregationv1alpha1.CoderTemplate{}} {
		builder = builder.WithIndex(kind, metav1.ObjectNameField, func(o client.Object) []string { return []string{o.GetName()} })
	}
	r := New(&callers.Kube{WithWatch: builder.Build(), Raw: w.Get}, w.clock)
	r.jitter = func(time.Duration) time.Duration { return 0 }
	return r
}

// read reads a resource over the protocol.
func (w *world) read(t *testing.T, uri string) (*mcp.ResourceContents, error) {
	t.Helper()
	session := w.connect(t)
	result, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		return nil, err
	}
	if len(result.Contents) != 1 || result.Contents[0].URI != uri {
		t.Fatalf("%s: contents %+v", uri, result.Contents)
	}
	return result.Contents[0], nil
}

// connect connects a client to a server with the resources.
func (w *world) connect(t *testing.T) *mcp.ClientSession {
	t.Helper()
	r := w.resources(t)
	caller, _ := request.UserFrom(w.ctx)
	server := mcptest.NewServer(caller, &mcp.ServerOptions{CompletionHandler: r.Complete})
	r.Register(server)
	return mcptest.Connect(t, server, nil, nil)
}

// readJSON reads a JSON resource, and checks and removes its mark.
func (w *world) readJSON(t *testing.T, uri string) map[string]any {
	t.Helper()
	contents, err := w.read(t, uri)
	if err != nil {
		t.Fatalf("%s: %v", uri, err)
	}
	if contents.MIMEType != "application/json" {
		t.Errorf("%s is %s", uri, contents.MIMEType)
	}
	var out map[string]any
	if err := json.Unmarshal([]byte(contents.Text), &out); err != nil {
		t.Fatalf("%s: %v: %s", uri, err, contents.Text)
	}
	if out["untrusted"] != toolset.Untrusted {
		t.Errorf("%s is not marked as data: %.200s", uri, contents.Text)
	}
	delete(out, "untrusted")
	return out
}

// isMissing reports whether the error is ResourceNotFoundError.
func isMissing(err error) bool {
	var rpc *jsonrpc.Error
	return errors.As(err, &rpc) && rpc.Code == jsonrpc.CodeInvalidParams && rpc.Message == "Resource not found"
}

func notFound(resource, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, name)
}

func forbidden(resource, name string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: "coder.com", Resource: resource}, name,
		errors.New(`User "ada" cannot do this`))
}

func newControlPlane(namespace, name string) *coderv1alpha1.CoderControlPlane {
	return &coderv1alpha1.CoderControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func newWorkspace(namespace, name string) *aggregationv1alpha1.CoderWorkspace {
	return &aggregationv1alpha1.CoderWorkspace{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func newTemplate(namespace, name string, files map[string]string) *aggregationv1alpha1.CoderTemplate {
	return &aggregationv1alpha1.CoderTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       aggregationv1alpha1.CoderTemplateSpec{Files: files},
	}
}

// packed returns a tar archive.
func packed(t *testing.T, names []string, files map[string]string) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range names {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(files[name]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/google/uuid"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// logREST is the log of a build of a workspace.
type logREST struct {
	store Store
	kind  *Kind
}

var (
	_ rest.GetterWithOptions = (*logREST)(nil)
	_ rest.StorageMetadata   = (*logREST)(nil)
)

// New implements rest.Storage.
func (*logREST) New() runtime.Object { return &aggregationv1alpha1.CoderWorkspace{} }

// Destroy implements rest.Storage.
func (*logREST) Destroy() {}

// NewGetOptions implements rest.GetterWithOptions.
func (*logREST) NewGetOptions() (runtime.Object, bool, string) {
	return &aggregationv1alpha1.CoderWorkspaceLogOptions{}, false, ""
}

// ProducesMIMETypes implements rest.StorageMetadata.
func (*logREST) ProducesMIMETypes(string) []string { return []string{"text/plain"} }

// ProducesObject implements rest.StorageMetadata.
func (*logREST) ProducesObject(string) any { return "" }

// Get implements rest.GetterWithOptions.
func (r *logREST) Get(ctx context.Context, name string, options runtime.Object) (runtime.Object, error) {
	asked, ok := options.(*aggregationv1alpha1.CoderWorkspaceLogOptions)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the options are a %T, want CoderWorkspaceLogOptions", options))
	}
	obj, err := r.store.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	ws, ok := obj.(*aggregationv1alpha1.CoderWorkspace)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("%T is no CoderWorkspace", obj))
	}
	return r.kind.openLog(ctx, ws, asked)
}

func (k *Kind) openLog(
	ctx context.Context, ws *aggregationv1alpha1.CoderWorkspace, asked *aggregationv1alpha1.CoderWorkspaceLogOptions,
) (*buildLog, error) {
	connection, id, err := k.locate(ctx, ws)
	if err != nil {
		return nil, err
	}
	build, err := findBuild(ctx, connection.Client, id, asked.Build)
	if err != nil {
		return nil, fault(ws.Name, err)
	}
	lines, err := connection.Client.BuildLogs(ctx, build, asked.After, asked.Follow)
	if err != nil {
		return nil, fault(ws.Name, err)
	}
	return &buildLog{lines: lines, flush: asked.Follow}, nil
}

// findBuild finds a build of the workspace by its number. The newest one is asked
// of Coder, because the object may be older.
func findBuild(ctx context.Context, client *coderd.Client, workspace uuid.UUID, number int32) (uuid.UUID, error) {
	w, err := client.Workspace(ctx, workspace)
	if err != nil {
		return uuid.Nil, err
	}
	if number == 0 || number == w.LatestBuild.Number {
		return w.LatestBuild.ID, nil
	}
	missing := apierrors.NewBadRequest(fmt.Sprintf("build=%d: the workspace has builds 1 to %d", number, w.LatestBuild.Number))
	if number < 0 || number > w.LatestBuild.Number {
		return uuid.Nil, missing
	}
	build, err := client.WorkspaceBuildByNumber(ctx, w, number)
	if coderd.IsNotFound(err) {
		return uuid.Nil, missing
	}
	return build.ID, err
}

// buildLog is an answer that is a stream of text. It is no object of the API.
type buildLog struct {
	lines *coderd.LogStream
	flush bool
}

var _ rest.ResourceStreamer = (*buildLog)(nil)

// GetObjectKind implements runtime.Object.
func (*buildLog) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. A stream is never copied.
func (l *buildLog) DeepCopyObject() runtime.Object { return l }

// InputStream implements rest.ResourceStreamer.
func (l *buildLog) InputStream(ctx context.Context, _, _ string) (io.ReadCloser, bool, string, error) {
	reader := &lineReader{
		next:  func() (coderd.LogLine, error) { return l.lines.Next(ctx) },
		close: l.lines.Close,
		gone:  func() bool { return ctx.Err() != nil },
	}
	return reader, l.flush, "text/plain; charset=utf-8", nil
}

// lineReader writes the lines of a log as text, one by one as they come.
type lineReader struct {
	next  func() (coderd.LogLine, error)
	close func() error
	// gone says that nobody reads any more.
	gone func() bool
	rest []byte
	err  error
}

// Read implements io.Reader.
func (r *lineReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		line, err := r.next()
		switch {
		case err == nil:
			r.rest = formatLine(line)
		case errors.Is(err, io.EOF), r.gone():
			r.err = io.EOF
		default:
			// The answer has begun, so this is the only place to tell it.
			r.rest, r.err = []byte("the log cannot be read further: "+err.Error()+"\n"), io.EOF
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (r *lineReader) Close() error { return r.close() }

// formatLine is the time, the stage and the output, which may have more lines.
func formatLine(line coderd.LogLine) []byte {
	begin := line.CreatedAt.UTC().Format(time.RFC3339Nano) + " [" + line.Stage + "] "
	var out strings.Builder
	for text := range strings.Lines(line.Output + "\n") {
		out.WriteString(begin)
		out.WriteString(strings.TrimRight(text, "\r\n"))
		out.WriteString("\n")
	}
	return []byte(out.String())
}

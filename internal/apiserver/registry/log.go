package registry

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// logMediaType is the media type of a log, without parameters.
const logMediaType = "text/plain"

// LogLines returns the lines of a log in order. coderd.LogStream implements it.
type LogLines interface {
	// Next waits for the next line. It returns io.EOF after the last one.
	Next(ctx context.Context) (coderd.LogLine, error)
	Close() error
}

// LogStream is a response that streams the text of a log. It is not an object of the API.
type LogStream struct {
	lines LogLines
	flush bool
}

var (
	_ rest.ResourceStreamer = (*LogStream)(nil)
	_ LogLines              = (*coderd.LogStream)(nil)
)

// NewLogStream returns a LogStream of the lines, which it closes. If follow is set, each line is
// flushed at once.
func NewLogStream(lines LogLines, follow bool) *LogStream {
	return &LogStream{lines: lines, flush: follow}
}

// GetObjectKind implements runtime.Object.
func (*LogStream) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. A stream is never copied.
func (s *LogStream) DeepCopyObject() runtime.Object { return s }

// InputStream implements rest.ResourceStreamer.
func (s *LogStream) InputStream(ctx context.Context, _, _ string) (io.ReadCloser, bool, string, error) {
	return &logReader{LogLines: s.lines, ctx: ctx}, s.flush, logMediaType + "; charset=utf-8", nil
}

// logReader formats the lines of a log as text as they arrive.
type logReader struct {
	LogLines
	// ctx ends when the client has disconnected.
	ctx  context.Context //nolint:containedctx // Read has no context.
	rest []byte
	err  error
}

// Read implements io.Reader.
func (r *logReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		line, err := r.Next(r.ctx)
		switch {
		case err == nil:
			r.rest = formatLine(line)
		case errors.Is(err, io.EOF), r.ctx.Err() != nil:
			r.err = io.EOF
		default:
			// The response has begun, so the error can only be reported in the text.
			r.rest, r.err = []byte("the rest of the log cannot be read: "+err.Error()+"\n"), io.EOF
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// formatLine prefixes each line of the output with the time and the stage.
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

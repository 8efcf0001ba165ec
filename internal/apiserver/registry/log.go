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

// logReader formats the entries of a log as text as they arrive, line by line: the text of one entry
// may be much larger than the entry, because each of its lines gets the prefix.
type logReader struct {
	LogLines
	// ctx ends when the client has disconnected.
	ctx context.Context //nolint:containedctx // Read has no context.
	// prefix and output are the time and stage of the current entry, and those of its lines that were
	// not formatted yet. more reports whether there are any; an empty output has one line.
	prefix, output string
	more           bool
	// rest is the part of the current line that was not returned yet.
	rest []byte
	err  error
}

// Read implements io.Reader.
func (r *logReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.readLine()
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// readLine formats the next line. It waits for an entry if the current one has no more lines.
func (r *logReader) readLine() {
	if !r.more {
		entry, err := r.Next(r.ctx)
		switch {
		case err == nil:
			r.prefix, r.output = entry.CreatedAt.UTC().Format(time.RFC3339Nano)+" ["+entry.Stage+"] ", entry.Output
		case errors.Is(err, io.EOF), r.ctx.Err() != nil:
			r.err = io.EOF
			return
		default:
			// The response has begun, so the error can only be reported in the text.
			r.rest, r.err = []byte("the rest of the log cannot be read: "+err.Error()+"\n"), io.EOF
			return
		}
	}
	var text string
	text, r.output, r.more = strings.Cut(r.output, "\n")
	r.rest = []byte(r.prefix + strings.TrimRight(text, "\r") + "\n")
}

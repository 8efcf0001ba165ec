package buildlog

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

// MediaType is the media type of the response, without parameters.
const MediaType = "text/plain"

// Lines returns the lines of a log in order. coderd.LogStream implements it.
type Lines interface {
	// Next waits for the next line. It returns io.EOF after the last one.
	Next(ctx context.Context) (coderd.LogLine, error)
	Close() error
}

// Stream is a response that streams text. It is not an object of the API.
type Stream struct {
	lines Lines
	flush bool
}

var (
	_ rest.ResourceStreamer = (*Stream)(nil)
	_ Lines                 = (*coderd.LogStream)(nil)
)

// New returns a Stream of the lines, which it closes. If follow is set, each line is flushed at
// once.
func New(lines Lines, follow bool) *Stream { return &Stream{lines: lines, flush: follow} }

// GetObjectKind implements runtime.Object.
func (*Stream) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. A stream is never copied.
func (s *Stream) DeepCopyObject() runtime.Object { return s }

// InputStream implements rest.ResourceStreamer.
func (s *Stream) InputStream(ctx context.Context, _, _ string) (io.ReadCloser, bool, string, error) {
	lines := &reader{
		next:  func() (coderd.LogLine, error) { return s.lines.Next(ctx) },
		close: s.lines.Close,
		gone:  func() bool { return ctx.Err() != nil },
	}
	return lines, s.flush, MediaType + "; charset=utf-8", nil
}

// reader formats the lines of a log as text as they arrive.
type reader struct {
	next  func() (coderd.LogLine, error)
	close func() error
	// gone reports whether the client has disconnected.
	gone func() bool
	rest []byte
	err  error
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
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
			// The response has begun, so the error can only be reported in the text.
			r.rest, r.err = []byte("the log cannot be read further: "+err.Error()+"\n"), io.EOF
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (r *reader) Close() error { return r.close() }

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

package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// Store is the storage that subresources use.
type Store interface {
	rest.Getter
	Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
		updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error)
}

var _ Store = (*REST)(nil)

// Body implements rest.Storage for a subresource. It returns a new object of the type of the body.
type Body func() runtime.Object

// New implements rest.Storage.
func (b Body) New() runtime.Object { return b() }

// Destroy implements rest.Storage.
func (Body) Destroy() {}

// OptionsOf is a pointer to the options of a subresource.
type OptionsOf[O any] interface {
	*O
	runtime.Object
}

// OptionsGetter implements a subresource that is read, with query parameters.
type OptionsGetter[O any, P OptionsOf[O]] struct {
	Body
	read func(ctx context.Context, name string, options P) (runtime.Object, error)
}

// NewOptionsGetter returns a subresource that is read with a function. Object returns a new object
// of the type of the response.
func NewOptionsGetter[O any, P OptionsOf[O]](
	object func() runtime.Object, read func(ctx context.Context, name string, options P) (runtime.Object, error),
) *OptionsGetter[O, P] {
	return &OptionsGetter[O, P]{object, read}
}

// NewGetOptions implements rest.GetterWithOptions.
func (*OptionsGetter[O, P]) NewGetOptions() (runtime.Object, bool, string) {
	return P(new(O)), false, ""
}

// Get implements rest.GetterWithOptions.
func (g *OptionsGetter[O, P]) Get(ctx context.Context, name string, options runtime.Object) (_ runtime.Object, err error) {
	defer coderfault.Name(ctx, &err)
	asked, ok := options.(P)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the options are a %T, want %T", options, asked))
	}
	return g.read(ctx, name, asked)
}

const (
	// maxLogs limits the logs of one kind that are read at once. Requests for logs count in no limit
	// of kube-apiserver or of its library.
	maxLogs = 500
	// logRetryAfter is the Retry-After of a rejected request, in seconds.
	logRetryAfter = 5
)

// LogGetter is an OptionsGetter whose response is a LogStream.
type LogGetter[O any, P OptionsOf[O]] struct {
	*OptionsGetter[O, P]
	reading chan struct{}
}

// NewLogGetter returns the subresource log of a resource.
func NewLogGetter[O any, P OptionsOf[O]](
	object func() runtime.Object, read func(ctx context.Context, name string, options P) (runtime.Object, error),
) *LogGetter[O, P] {
	return &LogGetter[O, P]{NewOptionsGetter(object, read), make(chan struct{}, maxLogs)}
}

// Get implements rest.GetterWithOptions. The log counts until the request ends.
func (g *LogGetter[O, P]) Get(ctx context.Context, name string, options runtime.Object) (runtime.Object, error) {
	select {
	case g.reading <- struct{}{}:
		context.AfterFunc(ctx, func() { <-g.reading })
		return g.OptionsGetter.Get(ctx, name, options)
	default:
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("%d logs are being read, which is the limit of this server; try again later", maxLogs), logRetryAfter)
	}
}

// ProducesMIMETypes implements rest.StorageMetadata.
func (*LogGetter[O, P]) ProducesMIMETypes(string) []string { return []string{logMediaType} }

// ProducesObject implements rest.StorageMetadata.
func (*LogGetter[O, P]) ProducesObject(string) any { return "" }

var (
	_ rest.GetterWithOptions = (*LogGetter[metav1.ListOptions, *metav1.ListOptions])(nil)
	_ rest.StorageMetadata   = (*LogGetter[metav1.ListOptions, *metav1.ListOptions])(nil)
)

// AddOptions registers the conversion of the query of a subresource to its options. The parameters
// have the names of the fields in JSON.
func AddOptions[O any](s *runtime.Scheme) error {
	return s.AddConversionFunc((*url.Values)(nil), (*O)(nil), func(query, options any, _ conversion.Scope) error {
		return readQuery(*query.(*url.Values), reflect.ValueOf(options).Elem())
	})
}

// readQuery sets the fields whose parameters are set. For an invalid value it returns 400 with the
// name of the parameter.
func readQuery(query url.Values, options reflect.Value) error {
	for i := range options.NumField() {
		name, _, _ := strings.Cut(options.Type().Field(i).Tag.Get("json"), ",")
		field, text := options.Field(i), query.Get(name)
		if name == "" || text == "" && field.Kind() != reflect.Slice {
			continue
		}
		var err error
		want := ""
		switch field.Kind() {
		case reflect.Slice:
			field.Set(reflect.ValueOf(query[name]))
		case reflect.Bool:
			var value bool
			value, err = strconv.ParseBool(text)
			field.SetBool(value)
			want = "true or false"
		case reflect.Int32, reflect.Int64:
			var value int64
			value, err = strconv.ParseInt(text, 10, field.Type().Bits())
			field.SetInt(value)
			want = "an integer"
		default:
			field.SetString(text)
		}
		if err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("%s is %q, and must be %s", name, text, want))
		}
	}
	return nil
}

// BodyOf returns the body of a request to create something with a subresource. It must have the
// type B, and the name in the address if it has one. validate may be nil.
func BodyOf[B metav1.Object](ctx context.Context, name string, body runtime.Object, validate rest.ValidateObjectFunc) (B, error) {
	asked, ok := body.(B)
	if !ok {
		return asked, apierrors.NewBadRequest(fmt.Sprintf("the body is a %T, want a %T", body, asked))
	}
	if asked.GetName() != "" && asked.GetName() != name {
		return asked, apierrors.NewBadRequest(fmt.Sprintf("metadata.name is %q in the body, and %q in the address", asked.GetName(), name))
	}
	if validate != nil {
		return asked, validate(ctx, body.DeepCopyObject())
	}
	return asked, nil
}

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
		if !r.more {
			// The current entry has no more lines.
			entry, err := r.Next(r.ctx)
			switch {
			case err == nil:
				r.prefix, r.output = entry.CreatedAt.UTC().Format(time.RFC3339Nano)+" ["+entry.Stage+"] ", entry.Output
			case errors.Is(err, io.EOF), r.ctx.Err() != nil:
				r.err = io.EOF
				continue
			default:
				// The response has begun, so the error can only be reported in the text.
				r.rest, r.err = []byte("the rest of the log cannot be read: "+err.Error()+"\n"), io.EOF
				continue
			}
		}
		var text string
		text, r.output, r.more = strings.Cut(r.output, "\n")
		r.rest = []byte(r.prefix + strings.TrimRight(text, "\r") + "\n")
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

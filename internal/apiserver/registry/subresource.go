package registry

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
)

// Store is the storage that subresources use.
type Store interface {
	rest.Getter
	Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
		updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error)
}

var _ Store = (*REST)(nil)

// OptionsOf is a pointer to the options of a subresource.
type OptionsOf[O any] interface {
	*O
	runtime.Object
}

// OptionsGetter implements a subresource that is read, with query parameters.
type OptionsGetter[O any, P OptionsOf[O]] struct {
	object func() runtime.Object
	read   func(ctx context.Context, name string, options P) (runtime.Object, error)
}

// NewOptionsGetter returns a subresource that is read with a function. Object returns a new object
// of the type of the response.
func NewOptionsGetter[O any, P OptionsOf[O]](
	object func() runtime.Object, read func(ctx context.Context, name string, options P) (runtime.Object, error),
) *OptionsGetter[O, P] {
	return &OptionsGetter[O, P]{object, read}
}

// New implements rest.Storage.
func (g *OptionsGetter[O, P]) New() runtime.Object { return g.object() }

// Destroy implements rest.Storage.
func (*OptionsGetter[O, P]) Destroy() {}

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

// LogGetter is an OptionsGetter whose response is a LogStream.
type LogGetter[O any, P OptionsOf[O]] struct{ *OptionsGetter[O, P] }

// NewLogGetter returns the subresource log of a resource.
func NewLogGetter[O any, P OptionsOf[O]](
	object func() runtime.Object, read func(ctx context.Context, name string, options P) (runtime.Object, error),
) *LogGetter[O, P] {
	return &LogGetter[O, P]{NewOptionsGetter(object, read)}
}

// ProducesMIMETypes implements rest.StorageMetadata.
func (*LogGetter[O, P]) ProducesMIMETypes(string) []string { return []string{logMediaType} }

// ProducesObject implements rest.StorageMetadata.
func (*LogGetter[O, P]) ProducesObject(string) any { return "" }

var (
	_ rest.GetterWithOptions = (*LogGetter[metav1.ListOptions, *metav1.ListOptions])(nil)
	_ rest.StorageMetadata   = (*LogGetter[metav1.ListOptions, *metav1.ListOptions])(nil)
)

// AddOptions registers the conversion of the query of a subresource to its options.
func AddOptions[O any](s *runtime.Scheme, read func(query url.Values, into *O) error) error {
	return s.AddConversionFunc((*url.Values)(nil), (*O)(nil), func(query, options any, _ conversion.Scope) error {
		return read(*query.(*url.Values), options.(*O))
	})
}

// QueryParameter is a query parameter of a subresource.
type QueryParameter struct {
	Name string
	// Must describes the allowed values, for example "true or false".
	Must string
	// Read parses the text, and reports whether it is valid.
	Read func(text string) bool
}

// ReadQuery parses the parameters that are set. For an invalid value it returns 400 with the name
// of the parameter.
func ReadQuery(query url.Values, parameters ...QueryParameter) error {
	for _, p := range parameters {
		text := query.Get(p.Name)
		if text != "" && !p.Read(text) {
			return apierrors.NewBadRequest(fmt.Sprintf("%s is %q, and must be %s", p.Name, text, p.Must))
		}
	}
	return nil
}

// TextParameter accepts any text.
func TextParameter(name string, into *string) QueryParameter {
	return QueryParameter{Name: name, Must: "a string", Read: func(text string) bool {
		*into = text
		return true
	}}
}

// BoolParameter accepts true or false.
func BoolParameter(name string, into *bool) QueryParameter {
	return QueryParameter{Name: name, Must: "true or false", Read: func(text string) bool {
		value, err := strconv.ParseBool(text)
		*into = value
		return err == nil
	}}
}

// NumberParameter accepts a whole number in the range of T.
func NumberParameter[T int32 | int64](name string, into *T) QueryParameter {
	return QueryParameter{Name: name, Must: "an integer", Read: func(text string) bool {
		value, err := strconv.ParseInt(text, 10, 64)
		*into = T(value)
		return err == nil && int64(*into) == value
	}}
}

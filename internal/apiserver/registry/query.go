package registry

import (
	"fmt"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

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
	return QueryParameter{Name: name, Must: "a text", Read: func(text string) bool {
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
	return QueryParameter{Name: name, Must: "a whole number", Read: func(text string) bool {
		value, err := strconv.ParseInt(text, 10, 64)
		*into = T(value)
		return err == nil && int64(*into) == value
	}}
}

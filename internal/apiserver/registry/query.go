package registry

import (
	"fmt"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// QueryParameter is a parameter in the query of a subresource.
type QueryParameter struct {
	Name string
	// Must says what its text must be: "true or false".
	Must string
	// Read takes the text, and says whether it is of that form.
	Read func(text string) bool
}

// ReadQuery reads the parameters that are given. Its error is 400, and names the
// parameter that is not of its form.
func ReadQuery(query url.Values, parameters ...QueryParameter) error {
	for _, p := range parameters {
		text := query.Get(p.Name)
		if text != "" && !p.Read(text) {
			return apierrors.NewBadRequest(fmt.Sprintf("%s is %q, and must be %s", p.Name, text, p.Must))
		}
	}
	return nil
}

// TextParameter is a text of any form.
func TextParameter(name string, into *string) QueryParameter {
	return QueryParameter{Name: name, Must: "a text", Read: func(text string) bool {
		*into = text
		return true
	}}
}

// BoolParameter is true or false.
func BoolParameter(name string, into *bool) QueryParameter {
	return QueryParameter{Name: name, Must: "true or false", Read: func(text string) bool {
		value, err := strconv.ParseBool(text)
		*into = value
		return err == nil
	}}
}

// NumberParameter is a whole number.
func NumberParameter[T int32 | int64](name string, into *T) QueryParameter {
	return QueryParameter{Name: name, Must: "a whole number", Read: func(text string) bool {
		value, err := strconv.ParseInt(text, 10, 64)
		*into = T(value)
		return err == nil && int64(*into) == value
	}}
}

package coderdtest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/coder/coder/v2/codersdk"
)

// validation collects the errors in the fields of a body, with the messages of Coder's validator.
type validation []codersdk.ValidationError

func (v *validation) check(ok bool, field, tag string, value any) {
	if !ok {
		*v = append(*v, codersdk.ValidationError{
			Field:  field,
			Detail: fmt.Sprintf("Validation failed for tag %q with value: \"%v\"", tag, value),
		})
	}
}

func (v *validation) name(field, tag, value string) {
	if value == "" {
		v.check(false, field, tag, value)
		return
	}
	v.check(codersdk.NameValid(value) == nil, field, tag, value)
}

func (v *validation) email(value string) {
	v.check(value != "", "email", "required", value)
	if value != "" {
		v.check(strings.Count(value, "@") == 1 && !strings.HasPrefix(value, "@") && !strings.HasSuffix(value, "@"), "email", "email", value)
	}
}

func (v validation) refuse() {
	if len(v) > 0 {
		refuse(http.StatusBadRequest, "Validation failed.", v...)
	}
}

// checkPassword replaces Coder's entropy check.
func checkPassword(password string) {
	problem := ""
	switch {
	case len(password) > 64:
		problem = "password must be no more than 64 characters"
	case len(password) < 8:
		problem = "insecure password, try including more special characters, using uppercase letters, using numbers or using a longer password"
	default:
		return
	}
	refuse(http.StatusBadRequest, "Password is invalid", codersdk.ValidationError{Field: "password", Detail: problem})
}

func taken(message string) {
	refuse(http.StatusConflict, message, codersdk.ValidationError{Field: "name", Detail: "This value is already in use and should be unique."})
}

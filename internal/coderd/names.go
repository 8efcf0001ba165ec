package coderd

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/truncate"
)

// pathName is what Coder accepts as the name of a user, an organization, a
// template or a workspace. Coder's client writes names into the path of the
// address as they are, so anything else would ask for something else.
var pathName = regexp.MustCompile(`^[a-zA-Z0-9]+(?:-[a-zA-Z0-9]+)*$`)

// confirmNotFound asks again before a missing user is believed. Coder says that
// a user does not exist also when its database went away while it looked; the
// second time it does not get as far.
func confirmNotFound(read func() error) error {
	err := read()
	if errors.Is(err, errUnknownUser) {
		err = read()
	}
	return err
}

// checkNames answers for Coder that a name which it cannot have does not exist.
func checkNames(op string, names ...string) error {
	for _, name := range names {
		if !pathName.MatchString(name) {
			return notThere(op, name, "names in Coder are letters, digits and single dashes between them")
		}
	}
	return nil
}

func notThere(op, name, because string) *Error {
	return &Error{
		Op:         op,
		StatusCode: http.StatusNotFound,
		Message:    fmt.Sprintf("%q does not exist, because %s", name, because),
	}
}

// plainName is what stands in the path of an address as it is. As the name of a
// provisioner key or a workspace proxy Coder takes anything, but could not be
// asked for it afterwards.
var plainName = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_.-]*$`)

// plainNameRule says what plainName does.
const plainNameRule = "letters, digits, underscores, dots and dashes, and must not begin with a dot or a dash"

// badName refuses a name in Coder's place.
func badName(op string, problem error) *Error {
	return &Error{
		Op:         op,
		StatusCode: http.StatusBadRequest,
		Message:    "the name cannot be used",
		Fields:     []FieldError{{Field: "name", Detail: problem.Error()}},
	}
}

// withoutSecret takes a text that was sent out of an error, in case that somebody
// on the way repeated it.
func withoutSecret(err error, secret string) error {
	var e *Error
	if secret == "" || !errors.As(err, &e) {
		return err
	}
	hide := func(s string) string { return withoutBeginning(strings.ReplaceAll(s, secret, "..."), secret) }
	hidden := *e
	hidden.Message, hidden.Detail, hidden.Fields = hide(e.Message), hide(e.Detail), nil
	for _, f := range e.Fields {
		hidden.Fields = append(hidden.Fields, FieldError{Field: f.Field, Detail: hide(f.Detail)})
	}
	return &hidden
}

// withoutBeginning takes out what is left of a secret in which a text was cut off.
func withoutBeginning(s, secret string) string {
	kept, cut := strings.CutSuffix(s, truncate.Ellipsis)
	if !cut {
		return s
	}
	for n := min(len(secret), len(kept)); n > 0; n-- {
		if strings.HasSuffix(kept, secret[:n]) {
			return kept[:len(kept)-n] + truncate.Ellipsis
		}
	}
	return s
}

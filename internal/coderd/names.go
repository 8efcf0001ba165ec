package coderd

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
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
			return &Error{
				Op:         op,
				StatusCode: http.StatusNotFound,
				Message:    fmt.Sprintf("%q does not exist, because names in Coder are letters, digits and single dashes between them", name),
			}
		}
	}
	return nil
}

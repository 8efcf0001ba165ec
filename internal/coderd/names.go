package coderd

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// pathName matches the names that Coder accepts for users, organizations, templates and workspaces.
// Coder's client inserts names into the path without escaping, so any other name could address
// another resource.
var pathName = regexp.MustCompile(`^[a-zA-Z0-9]+(?:-[a-zA-Z0-9]+)*$`)

// confirmNotFound repeats a read that reports a missing user. Coder also reports this if its
// database becomes unavailable during the lookup; the second request then fails with another error.
func confirmNotFound[T any](read func() (T, error)) (T, error) {
	out, err := read()
	if errors.Is(err, errUnknownUser) {
		return read()
	}
	return out, err
}

// checkNames returns a "not found" error for a name that is not valid in Coder, without a request.
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

// plainName matches names that need no escaping in a path. Coder accepts any name for a provisioner
// key or a workspace proxy, but other names could not be used in requests.
var plainName = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_.-]*$`)

// plainNameRule describes plainName.
const plainNameRule = "letters, digits, underscores, dots and dashes, and must not begin with a dot or a dash"

// badName returns the error for an invalid name, without a request.
func badName(op string, problem error) *Error {
	return &Error{
		Op:         op,
		StatusCode: http.StatusBadRequest,
		Message:    "the name cannot be used",
		Fields:     []FieldError{{Field: "name", Detail: problem.Error()}},
	}
}

// withoutSecret removes a secret that was sent in a request from the error, because a server may
// have repeated it.
func withoutSecret(err error, secret string) error {
	e, ok := errors.AsType[*Error](err)
	if secret == "" || !ok {
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

// withoutBeginning removes the rest of a secret at which a text was truncated.
func withoutBeginning(s, secret string) string {
	kept, cut := strings.CutSuffix(s, redaction.Ellipsis)
	if !cut {
		return s
	}
	for n := min(len(secret), len(kept)); n > 0; n-- {
		if strings.HasSuffix(kept, secret[:n]) {
			return kept[:len(kept)-n] + redaction.Ellipsis
		}
	}
	return s
}

// The maximum lengths of the texts that this package returns. They are written to objects,
// conditions, events and logs. Coder's own texts are shorter.
const (
	// maxName limits names, statuses and other texts of one word or line.
	maxName = 256
	// maxText limits descriptions, URLs of icons and build errors.
	maxText = 4 << 10
	// maxTexts limits lists of such texts.
	maxTexts = 100
	// maxApps limits the apps of an agent.
	maxApps = 50
)

// boundName truncates a name to maxName bytes.
func boundName(s string) string { return redaction.Truncate(s, maxName) }

// boundNames truncates each name to maxName bytes.
func boundNames(names ...*string) {
	for _, name := range names {
		*name = boundName(*name)
	}
}

// boundText truncates a text to maxText bytes.
func boundText(s string) string { return redaction.Truncate(s, maxText) }

// boundTags returns the first maxTexts tags, and truncates their names and values.
func boundTags(tags map[string]string) map[string]string {
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(tags))[:min(len(tags), maxTexts)] {
		out[boundName(name)] = boundName(tags[name])
	}
	return out
}

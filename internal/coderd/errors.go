package coderd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/coder/coder/v2/codersdk"

	"github.com/coder-k8s/coder-k8s/internal/truncate"
)

// Error is the one error of this package. It holds no secret: neither the token
// nor a password, and no more of a URL than scheme and host.
type Error struct {
	// Op is what was being done, for example `reading workspace "dev" of "ada"`.
	Op string
	// StatusCode is that of Coder's answer. It is 0 where Coder gave none: the
	// connection failed, time ran out, or something else answered in its place.
	StatusCode int
	// Message is Coder's sentence for a person.
	Message string
	// Detail is Coder's technical addition, and may be empty.
	Detail string
	// Fields are the parts of the request that Coder does not accept.
	Fields []FieldError
	// RetryAfter is how long Coder asks to wait. 0 means that it said nothing.
	RetryAfter time.Duration
	// RequestID is the one under which Coder logs the request, or empty. It is no
	// part of the text: that is the same for as long as the trouble is, so that what
	// repeats it in a status does not change with every attempt.
	RequestID string
	// ActedAs is the username of the Actor as whom the request was made. It is empty if it
	// was made with the client's own token.
	ActedAs string
	// Err is the cause where there was no answer, for example
	// context.DeadlineExceeded.
	Err error
}

// FieldError is one part of a request that Coder does not accept.
type FieldError struct {
	// Field is the name of the field in Coder's API.
	Field string
	// Detail says what is wrong with it.
	Detail string
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	b.WriteString(": ")
	b.WriteString(strings.TrimSuffix(e.Message, "."))
	if e.Detail != "" {
		fmt.Fprintf(&b, " (%s)", e.Detail)
	}
	for _, f := range e.Fields {
		fmt.Fprintf(&b, "; %s: %s", f.Field, strings.TrimSuffix(f.Detail, "."))
	}
	if e.StatusCode != 0 {
		fmt.Fprintf(&b, " (HTTP %d)", e.StatusCode)
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// statusOf gives the status of an *Error in the chain, and whether there is one.
func statusOf(err error) (int, bool) {
	var e *Error
	if !errors.As(err, &e) {
		return 0, false
	}
	return e.StatusCode, true
}

func hasStatus(err error, wanted ...int) bool {
	got, ok := statusOf(err)
	if !ok {
		return false
	}
	for _, status := range wanted {
		if got == status {
			return true
		}
	}
	return false
}

// IsNotFound says that Coder knows no such thing, or has deleted it.
func IsNotFound(err error) bool { return hasStatus(err, http.StatusNotFound, http.StatusGone) }

// IsUnauthorized says that Coder does not accept the token, the password or the
// key.
func IsUnauthorized(err error) bool { return hasStatus(err, http.StatusUnauthorized) }

// IsForbidden says that Coder accepts the token but not what is asked with it.
func IsForbidden(err error) bool { return hasStatus(err, http.StatusForbidden) }

// IsConflict says that the request does not fit the present state: a name that
// exists, or a build that is active.
func IsConflict(err error) bool { return hasStatus(err, http.StatusConflict) }

// IsInvalid says that the request itself is not acceptable. Fields says why.
func IsInvalid(err error) bool {
	return hasStatus(err, http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge)
}

// IsRateLimited says that Coder asks for fewer requests. RetryAfter says when.
func IsRateLimited(err error) bool { return hasStatus(err, http.StatusTooManyRequests) }

// ActedAs returns the username of the Actor as whom a request was made that failed, or
// nothing.
func ActedAs(err error) string {
	var e *Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.ActedAs
}

// RetryAfter is how long Coder asks to wait before the request is made again. It
// is 0 where Coder did not say.
func RetryAfter(err error) time.Duration {
	var e *Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.RetryAfter
}

// IsTooEarly says that the build of a template version has not ended, so that what
// was asked about it is not known.
func IsTooEarly(err error) bool { return hasStatus(err, http.StatusTooEarly) }

// IsUnreachable says that nothing is known about the request: there was no
// answer of Coder, or Coder could not do its work (5xx). A write may have
// happened.
func IsUnreachable(err error) bool {
	status, ok := statusOf(err)
	return ok && !IsNotSupported(err) && (status == 0 || status >= http.StatusInternalServerError)
}

// IsNotSupported says that this Coder has no such part of the API: its version
// is too old, or it is the AGPL build and the part is of the licensed one.
func IsNotSupported(err error) bool { return errors.Is(err, errNoRoute) }

// IsNotEntitled says that this Coder has such a part, but no license for it. It
// is also IsForbidden.
func IsNotEntitled(err error) bool { return errors.Is(err, errNotEntitled) }

// IsExternalAuthRequired reports whether the owner of a workspace must first sign in to
// an external provider that its template needs. It is also IsForbidden, but the token
// has the right.
func IsExternalAuthRequired(err error) bool { return errors.Is(err, errExternalAuth) }

// What Coder says in these sentences is something else than its status.
const (
	// routeNotFound (404) is about an address that this version does not have. It
	// says nothing about the object that was asked for.
	routeNotFound = "Route not found."
	// internalError (401) is said of any token while Coder has no database.
	internalError = "An internal error occurred."
	// unknownUser (400) is said of a user that does not exist. Since Coder 2.31 that is
	// 404, and 400 is another fault.
	unknownUser = `"user" must be an existing uuid or username.`
	// needsLicense (403) ends the sentence about a feature without a license.
	needsLicense = "is a Premium feature. Contact sales!"
	// notAuthorized begins the detail of an internal error (500) that is none: the
	// token may not do what was asked.
	notAuthorized = "unauthorized: rbac: forbidden"
	// duplicateKey stands in the detail of an internal error (500) that is none:
	// another one is there.
	duplicateKey = "duplicate key value violates unique constraint"
	// archivedVersion (500) is about the request: the version cannot be used.
	archivedVersion = "Archived template versions cannot be used to make a workspace."
	// notImported (403, 425) is said of what is known when the build of a version has
	// ended.
	notImported = "Template version job has not finished"
	// versionInUse begins the detail of an internal error (500) that is none: the
	// version cannot be archived.
	versionInUse = "Unable to archive specified version"
)

var (
	errNotCoder    = errors.New("not an answer of Coder")
	errUnknownUser = errors.New("unknown user")
	errNoRoute     = errors.New("no such part of the API")
	errNotEntitled = errors.New("not entitled")
	// errExternalAuth is the cause of IsExternalAuthRequired.
	errExternalAuth = errors.New("external authentication required")
)

// fieldExternalAuth is the field that Coder names in a 403 if the owner of a workspace
// must sign in to an external provider.
const fieldExternalAuth = "external_auth"

// newError describes what came of an operation that failed.
func newError(op, coderURL string, seen *answer, err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	e := &Error{Op: op, RetryAfter: seen.retryAfter, RequestID: seen.requestID, ActedAs: seen.actor, Err: causeOf(err)}
	var sdkError *codersdk.Error
	switch {
	case IsTooLarge(err):
		e.Message = tooLarge(coderURL, err)
	case seen.status == 0:
		e.Message = noAnswer(coderURL, e.Err)
	case seen.status >= 300 && seen.status < 400:
		e.Message = redirected(coderURL, seen.location)
	case errors.Is(err, errNotCoder), !seen.json && !meansTheSame(seen.status):
		e.Message = fmt.Sprintf("something that is not Coder answered at %s with HTTP %d; check the address", coderURL, seen.status)
	case errors.As(err, &sdkError):
		fillFromCoder(e, sdkError, seen.version)
	default:
		e.Message = fmt.Sprintf("the answer of Coder at %s (HTTP %d) could not be read: %v", coderURL, seen.status, e.Err)
	}
	e.truncate()
	return e
}

// The longest texts of an error. It lands in conditions, events and logs.
const (
	maxMessage = 1 << 10
	maxDetail  = 2 << 10
	maxFields  = 20
)

// truncate shortens everything in the error that another server wrote.
func (e *Error) truncate() {
	e.Message, e.Detail = truncate.String(e.Message, maxMessage), truncate.String(e.Detail, maxDetail)
	e.Fields = e.Fields[:min(len(e.Fields), maxFields)]
	for i := range e.Fields {
		f := &e.Fields[i]
		f.Field, f.Detail = truncate.String(f.Field, maxName), truncate.String(f.Detail, maxMessage)
	}
}

func tooLarge(coderURL string, err error) string {
	var limit *LimitError
	errors.As(err, &limit)
	return fmt.Sprintf("the answer of Coder at %s to %s %s %s, so it is not read; check that this is the address of a Coder",
		coderURL, limit.Method, limit.Endpoint, limit.Limit)
}

// meansTheSame reports whether an answer may well be a proxy's, but means the same
// from any server.
func meansTheSame(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusRequestEntityTooLarge || status >= http.StatusInternalServerError
}

func fillFromCoder(e *Error, answer *codersdk.Error, coderVersion string) {
	e.StatusCode, e.Message, e.Detail, e.Err = answer.StatusCode(), answer.Message, answer.Detail, nil
	if e.Message == "" {
		e.Message = http.StatusText(e.StatusCode)
	}
	for _, v := range answer.Validations {
		e.Fields = append(e.Fields, FieldError{Field: v.Field, Detail: v.Detail})
	}
	switch {
	case e.Message == routeNotFound:
		e.StatusCode, e.Err = http.StatusNotImplemented, errNoRoute
		e.Message = "this Coder does not have this part of the API; check its version, and whether it is the build that takes licenses"
	case e.StatusCode == http.StatusForbidden && strings.HasSuffix(e.Message, needsLicense):
		e.Err = errNotEntitled
	case e.StatusCode == http.StatusForbidden && slices.ContainsFunc(e.Fields, func(f FieldError) bool { return f.Field == fieldExternalAuth }):
		e.Err = errExternalAuth
	case e.StatusCode == http.StatusInternalServerError:
		e.notInternal()
	case e.Message == notImported:
		e.StatusCode = http.StatusTooEarly
	case e.StatusCode == http.StatusUnauthorized && strings.HasPrefix(e.Message, internalError):
		e.StatusCode = http.StatusInternalServerError
	case e.StatusCode == http.StatusBadRequest && e.Message == unknownUser && !atLeast(coderVersion, "2.31.1"):
		e.StatusCode, e.Err = http.StatusNotFound, errUnknownUser
		e.Message = "there is no such user"
	}
}

// notInternal corrects what Coder reports as an internal error although it is none.
func (e *Error) notInternal() {
	switch {
	case strings.HasPrefix(e.Detail, notAuthorized):
		e.StatusCode, e.Message, e.Detail = http.StatusForbidden, "the token may not do this", ""
	case strings.Contains(e.Detail, duplicateKey):
		e.StatusCode, e.Message, e.Detail = http.StatusConflict, "Coder has one like it already", ""
	case strings.HasPrefix(e.Detail, versionInUse):
		e.StatusCode, e.Detail = http.StatusConflict, ""
		e.Message = "the version is the active one, a workspace is built from it, or its own build is not done"
	case e.Message == archivedVersion:
		e.StatusCode = http.StatusBadRequest
	}
}

// atLeast reports whether a version of Coder, for example v2.34.8+7bd778d, is known to
// be at least a certain one.
func atLeast(coderVersion, least string) bool {
	parsed, err := version.ParseGeneric(coderVersion)
	return err == nil && parsed.AtLeast(version.MustParseGeneric(least))
}

// causeOf takes off the layer that repeats method and address.
func causeOf(err error) error {
	var urlError *url.Error
	if errors.As(err, &urlError) {
		return urlError.Err
	}
	return err
}

func noAnswer(coderURL string, cause error) string {
	switch {
	case errors.Is(cause, context.Canceled):
		return fmt.Sprintf("the request to Coder at %s was cancelled", coderURL)
	case isTimeout(cause):
		return fmt.Sprintf("Coder at %s did not answer in time", coderURL)
	default:
		return fmt.Sprintf("Coder at %s cannot be reached: %v", coderURL, cause)
	}
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

func redirected(coderURL, location string) string {
	target := "another address"
	if u, err := url.Parse(location); err == nil && u.Host != "" {
		target = u.Scheme + "://" + u.Host
	}
	return fmt.Sprintf("%s redirects to %s, and the token is not sent there; use that address, "+
		"or do not set CODER_REDIRECT_TO_ACCESS_URL", coderURL, target)
}

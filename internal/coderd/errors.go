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

	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// Error is the only error type of this package. It contains no secret: neither a token nor a
// password, and of a URL only the scheme and the host.
type Error struct {
	// Op is the failed operation, for example `reading workspace "dev" of "ada"`.
	Op string
	// StatusCode is the status of Coder's response. It is 0 if Coder did not respond: the
	// connection failed, a timeout expired, or another server responded.
	StatusCode int
	// Message is Coder's message for people.
	Message string
	// Detail is Coder's technical detail. It may be empty.
	Detail string
	// Fields are the fields of the request that Coder does not accept.
	Fields []FieldError
	// RetryAfter is how long Coder asks the client to wait, but at most ten minutes. 0 means that it
	// sent no such header.
	RetryAfter time.Duration
	// RequestID is the id under which Coder logs the request, or empty. It is not part of the text,
	// so that the text stays the same for the same failure and a status that contains it does not
	// change with every attempt.
	RequestID string
	// ActedAs is the username of the Actor that made the request. It is empty if the client's own
	// token was used.
	ActedAs string
	// Err is the cause if there was no response, for example context.DeadlineExceeded.
	Err error
}

// FieldError is a field of a request that Coder does not accept.
type FieldError struct {
	Field  string
	Detail string
}

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

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func hasStatus(err error, wanted ...int) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(wanted, e.StatusCode)
}

// IsNotFound reports whether the object does not exist in Coder, or is deleted.
func IsNotFound(err error) bool { return hasStatus(err, http.StatusNotFound, http.StatusGone) }

// IsGone reports whether Coder answered 410 Gone: it knows the object and has deleted it. That proves the deletion. Coder answers
// 404 Not Found also for an object that the token must not see, and for one that its database does not contain any more, for
// example after it was restored from a backup.
func IsGone(err error) bool { return hasStatus(err, http.StatusGone) }

// IsUnauthorized reports whether Coder refuses the token, the password or the key.
func IsUnauthorized(err error) bool { return hasStatus(err, http.StatusUnauthorized) }

// IsForbidden reports whether the token lacks the permission for the request.
func IsForbidden(err error) bool { return hasStatus(err, http.StatusForbidden) }

// IsConflict reports whether the request conflicts with the current state: a name that exists, or
// an active build.
func IsConflict(err error) bool { return hasStatus(err, http.StatusConflict) }

// IsInvalid reports whether the request itself is invalid. Fields contains the reasons.
func IsInvalid(err error) bool {
	return hasStatus(err, http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge)
}

// IsRateLimited reports whether Coder asks for fewer requests. RetryAfter returns how long to wait.
func IsRateLimited(err error) bool { return hasStatus(err, http.StatusTooManyRequests) }

// ActedAs returns the username of the Actor that made the failed request, or an empty string.
func ActedAs(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.ActedAs
	}
	return ""
}

// RetryAfter returns how long Coder asks the client to wait before it repeats the request. It
// returns 0 if Coder did not send that.
func RetryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// IsUnreachable reports whether the result of the request is unknown: Coder did not respond, or
// returned a server error (5xx). A write may have been processed.
func IsUnreachable(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && !IsNotSupported(err) && (e.StatusCode == 0 || e.StatusCode >= http.StatusInternalServerError)
}

// IsNotSupported reports whether this Coder does not have the called part of the API: its version
// is too old, or it is the AGPL build and the part needs the licensed one.
func IsNotSupported(err error) bool { return errors.Is(err, errNoRoute) }

// IsNotEntitled reports whether the licenses do not include the feature. IsForbidden is also true
// for the error.
func IsNotEntitled(err error) bool { return errors.Is(err, errNotEntitled) }

// IsExternalAuthRequired reports whether the owner of a workspace must first sign in to an external
// provider that its template requires. IsForbidden is also true for the error, although the token
// has the permission.
func IsExternalAuthRequired(err error) bool { return errors.Is(err, errExternalAuth) }

// Messages of Coder that mean something else than the status of the response.
const (
	// routeNotFound (404) means that this version has no such endpoint. The object may exist.
	routeNotFound = "Route not found."
	// internalError (401) is returned for any token while Coder's database is unavailable.
	internalError = "An internal error occurred."
	// unknownUser (400) is returned for a user that does not exist. Since Coder 2.31 the status for
	// this is 404, and 400 has another cause.
	unknownUser = `"user" must be an existing uuid or username.`
	// needsLicense (403) is the end of the message about a feature without a license.
	needsLicense = "is a Premium feature. Contact sales!"
	// notAuthorized is the beginning of the detail of an internal error (500) whose real cause is
	// that the token lacks the permission.
	notAuthorized = "unauthorized: rbac: forbidden"
	// duplicateKey is part of the detail of an internal error (500) whose real cause is that such
	// an object exists already.
	duplicateKey = "duplicate key value violates unique constraint"
	// archivedVersion (500) is an invalid request: an archived version cannot be used.
	archivedVersion = "Archived template versions cannot be used to make a workspace."
	// notImported (403, 425) is returned for information that is available only after the build of
	// a version has finished.
	notImported = "Template version job has not finished"
	// versionInUse is the beginning of the detail of an internal error (500) whose real cause is
	// that the version cannot be archived.
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

func newError(op, coderURL string, seen *answer, err error) *Error {
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	e := &Error{Op: op, RetryAfter: seen.retryAfter, RequestID: seen.requestID, ActedAs: seen.actor, Err: causeOf(err)}
	var sdkError *codersdk.Error
	limit, tooLarge := errors.AsType[*LimitError](err)
	switch {
	case tooLarge:
		advice := "check that this is the address of a Coder"
		if limit.Endpoint == workspacesEndpoint {
			advice = "a workspace, or a page of workspaces, is too large; shorten the scripts of the agents in its template"
		}
		e.Message = fmt.Sprintf("the answer of Coder at %s to %s %s %s, so it is not read; %s",
			coderURL, limit.Method, limit.Endpoint, limit.Limit, advice)
	case seen.status == 0:
		e.Message = noAnswer(coderURL, e.Err)
	case seen.status >= 300 && seen.status < 400:
		target := "another address"
		if u, err := url.Parse(seen.location); err == nil && u.Host != "" {
			target = u.Scheme + "://" + u.Host
		}
		e.Message = fmt.Sprintf("%s redirects to %s, and the token is not sent there; use that address, "+
			"or do not set CODER_REDIRECT_TO_ACCESS_URL", coderURL, target)
	case errors.Is(err, errNotCoder), !seen.json && seen.status < http.StatusInternalServerError &&
		seen.status != http.StatusTooManyRequests && seen.status != http.StatusRequestEntityTooLarge:
		// The other statuses mean the same, whether Coder or a proxy returned them.
		e.Message = fmt.Sprintf("the response from %s (HTTP %d) is not from Coder; check the URL", coderURL, seen.status)
	case errors.As(err, &sdkError):
		fillFromCoder(e, sdkError, seen.version)
	default:
		e.Message = fmt.Sprintf("the response of Coder at %s (HTTP %d) could not be decoded: %v", coderURL, seen.status, e.Err)
	}
	e.truncate()
	return e
}

// The maximum lengths of an error's texts, which are written to conditions, events and logs.
const (
	maxMessage = 1 << 10
	maxDetail  = 2 << 10
	maxFields  = 20
)

// truncate shortens all texts in the error that were received from a server.
func (e *Error) truncate() {
	e.Message, e.Detail = redaction.Truncate(e.Message, maxMessage), redaction.Truncate(e.Detail, maxDetail)
	e.Fields = e.Fields[:min(len(e.Fields), maxFields)]
	for i := range e.Fields {
		f := &e.Fields[i]
		f.Field, f.Detail = redaction.Truncate(f.Field, maxName), redaction.Truncate(f.Detail, maxMessage)
	}
}

func fillFromCoder(e *Error, answer *codersdk.Error, coderVersion string) {
	e.StatusCode, e.Message, e.Detail, e.Err = answer.StatusCode(), answer.Message, answer.Detail, nil
	if e.Message == "" {
		e.Message = http.StatusText(e.StatusCode)
	}
	for _, v := range answer.Validations {
		e.Fields = append(e.Fields, FieldError{Field: v.Field, Detail: explain(v.Detail)})
	}
	switch {
	case e.Message == routeNotFound:
		e.StatusCode, e.Err = http.StatusNotImplemented, errNoRoute
		e.Message = "this Coder does not have this API endpoint; check its version, and whether it is the build with licensed features"
	case e.StatusCode == http.StatusForbidden && strings.HasSuffix(e.Message, needsLicense):
		e.Err = errNotEntitled
	case e.StatusCode == http.StatusForbidden && slices.ContainsFunc(e.Fields, func(f FieldError) bool { return f.Field == "external_auth" }):
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

// notInternal corrects the status of errors that Coder wrongly returns as internal errors.
func (e *Error) notInternal() {
	switch {
	case strings.HasPrefix(e.Detail, notAuthorized):
		e.StatusCode, e.Message, e.Detail = http.StatusForbidden, "the token has no permission for this", ""
	case strings.Contains(e.Detail, duplicateKey):
		e.StatusCode, e.Message, e.Detail = http.StatusConflict, "Coder already has such an object", ""
	case strings.HasPrefix(e.Detail, versionInUse):
		e.StatusCode, e.Detail = http.StatusConflict, ""
		e.Message = "the version is active, is used by a workspace, or its build is not finished"
	case e.Message == archivedVersion:
		e.StatusCode = http.StatusBadRequest
	}
}

// atLeast reports whether a version of Coder, for example v2.34.8+7bd778d, is at least the given
// one. It returns false if the version cannot be parsed.
func atLeast(coderVersion, least string) bool {
	parsed, err := version.ParseGeneric(coderVersion)
	return err == nil && parsed.AtLeast(version.MustParseGeneric(least))
}

// causeOf removes the layer that contains method and URL.
func causeOf(err error) error {
	if urlError, ok := errors.AsType[*url.Error](err); ok {
		return urlError.Err
	}
	return err
}

func noAnswer(coderURL string, cause error) string {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(cause, context.Canceled):
		return fmt.Sprintf("the request to Coder at %s was cancelled", coderURL)
	case errors.As(cause, &timeout) && timeout.Timeout():
		return fmt.Sprintf("Coder at %s did not answer in time", coderURL)
	default:
		return fmt.Sprintf("Coder at %s cannot be reached: %v", coderURL, cause)
	}
}

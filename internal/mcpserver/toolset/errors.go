package toolset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// The outcomes of a call, as recorded in the log and in metrics.
const (
	OutcomeOK = "ok"
	// OutcomeInvalid means that the call can succeed only with other arguments.
	OutcomeInvalid     = "invalid"
	OutcomeDenied      = "denied"
	OutcomeNotFound    = "notfound"
	OutcomeConflict    = "conflict"
	OutcomeUnavailable = "unavailable"
	OutcomeTimeout     = "timeout"
	OutcomeCancelled   = "cancelled"
	// OutcomeDeclined means that the user declined the confirmation.
	OutcomeDeclined = "declined"
	// OutcomeNeedsInput means that the user must confirm the call first.
	OutcomeNeedsInput = "needsinput"
	// OutcomeFailed means that the change was made, but the work that it started failed, for
	// example a build.
	OutcomeFailed = "failed"
	OutcomeError  = "error"
)

// failure reports that work failed for which a call waited. Its text is sent to the client
// unchanged.
type failure string

func (f failure) Error() string { return string(f) }

// Failed returns the error for a call that changed something and then waited for work that
// failed. The client gets the answer of the tool with this error. why contains the reason and
// the next tool to call; addresses and secrets are removed from it.
func Failed(why string) error { return failure(scrub(why)) }

func isFailure(err error) bool {
	var failed failure
	return errors.As(err, &failed)
}

// UsageError reports invalid arguments.
type UsageError string

func (e UsageError) Error() string { return string(e) }

// CallError reports a request to the Kubernetes API that failed. Resource may be a path
// such as /version.
type CallError struct {
	Verb, Resource, Namespace, Name string
	Err                             error
	// Role is the ClusterRole that grants exactly this permission, if there is one.
	Role string
}

func (e *CallError) Error() string { return fmt.Sprintf("%s %s: %v", e.Verb, e.object(), e.Err) }
func (e *CallError) Unwrap() error { return e.Err }

// object returns the target of the request, for a message.
func (e *CallError) object() string {
	switch {
	case strings.HasPrefix(e.Resource, "/"):
		return e.Resource
	case e.Name != "":
		return fmt.Sprintf("%s %s/%s", e.Resource, e.Namespace, e.Name)
	case e.Namespace != "":
		return fmt.Sprintf("%s in namespace %s", e.Resource, e.Namespace)
	default:
		return e.Resource + " in all namespaces"
	}
}

// explain returns the outcome of the call and the error for the client: one sentence that
// says what to do differently. Details are logged.
func explain(ctx context.Context, err error) (outcome string, reported error) {
	var (
		usage      UsageError
		refused    *refusal
		unfinished UnfinishedError
		call       *CallError
	)
	switch {
	case errors.As(err, &usage):
		return OutcomeInvalid, usage
	case errors.As(err, &refused):
		return refused.outcome, refused
	case errors.As(err, &unfinished):
		return OutcomeTimeout, unfinished
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled):
		return OutcomeCancelled, errors.New("the call was cancelled")
	case errors.As(err, &call):
		outcome, sentence := call.explain(ctx)
		return outcome, errors.New(scrub(sentence))
	case errors.Is(err, context.DeadlineExceeded):
		return OutcomeTimeout, errors.New("the call took too long and was stopped; if it changes something, the change may have been made: read the object before you try again; if it only reads, request less data")
	default:
		log.FromContext(ctx).Error(err, "A tool failed")
		return OutcomeError, errors.New("internal error; see the log of the server for details")
	}
}

func (e *CallError) explain(ctx context.Context) (outcome, reported string) {
	detail := Message(e.Err)
	switch {
	case errors.Is(e.Err, context.Canceled):
		return OutcomeCancelled, "the call was cancelled"
	case errors.Is(e.Err, context.DeadlineExceeded), apierrors.IsTimeout(e.Err):
		return OutcomeTimeout, e.timeout()
	case errors.Is(e.Err, callers.ErrReadOnly):
		log.FromContext(ctx).Error(e.Err, "A read-only tool tried to write", "verb", e.Verb, "resource", e.Resource)
		return OutcomeDenied, fmt.Sprintf("cannot %s %s: this tool is read-only; nothing was done", e.Verb, e.object())
	case IsImpersonationDenied(e.Err):
		log.FromContext(ctx).Error(e.Err, "The server has no permission to impersonate its caller")
		return OutcomeDenied, fmt.Sprintf("the server cannot act as user %q: its ClusterRole lacks the permission to impersonate this user; an administrator must add it", callers.NameOf(ctx))
	case apierrors.IsForbidden(e.Err):
		return OutcomeDenied, fmt.Sprintf("user %q may not %s %s%s", callers.NameOf(ctx), e.Verb, e.object(), e.whyForbidden(detail))
	case isMissingNamespace(e.Err):
		return OutcomeNotFound, fmt.Sprintf("there is no namespace %q", e.Namespace)
	case apierrors.IsNotFound(e.Err) && e.Name != "" && !isUnknownPath(e.Err):
		return OutcomeNotFound, fmt.Sprintf("there is no %s; list them to see which names exist", e.object())
	case meta.IsNoMatchError(e.Err), apierrors.IsNotFound(e.Err), apierrors.IsMethodNotSupported(e.Err):
		return OutcomeUnavailable, fmt.Sprintf("this cluster does not serve %s of %s; check that coder-k8s is installed completely", e.Verb, e.Resource)
	case apierrors.IsAlreadyExists(e.Err):
		return OutcomeConflict, fmt.Sprintf("%s already exists; use another name, or update the existing object", e.object())
	case apierrors.IsConflict(e.Err):
		return OutcomeConflict, fmt.Sprintf("%s was changed by another client, or has a running build: %s; read it and call again", e.object(), detail)
	case apierrors.IsResourceExpired(e.Err), apierrors.IsGone(e.Err):
		return OutcomeInvalid, "cursor is too old; leave it out to begin at the start"
	case apierrors.IsRequestEntityTooLargeError(e.Err):
		return OutcomeInvalid, fmt.Sprintf("cannot %s %s: it is too large for the Kubernetes API; send less", e.Verb, e.object())
	case apierrors.IsInvalid(e.Err), apierrors.IsBadRequest(e.Err):
		return OutcomeInvalid, fmt.Sprintf("cannot %s %s: %s", e.Verb, e.object(), detail)
	case isTransient(e.Err):
		return OutcomeUnavailable, fmt.Sprintf("cannot %s %s now: %s; try again in %d s", e.Verb, e.object(), detail, retryAfter(e.Err))
	default:
		log.FromContext(ctx).Error(e.Err, "A call to Kubernetes failed", "verb", e.Verb, "resource", e.Resource)
		return OutcomeError, fmt.Sprintf("cannot %s %s: the Kubernetes API returned an unexpected response; see the log of the server for details", e.Verb, e.object())
	}
}

// timeout returns the sentence about a request that timed out. The API server may have made a
// change without an answer.
func (e *CallError) timeout() string {
	if slices.Contains([]string{"create", "update", "patch", "delete"}, e.Verb) {
		return fmt.Sprintf("no answer to %s of %s came in time; the change may have been made: read the object before you try again", e.Verb, e.object())
	}
	return fmt.Sprintf("%s of %s took too long; reduce the result with limit or a namespace, or try again later", e.Verb, e.object())
}

// whyForbidden returns the end of the sentence about a forbidden request. RBAC denials
// contain " cannot " and need an administrator or another namespace; the message of an
// admission policy or of Coder is returned as it is.
func (e *CallError) whyForbidden(detail string) string {
	switch {
	case !strings.Contains(detail, " cannot "):
		return ": " + detail
	case e.Role != "":
		return fmt.Sprintf("; ask an administrator for ClusterRole %s in the namespace", e.Role)
	case e.Namespace == "":
		return "; give a namespace for which the user has permission, or ask an administrator for the permission"
	default:
		return "; ask an administrator for the permission"
	}
}

// isTransient reports whether the same request may succeed soon: the API server, or the
// aggregated one behind it, is unavailable or overloaded.
func isTransient(err error) bool {
	var operation *net.OpError
	return apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		errors.As(err, &operation) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func statusOf(err error) metav1.Status {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status()
	}
	return metav1.Status{}
}

// isMissingNamespace reports whether the namespace is missing, rather than an object in it.
func isMissingNamespace(err error) bool {
	details := statusOf(err).Details
	return apierrors.IsNotFound(err) && details != nil && details.Kind == "namespaces"
}

// isUnknownPath reports whether the API server does not serve the path, as opposed to a
// missing object.
func isUnknownPath(err error) bool {
	return strings.Contains(statusOf(err).Message, "the server could not find the requested resource")
}

// IsImpersonationDenied reports whether the server itself lacks the permission to
// impersonate, as opposed to a missing permission of the caller.
func IsImpersonationDenied(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(statusOf(err).Message, "cannot impersonate")
}

// Message returns the API server's message. If the status has causes by field, it returns
// only those.
func Message(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "it does not respond"
	}
	s := status.Status()
	var parts []string
	for _, cause := range ptr.Deref(s.Details, metav1.StatusDetails{}).Causes {
		if cause.Type != metav1.CauseTypeUnexpectedServerResponse && cause.Message != "" {
			parts = append(parts, strings.TrimPrefix(cause.Field+": "+cause.Message, ": "))
		}
	}
	if len(parts) == 0 {
		return strings.TrimSuffix(s.Message, ".")
	}
	return strings.Join(parts, "; ")
}

func retryAfter(err error) int {
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		return seconds
	}
	return 5
}

var addressPattern = regexp.MustCompile(`[a-z]+://[^\s"']+|\[[0-9a-fA-F]*:[0-9a-fA-F:.]+\](:\d+)?|\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b`)

// scrub removes addresses and line breaks from a text, and redacts it with CleanText.
// Addresses do not help a caller and may help an attacker.
func scrub(s string) string {
	return redaction.OneLine(addressPattern.ReplaceAllString(CleanText(s), "(address)"))
}

// Gap returns a note for an answer of which a part could not be read: what could not be
// read, and why, without a period at the end. The call itself continues. Details that are
// not meant for clients are logged.
func Gap(ctx context.Context, call *CallError) string {
	var why string
	switch {
	case errors.Is(call.Err, context.DeadlineExceeded), apierrors.IsTimeout(call.Err), apierrors.IsServerTimeout(call.Err):
		why = "there was no response in time"
	case IsImpersonationDenied(call.Err):
		why = "the server has no permission to impersonate its caller; an administrator must add it to the ClusterRole of the server"
	case apierrors.IsForbidden(call.Err):
		why = fmt.Sprintf("user %q may not %s %s", callers.NameOf(ctx), call.Verb, call.Resource)
	case meta.IsNoMatchError(call.Err), apierrors.IsNotFound(call.Err):
		why = "this cluster does not serve it"
	case apierrors.IsServiceUnavailable(call.Err), apierrors.IsTooManyRequests(call.Err):
		why = "it is not available now: " + scrub(Message(call.Err))
	case apierrors.IsConflict(call.Err), apierrors.IsBadRequest(call.Err):
		why = scrub(Message(call.Err))
	default:
		log.FromContext(ctx).Error(call.Err, "Could not read a part of a result", "verb", call.Verb, "resource", call.Resource)
		why = "the Kubernetes API returned an unexpected response"
	}
	return fmt.Sprintf("could not read %s: %s", call.object(), why)
}

// maxSentence limits the size of an error message for clients, in bytes. A longer message
// contains a name or a value that the client sent.
const maxSentence = 4 << 10

// Sentence returns the outcome and the message for an error in a prompt. They are the same as
// for an error of a tool. Details that are not meant for clients are logged.
func Sentence(ctx context.Context, err error) (outcome, sentence string) {
	outcome, reported := explain(ctx, err)
	setOutcome(ctx, outcome)
	return outcome, bounded(reported).Error()
}

func bounded(reported error) error {
	sentence := reported.Error()
	if len(sentence) <= maxSentence {
		return reported
	}
	return errors.New(strings.ToValidUTF8(sentence[:maxSentence], "") + "…")
}

package tools

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	controlPlaneResource = "codercontrolplanes.coder.com"
	workspaceResource    = "coderworkspaces.aggregation.coder.com"
)

// usageError is a mistake in the arguments.
type usageError string

func (e usageError) Error() string { return string(e) }

// callError is a call to Kubernetes that did not succeed.
type callError struct {
	verb, resource, namespace, name string
	err                             error
}

func (e *callError) Error() string { return fmt.Sprintf("%s %s: %v", e.verb, e.object(), e.err) }
func (e *callError) Unwrap() error { return e.err }

// object names what the call was about.
func (e *callError) object() string {
	switch {
	case e.name != "":
		return fmt.Sprintf("%s %s/%s", e.resource, e.namespace, e.name)
	case e.namespace != "":
		return fmt.Sprintf("%s in namespace %s", e.resource, e.namespace)
	default:
		return e.resource + " in all namespaces"
	}
}

func requireObject(namespace, name string) error {
	switch {
	case namespace == "":
		return usageError("namespace is required")
	case name == "":
		return usageError("name is required")
	}
	return nil
}

// sentence turns an error into what a model is told: one sentence that says what
// to do differently. The rest goes to the log.
func sentence(ctx context.Context, err error) error {
	var usage usageError
	if errors.As(err, &usage) {
		return usage
	}
	var call *callError
	if !errors.As(err, &call) {
		log.FromContext(ctx).Error(err, "A tool failed")
		return errors.New("internal error; the log of the server has the details")
	}
	return errors.New(scrub(call.sentence(ctx)))
}

func (e *callError) sentence(ctx context.Context) string {
	detail := messageOf(e.err)
	switch {
	case errors.Is(e.err, context.Canceled):
		return "the call was cancelled"
	case errors.Is(e.err, context.DeadlineExceeded), apierrors.IsTimeout(e.err):
		return fmt.Sprintf("%s of %s took too long; ask for less with limit or a namespace, or try again later", e.verb, e.object())
	case isImpersonationDenied(e.err):
		log.FromContext(ctx).Error(e.err, "The server may not act as its caller")
		return fmt.Sprintf("the server may not act as user %q: its own ClusterRole lacks the right to impersonate them; an administrator must add it", callerOf(ctx))
	case apierrors.IsForbidden(e.err):
		return fmt.Sprintf("user %q may not %s %s; %s", callerOf(ctx), e.verb, e.object(), e.forbiddenHint())
	case apierrors.IsNotFound(e.err) && e.name != "":
		return fmt.Sprintf("there is no %s; list them to see which names exist", e.object())
	case meta.IsNoMatchError(e.err), apierrors.IsNotFound(e.err):
		return fmt.Sprintf("this cluster does not serve %s; is all of coder-k8s installed?", e.resource)
	case apierrors.IsConflict(e.err), apierrors.IsAlreadyExists(e.err):
		return fmt.Sprintf("%s is being changed by others or by a build that is not finished: %s; look at it and call again", e.object(), detail)
	case apierrors.IsResourceExpired(e.err), apierrors.IsGone(e.err):
		return "cursor is too old; leave it out to begin at the start"
	case apierrors.IsInvalid(e.err), apierrors.IsBadRequest(e.err):
		return fmt.Sprintf("cannot %s %s: %s", e.verb, e.object(), detail)
	case apierrors.IsServiceUnavailable(e.err), apierrors.IsTooManyRequests(e.err), apierrors.IsServerTimeout(e.err):
		return fmt.Sprintf("cannot %s %s now: %s; try again in %d s", e.verb, e.object(), detail, retryAfter(e.err))
	default:
		log.FromContext(ctx).Error(e.err, "A call to Kubernetes failed", "verb", e.verb, "resource", e.resource)
		return fmt.Sprintf("cannot %s %s: the Kubernetes API did not answer as expected; the log of the server has the details", e.verb, e.object())
	}
}

func (e *callError) forbiddenHint() string {
	if e.namespace == "" {
		return "give a namespace in which they may, or ask an administrator for the right"
	}
	return "ask an administrator for the right"
}

// isImpersonationDenied tells the server's own missing right from the caller's.
func isImpersonationDenied(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsForbidden(err) || !errors.As(err, &status) {
		return false
	}
	return strings.Contains(status.Status().Message, "cannot impersonate")
}

func callerOf(ctx context.Context) string {
	if u, ok := request.UserFrom(ctx); ok {
		return u.GetName()
	}
	return ""
}

// messageOf is what the API server said, without its prefixes where it gave the
// causes field by field.
func messageOf(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "no answer"
	}
	s := status.Status()
	if s.Details == nil || len(s.Details.Causes) == 0 {
		return strings.TrimSuffix(s.Message, ".")
	}
	parts := make([]string, 0, len(s.Details.Causes))
	for _, cause := range s.Details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse || cause.Message == "" {
			continue
		}
		parts = append(parts, strings.TrimPrefix(cause.Field+": "+cause.Message, ": "))
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

var addressPattern = regexp.MustCompile(`[a-z]+://[^\s"']+|\[[0-9a-fA-F:]+\](:\d+)?|\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b`)

// scrub takes out addresses, which say nothing to a caller and something to an
// attacker, and line breaks.
func scrub(s string) string {
	return strings.Join(strings.Fields(addressPattern.ReplaceAllString(s, "(address)")), " ")
}

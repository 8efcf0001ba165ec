package coderfault

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// retryAfter is the Retry-After if Coder sends none. It is short because client-go retries ten
// times before it returns the error, so kubectl waits for up to ten times this duration.
const retryAfter = time.Second

// Subject is the object of a request.
type Subject struct {
	Kind     schema.GroupKind
	Resource schema.GroupResource
	Name     string
	// Fields maps the fields of Coder's API to fields of the object.
	Fields map[string]*field.Path
}

// Status converts an error to an API status. It returns nil and existing API statuses unchanged.
func (s Subject) Status(err error) error {
	var status apierrors.APIStatus
	var unavailable *connections.UnavailableError
	var fault *coderd.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &status):
		return err
	case errors.As(err, &unavailable):
		return Unavailable(unavailable.Error(), unavailable.RetryAfter)
	case errors.As(err, &fault):
		converted := s.fromCoder(fault)
		if converted.ErrStatus.Code >= http.StatusInternalServerError && fault.RequestID != "" {
			// Name reports the ID under which Coder logged the request.
			converted.ErrStatus = withCause(converted.ErrStatus, CauseCoderRequestID, fault.RequestID)
		}
		return converted
	case errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError(err.Error(), seconds(0))
	default:
		return apierrors.NewInternalError(err)
	}
}

func (s Subject) fromCoder(fault *coderd.Error) *apierrors.StatusError {
	switch {
	case refusesActor(fault):
		return apierrors.NewForbidden(s.Resource, s.Name, fmt.Errorf("you act as user %q in Coder, and Coder rejects this request of the user: %w", fault.ActedAs, fault))
	case coderd.IsNotFound(fault):
		return apierrors.NewNotFound(s.Resource, s.Name)
	case coderd.IsExternalAuthRequired(fault):
		err := apierrors.NewForbidden(s.Resource, s.Name, fmt.Errorf("the owner of the workspace must first sign in, in Coder's "+
			"account settings, to the external providers that its template needs: %w", fault))
		err.ErrStatus = withCause(err.ErrStatus, CauseExternalAuthRequired, fault.Error())
		return err
	case coderd.IsForbidden(fault):
		return apierrors.NewForbidden(s.Resource, s.Name, fmt.Errorf("the operator's account in Coder is not allowed to do this: %w", fault))
	case coderd.IsConflict(fault) && strings.Contains(strings.ToLower(fault.Message), "already exists"):
		return apierrors.NewAlreadyExists(s.Resource, s.Name)
	case coderd.IsConflict(fault):
		return apierrors.NewConflict(s.Resource, s.Name, fault)
	case coderd.IsArchiveTooLarge(fault):
		return apierrors.NewRequestEntityTooLargeError(fault.Error())
	case coderd.IsInvalid(fault):
		return s.invalid(fault)
	case coderd.IsUnauthorized(fault):
		return Unavailable(fmt.Sprintf("Coder refused the operator's token, which is being renewed: %v", fault), retryAfter)
	case coderd.IsRateLimited(fault):
		return apierrors.NewTooManyRequests(fault.Error(), seconds(fault.RetryAfter))
	case errors.Is(fault, context.DeadlineExceeded) || fault.StatusCode == http.StatusGatewayTimeout:
		return apierrors.NewTimeoutError(fault.Error(), seconds(fault.RetryAfter))
	default:
		return Unavailable(fault.Error(), fault.RetryAfter)
	}
}

// refusesActor reports whether Coder refused the request because of the user who made it. Coder
// returns 404 for objects that the user may not see.
func refusesActor(fault *coderd.Error) bool {
	switch {
	case fault.ActedAs == "":
		return false
	case coderd.IsForbidden(fault):
		return !coderd.IsExternalAuthRequired(fault)
	default:
		return coderd.IsUnauthorized(fault) || fault.StatusCode == http.StatusNotFound
	}
}

func (s Subject) invalid(fault *coderd.Error) *apierrors.StatusError {
	var causes field.ErrorList
	for _, f := range fault.Fields {
		path, ok := s.Fields[f.Field]
		if !ok {
			path = field.NewPath("spec").Key(f.Field)
		}
		causes = append(causes, field.Invalid(path, field.OmitValueType{}, f.Detail))
	}
	if len(causes) == 0 {
		detail := strings.TrimSuffix(fault.Message, ".")
		if fault.Detail != "" {
			detail += ": " + fault.Detail
		}
		causes = append(causes, field.Invalid(field.NewPath("spec"), field.OmitValueType{}, "Coder does not accept this: "+detail))
	}
	return apierrors.NewInvalid(s.Kind, s.Name, causes)
}

// Created converts an error of a creation to an API status. If Coder may have created the object,
// the status has no Retry-After: a client would retry automatically, and get a conflict with its
// own object.
func (s Subject) Created(err error) error {
	var dial *net.OpError
	if !coderd.IsUnreachable(err) || errors.As(err, &dial) && dial.Op == "dial" {
		return s.Status(err)
	}
	var reported *apierrors.StatusError
	if !errors.As(s.Status(err), &reported) {
		return err
	}
	uncertain := *reported
	uncertain.ErrStatus.Code, uncertain.ErrStatus.Reason = http.StatusGatewayTimeout, metav1.StatusReasonTimeout
	uncertain.ErrStatus.Message = fmt.Sprintf("it is not known whether %s was created; get it to find out, or apply it again, which creates no duplicate: %s",
		s.Name, reported.ErrStatus.Message)
	if details := reported.ErrStatus.Details.DeepCopy(); details != nil {
		details.RetryAfterSeconds = 0
		uncertain.ErrStatus.Details = details
	}
	return &uncertain
}

// Unavailable returns 503 with a Retry-After. Client libraries retry automatically.
func Unavailable(reason string, after time.Duration) *apierrors.StatusError {
	err := apierrors.NewServiceUnavailable(reason)
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(seconds(after))}
	return err
}

func seconds(d time.Duration) int {
	if d <= 0 {
		d = retryAfter
	}
	return int(math.Ceil(d.Seconds()))
}

// The causes in the details of a status that refer to further information.
const (
	// CauseRequestID is the ID of the request in the logs of this program and of kube-apiserver.
	CauseRequestID metav1.CauseType = "RequestID"
	// CauseCoderRequestID is the ID of the failed request in the log of Coder.
	CauseCoderRequestID metav1.CauseType = "CoderRequestID"
	// CauseExternalAuthRequired is in a 403 if the owner of the workspace must sign in to
	// an external provider of its template. The message names the provider.
	CauseExternalAuthRequired metav1.CauseType = "ExternalAuthRequired"
)

// Name adds the request IDs to a 5xx error, so that it can be found in the logs, and logs it. It is
// for responses to clients only, and not for stored messages: the IDs differ for each attempt.
func Name(ctx context.Context, err *error) {
	var known apierrors.APIStatus
	if *err == nil || !errors.As(*err, &known) || known.Status().Code < http.StatusInternalServerError {
		return
	}
	status := known.Status()
	id := tracing.RequestID(ctx)
	if id == "" || causeOf(status, CauseRequestID) != "" {
		return
	}
	values := []any{"status", status.Code, "reason", status.Message}
	if info, ok := request.RequestInfoFrom(ctx); ok {
		values = append(values, "verb", info.Verb, "resource", info.Resource, "subresource", info.Subresource,
			"namespace", info.Namespace, "name", info.Name)
	}
	log.FromContext(ctx).Info("A request failed", values...)
	where := "request " + id
	if coders := causeOf(status, CauseCoderRequestID); coders != "" {
		where += ", in Coder " + coders
	}
	status.Message = fmt.Sprintf("%s (%s)", status.Message, where)
	*err = &apierrors.StatusError{ErrStatus: withCause(status, CauseRequestID, id)}
}

// withCause returns a copy of the status with an additional cause.
func withCause(status metav1.Status, kind metav1.CauseType, message string) metav1.Status {
	details := &metav1.StatusDetails{}
	if status.Details != nil {
		details = status.Details.DeepCopy()
	}
	details.Causes = append(details.Causes, metav1.StatusCause{Type: kind, Message: message})
	status.Details = details
	return status
}

func causeOf(status metav1.Status, kind metav1.CauseType) string {
	if status.Details == nil {
		return ""
	}
	i := slices.IndexFunc(status.Details.Causes, func(c metav1.StatusCause) bool { return c.Type == kind })
	if i < 0 {
		return ""
	}
	return status.Details.Causes[i].Message
}

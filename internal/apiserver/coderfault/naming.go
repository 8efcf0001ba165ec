package coderfault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/requestid"
)

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
	id := requestid.From(ctx)
	if id == "" || causeOf(status, CauseRequestID) != "" {
		return
	}
	logFailure(ctx, status)
	where := "request " + id
	if coders := causeOf(status, CauseCoderRequestID); coders != "" {
		where += ", in Coder " + coders
	}
	status.Message = fmt.Sprintf("%s (%s)", status.Message, where)
	*err = &apierrors.StatusError{ErrStatus: withCause(status, CauseRequestID, id)}
}

// logFailure writes the log line for the request ID.
func logFailure(ctx context.Context, status metav1.Status) {
	values := []any{"status", status.Code, "reason", status.Message}
	if info, ok := request.RequestInfoFrom(ctx); ok {
		values = append(values, "verb", info.Verb, "resource", info.Resource, "subresource", info.Subresource,
			"namespace", info.Namespace, "name", info.Name)
	}
	log.FromContext(ctx).Info("Answering a request with a failure", values...)
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

package objectlog

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// retryAfterSeconds is what a client is told to wait. Clients of Kubernetes do so
// by themselves.
const retryAfterSeconds = 1

// unavailable is what a client gets when a change could not be decided. What is an
// API status already stays as it is.
func unavailable(cause error) error {
	if status := apierrors.APIStatus(nil); errors.As(cause, &status) {
		return cause
	}
	return unavailableWith(fmt.Sprintf("the change could not be brought to all replicas: %v; try again", cause))
}

func unavailableWith(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusServiceUnavailable,
		Reason:  metav1.StatusReasonServiceUnavailable,
		Message: message,
		Details: &metav1.StatusDetails{RetryAfterSeconds: retryAfterSeconds},
	}}
}

package controllertest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The results of kstatus, with which Flux, Helm, kpt and others decide whether an object is ready.
const (
	KstatusInProgress  = string(status.InProgressStatus)
	KstatusCurrent     = string(status.CurrentStatus)
	KstatusFailed      = string(status.FailedStatus)
	KstatusTerminating = string(status.TerminatingStatus)
)

// kstatusOf returns the result of kstatus for an object in the form that the API server returns.
func kstatusOf(obj client.Object) (string, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return "", fmt.Errorf("converting %T: %w", obj, err)
	}
	result, err := status.Compute(&unstructured.Unstructured{Object: content})
	if err != nil {
		return "", fmt.Errorf("judging %T: %w", obj, err)
	}
	return string(result.Status), nil
}

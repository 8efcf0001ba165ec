package tools

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// timestamp formats a time for an answer. It returns "" for the zero time.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// timestampOf is timestamp for a Kubernetes time, which may be nil.
func timestampOf(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return timestamp(t.Time)
}

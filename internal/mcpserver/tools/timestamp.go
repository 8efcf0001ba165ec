package tools

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// timestamp is a time as answers have it, empty where there is none.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// timestampOf is timestamp for a time of Kubernetes, which may be missing.
func timestampOf(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return timestamp(t.Time)
}

package records

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestUnavailable covers the errors of kube-apiserver: no response becomes 503 with Retry-After,
// errors about past revisions are returned unchanged, and errors about the operator are not
// returned as if they were about the client's request.
func TestUnavailable(t *testing.T) {
	resource := schema.GroupResource{Resource: "records"}
	for name, c := range map[string]struct {
		err  error
		code int32
	}{
		"no answer":          {errors.New("connection refused"), 503},
		"forgotten":          {apierrors.NewResourceExpired("too old"), 410},
		"too many requests":  {apierrors.NewTooManyRequests("later", 3), 429},
		"forbidden":          {apierrors.NewForbidden(resource, "a", errors.New("no")), 503},
		"no such definition": {apierrors.NewNotFound(resource, ""), 503},
		"too large":          {apierrors.NewRequestEntityTooLargeError("limit"), 503},
	} {
		t.Run(name, func(t *testing.T) {
			var status *apierrors.StatusError
			if err := unavailable(t.Context(), "reading", c.err); !errors.As(err, &status) || status.ErrStatus.Code != c.code {
				t.Fatalf("it is %v, want %d", err, c.code)
			}
			if c.code == 503 && (status.ErrStatus.Details == nil || status.ErrStatus.Details.RetryAfterSeconds == 0) {
				t.Error("it does not say when to try again")
			}
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := unavailable(ended, "reading", errors.New("cut off")); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits, and it is %v", err)
	}
	if seconds, ok := apierrors.SuggestsClientDelay(uncertain("a", "created", errors.New("cut off"))); ok {
		t.Errorf("a creation that may have happened is tried again after %d seconds", seconds)
	}
}

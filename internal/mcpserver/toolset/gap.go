package toolset

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

// Gap returns a note for an answer of which a part could not be read: what could not be
// read, and why, without a period at the end. The call itself continues. Details that are
// not meant for clients are logged.
func Gap(ctx context.Context, call *CallError) string {
	return fmt.Sprintf("could not read %s: %s", call.object(), call.whyUnread(ctx))
}

func (e *CallError) whyUnread(ctx context.Context) string {
	switch {
	case errors.Is(e.Err, context.DeadlineExceeded), apierrors.IsTimeout(e.Err), apierrors.IsServerTimeout(e.Err):
		return "no answer came in time"
	case IsImpersonationDenied(e.Err):
		return "the server may not act as its caller; an administrator must add that to its ClusterRole"
	case apierrors.IsForbidden(e.Err):
		return fmt.Sprintf("user %q may not %s %s", callers.NameOf(ctx), e.Verb, e.Resource)
	case meta.IsNoMatchError(e.Err), apierrors.IsNotFound(e.Err):
		return "this cluster does not serve it"
	case apierrors.IsServiceUnavailable(e.Err), apierrors.IsTooManyRequests(e.Err):
		return "it cannot be asked now: " + scrub(Message(e.Err))
	default:
		log.FromContext(ctx).Error(e.Err, "A part of an answer could not be read", "verb", e.Verb, "resource", e.Resource)
		return "the Kubernetes API did not answer as expected"
	}
}

package kubeevents

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const (
	// Page is the number of Events in one request.
	Page = 500
	// Pages is the maximum number of pages that are read to find the newest Events.
	Pages = 4
)

// Read reads the Events that match the options, starting at their continue token; it
// ignores their limit. next is the continue token for the rest, or "" if there is none. If
// a page fails, the Events of earlier pages are returned too.
func Read(ctx context.Context, kube client.Reader, options client.ListOptions) (read []corev1.Event, next string, failed *toolset.CallError) {
	options.Limit = Page
	for range Pages {
		page := &corev1.EventList{}
		if err := kube.List(ctx, page, &options); err != nil {
			return read, "", &toolset.CallError{Verb: "list", Resource: "events", Namespace: options.Namespace, Err: err}
		}
		read = append(read, page.Items...)
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	return read, options.Continue, nil
}

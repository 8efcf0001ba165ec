package kubeevents

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const (
	// Page is how many are asked for in one request.
	Page = 500
	// Pages is how many pages are read, to find the newest Events among them.
	Pages = 4
)

// Read reads the Events that the options select, from the place on that they name;
// their limit does not count. Next is where the API goes on, and empty where there
// are no more. What was read before a page failed is returned too.
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

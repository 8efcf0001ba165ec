package diagnosis

import (
	"cmp"
	"context"
	"slices"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// gap is something that could not be read.
type gap struct {
	// resource is the resource that could not be read.
	resource string
	// sentence names the object and the reason.
	sentence string
}

func compareGaps(a, b gap) int {
	return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.sentence, b.sentence))
}

func newGap(ctx context.Context, call *toolset.CallError) gap {
	return gap{call.Resource, toolset.Gap(ctx, call)}
}

// missing returns the resources of the gaps without duplicates.
func missing(gaps []gap) []string {
	var all []string
	for _, g := range gaps {
		if !slices.Contains(all, g.resource) {
			all = append(all, g.resource)
		}
	}
	return all
}

package diagnosis

import (
	"cmp"
	"context"
	"slices"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// gap is something that could not be looked at.
type gap struct {
	// resource is what it is.
	resource string
	// sentence says which, and why not.
	sentence string
}

func compareGaps(a, b gap) int {
	return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.sentence, b.sentence))
}

func newGap(ctx context.Context, call *toolset.CallError) gap {
	return gap{call.Resource, toolset.Gap(ctx, call)}
}

// missing are the resources of the gaps, each once.
func missing(gaps []gap) []string {
	var all []string
	for _, g := range gaps {
		if !slices.Contains(all, g.resource) {
			all = append(all, g.resource)
		}
	}
	return all
}

package diagnosis

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// timeLimit is how long is gathered. What has not been told by then is a gap.
const timeLimit = 8 * time.Second

// examiner examines objects as the caller of the context.
type examiner struct {
	kube *callers.Kube
	// limit is how long is gathered.
	limit time.Duration
}

// gathering collects what can be read, in parts that run at once.
type gathering struct {
	kube  *callers.Kube
	parts sync.WaitGroup

	mu   sync.Mutex
	gaps []gap
}

// part runs a part beside the others. Each writes to facts of its own.
func (g *gathering) part(read func()) { g.parts.Go(read) }

// wait waits for all parts. They end with their context.
func (g *gathering) wait() []gap {
	g.parts.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.SortFunc(g.gaps, compareGaps)
	return slices.Compact(g.gaps)
}

// miss notes that something could not be read.
func (g *gathering) miss(ctx context.Context, call *toolset.CallError) {
	g.note(newGap(ctx, call))
}

func (g *gathering) note(missing gap) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gaps = append(g.gaps, missing)
}

// get reads an object. Found says that it is there, and read that this is known:
// that there is none is no gap.
func (g *gathering) get(ctx context.Context, obj client.Object, resource string, key client.ObjectKey) (found, read bool) {
	err := g.kube.Get(ctx, key, obj)
	if err == nil || apierrors.IsNotFound(err) {
		return err == nil, true
	}
	g.miss(ctx, &toolset.CallError{Verb: "get", Resource: resource, Namespace: key.Namespace, Name: key.Name, Err: err})
	return false, false
}

// list reads the first objects of a list. An empty namespace is all of them.
func (g *gathering) list(ctx context.Context, list client.ObjectList, resource, namespace string, most int64, options ...client.ListOption) {
	options = append(options, client.InNamespace(namespace), client.Limit(most))
	if err := g.kube.List(ctx, list, options...); err != nil {
		g.miss(ctx, &toolset.CallError{Verb: "list", Resource: resource, Namespace: namespace, Err: err})
		return
	}
	if list.GetContinue() != "" {
		g.note(gap{resource, fmt.Sprintf("only the first %d %s were looked at, and there are more", most, resource)})
	}
}

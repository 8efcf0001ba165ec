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

// timeLimit limits the time for gathering. Data that was not read by then is a gap.
const timeLimit = 8 * time.Second

// examiner diagnoses objects with the permissions of the caller in the context.
type examiner struct {
	kube *callers.Kube
	// limit is the time limit for gathering.
	limit time.Duration
}

// gathering reads the data in parts that run concurrently.
type gathering struct {
	kube  *callers.Kube
	parts sync.WaitGroup

	mu   sync.Mutex
	gaps []gap
}

// part runs read concurrently with the other parts. Each part must write to its own fields.
func (g *gathering) part(read func()) { g.parts.Go(read) }

// wait waits for all parts, which end at the latest when their context ends, and returns
// the gaps.
func (g *gathering) wait() []gap {
	g.parts.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.SortFunc(g.gaps, compareGaps)
	return slices.Compact(g.gaps)
}

// miss records that something could not be read.
func (g *gathering) miss(ctx context.Context, call *toolset.CallError) {
	g.note(newGap(ctx, call))
}

func (g *gathering) note(missing gap) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gaps = append(g.gaps, missing)
}

// get reads an object. found reports whether it exists; read is false if that is unknown. A
// missing object is not a gap.
func (g *gathering) get(ctx context.Context, obj client.Object, resource string, key client.ObjectKey) (found, read bool) {
	err := g.kube.Get(ctx, key, obj)
	if err == nil || apierrors.IsNotFound(err) {
		return err == nil, true
	}
	g.miss(ctx, &toolset.CallError{Verb: "get", Resource: resource, Namespace: key.Namespace, Name: key.Name, Err: err})
	return false, false
}

// list reads the first objects of a list. An empty namespace means all namespaces.
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

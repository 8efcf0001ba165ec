package replication

import (
	"context"
	"errors"
	"net/http/httptrace"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectlog"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// group is that of all logs, for messages.
const group = "aggregation.coder.com"

func schemaOf(resource string) schema.GroupResource {
	return schema.GroupResource{Group: group, Resource: resource}
}

// Committer decides writes of one kind: here, where this replica is the writer, by
// asking the writer otherwise.
func (r *Replica) Committer(resource string) objectlog.Committer {
	return &committer{replica: r, resource: resource}
}

type committer struct {
	replica  *Replica
	resource string
}

// Commit decides a write.
func (c *committer) Commit(ctx context.Context, commit objectlog.Commit) (*objectlog.Entry, error) {
	r := c.replica
	if t := r.term.Load(); t != nil {
		return r.commit(ctx, t, c.resource, commit)
	}
	entry, err := c.forward(ctx, commit)
	r.config.Metrics.forwarded(c.resource, outcome(err))
	return entry, err
}

// forward asks the writer.
func (c *committer) forward(ctx context.Context, commit objectlog.Commit) (_ *objectlog.Entry, err error) {
	ctx, span := tracing.Start(ctx, "Forward a write", trace.WithSpanKind(trace.SpanKindClient))
	defer func() { tracing.End(span, err) }()
	r := c.replica
	current, _ := r.lock.seen()
	if current.identity == "" || current.own {
		return nil, unavailable("no replica is the writer yet")
	}
	data, err := encodeObject(commit.Object)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	request := commitRequest{Resource: c.resource, Key: commit.Key, Expect: commit.Expect, Object: data}
	var response commitResponse
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	if err := r.dialer.call(traced, current.target(), pathCommit, request, &response); err != nil {
		return nil, forwardError(ctx, err, sent.Load(), commit.Expect)
	}
	return c.result(ctx, &response)
}

// forwardError says what became of a write that got no answer.
func forwardError(ctx context.Context, err error, sent bool, expect uint64) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if refused := (*refusal)(nil); !sent || errors.As(err, &refused) {
		return unavailable("the writer does not answer")
	}
	return interrupted(expect)
}

// interrupted is the answer where a write may have been done or not. A change of an
// object can be tried again without harm, its revision guards it. A creation cannot:
// the client would be told that its own object is in its way.
func interrupted(expect uint64) error {
	const reason = "the writer went away while it was deciding, and may have done it or not"
	if expect != 0 {
		return unavailable(reason)
	}
	return apierrors.NewTimeoutError(reason+"; look whether the object is there before trying again", 0)
}

// result waits until the own log shows the outcome.
func (c *committer) result(ctx context.Context, response *commitResponse) (*objectlog.Entry, error) {
	r := c.replica
	if response.Status != nil {
		return nil, &apierrors.StatusError{ErrStatus: *response.Status}
	}
	config := r.config.Logs[c.resource]
	waiting, cancel := context.WithTimeout(ctx, r.config.timing.appear)
	defer cancel()
	if err := config.Log.Wait(waiting, response.Head); err != nil {
		// It is done all the same, and must not look as if it were not.
		log.FromContext(ctx).Info("Answering a write that this replica does not show yet",
			"resource", c.resource, "revision", response.Head)
	}
	if response.Changed {
		return nil, objectlog.ErrChanged
	}
	if response.Entry == nil {
		return nil, nil
	}
	entry, err := response.Entry.entry(config.NewObject)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return entry, nil
}

// answer decides a write that another replica forwards.
func (r *Replica) answer(ctx context.Context, t *term, request *commitRequest) (*commitResponse, error) {
	config, ok := r.config.Logs[request.Resource]
	if !ok {
		return statusResponse(apierrors.NewNotFound(schemaOf(request.Resource), "")), nil
	}
	object, err := decodeObject(request.Object, config.NewObject)
	if err != nil {
		return statusResponse(apierrors.NewBadRequest(err.Error())), nil
	}
	entry, err := r.commit(ctx, t, request.Resource, objectlog.Commit{Key: request.Key, Expect: request.Expect, Object: object})
	switch {
	case errors.Is(err, objectlog.ErrChanged):
		// The follower reads again: it must not do so before it has what this was about.
		return &commitResponse{Changed: true, Head: config.Log.Head()}, nil
	case err != nil:
		return statusResponse(err), nil
	case entry == nil:
		return &commitResponse{Head: config.Log.Head()}, nil
	}
	encoded, err := encodeEntry(entry)
	return &commitResponse{Head: entry.Revision, Entry: &encoded}, err
}

func statusResponse(err error) *commitResponse {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	plain := status.Status()
	return &commitResponse{Status: &plain}
}

// outcome is what the metric calls it.
func outcome(err error) string {
	switch {
	case err == nil:
		return "done"
	case apierrors.IsServiceUnavailable(err):
		return "unavailable"
	case apierrors.IsTimeout(err):
		return "unknown"
	}
	return "refused"
}

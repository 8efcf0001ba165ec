package workload

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/coder-k8s/coder-k8s/internal/requestid"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// traced wraps a reconciler. Each pass is a trace of its own, and the reconcile ID is the request
// ID of the requests to Coder. The logger of a pass already has the same ID as reconcileID.
type traced struct {
	next    reconcile.Reconciler
	kind    string
	tracing *tracing.Provider
}

// Reconcile implements reconcile.Reconciler.
func (t traced) Reconcile(ctx context.Context, req reconcile.Request) (_ reconcile.Result, err error) {
	id := string(controller.ReconcileIDFromContext(ctx))
	ctx = requestid.Into(ctx, id)
	ctx, span := t.tracing.Begin(ctx, "Reconcile "+t.kind, tracing.Names(req.Namespace, req.Name),
		trace.WithAttributes(attribute.String("reconcile.id", id)))
	defer func() { tracing.End(span, err) }()
	return t.next.Reconcile(ctx, req)
}

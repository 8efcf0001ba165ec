package tools

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// awaitWorkspace waits until a workspace runs with its agents connected, or is
// stopped, or until only a person can help. It keeps ws current, and says what the
// caller of the tool must know besides.
func awaitWorkspace(
	ctx context.Context, call *toolset.Call, ws *aggregationv1alpha1.CoderWorkspace, running bool, timeoutSeconds int,
) (message string, err error) {
	phase := "Stopped"
	if running {
		phase = "Running"
	}
	gone, err := call.Until(ctx, ws, time.Duration(timeoutSeconds)*time.Second, func() (bool, string) {
		conditions := ws.Status.Conditions
		ready := meta.IsStatusConditionTrue(conditions, aggregationv1alpha1.ConditionReady) && ws.Status.Phase == phase
		return ready || stalledMessage(conditions) != "", ws.Status.Phase + ": " + progressMessage(conditions)
	})
	if gone {
		return "somebody deleted the workspace meanwhile", err
	}
	if stalled := stalledMessage(ws.Status.Conditions); stalled != "" {
		return fmt.Sprintf("%s; get_build_logs shows the whole log", stalled), err
	}
	return "", err
}

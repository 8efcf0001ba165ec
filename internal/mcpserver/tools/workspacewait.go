package tools

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// awaitWorkspace waits until the workspace is ready in the phase Running or Stopped, or
// until a user must act. It updates ws. message is not empty if the workspace was deleted
// or is stalled.
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

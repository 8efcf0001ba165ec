package status

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// workloadHint returns a command that shows the cause: the log or the description of the pods if
// the reason concerns them, else the description of the object.
func workloadHint(resource string, object client.Object, reason, selector string) string {
	pods := ""
	switch reason {
	case coderv1alpha1.ReasonCrashLooping:
		pods = "logs --prefix --previous"
	case coderv1alpha1.ReasonDatabaseUnreachable, coderv1alpha1.ReasonDatabaseMissing, coderv1alpha1.ReasonUnreachable:
		pods = "logs --prefix"
	case coderv1alpha1.ReasonImagePullFailed, coderv1alpha1.ReasonContainerConfigInvalid, coderv1alpha1.ReasonUnschedulable,
		coderv1alpha1.ReasonProgressing, coderv1alpha1.ReasonProgressDeadlineExceeded:
		pods = "describe pods"
	case coderv1alpha1.ReasonPodsRefused:
		pods = "describe replicasets"
	}
	if pods == "" || selector == "" {
		return fmt.Sprintf("kubectl -n %s describe %s %s", object.GetNamespace(), resource, object.GetName())
	}
	return fmt.Sprintf("kubectl -n %s %s -l %s", object.GetNamespace(), pods, selector)
}

// workspaceHint is like workloadHint, for a workspace.
func workspaceHint(w *aggregationv1alpha1.CoderWorkspace, reason string) string {
	log := ""
	switch reason {
	case aggregationv1alpha1.ReasonAgentsUnhealthy:
		log = " --scripts"
	case aggregationv1alpha1.ReasonContainerCrashed, aggregationv1alpha1.ReasonOutOfMemory:
		log = " --agent --previous"
	case aggregationv1alpha1.ReasonAgentsUnavailable:
		log = " --agent"
	case aggregationv1alpha1.ReasonImagePullFailed, aggregationv1alpha1.ReasonContainerConfigInvalid, aggregationv1alpha1.ReasonUnschedulable,
		aggregationv1alpha1.ReasonVolumeMountFailed, aggregationv1alpha1.ReasonSandboxFailed, aggregationv1alpha1.ReasonPodEvicted:
		return fmt.Sprintf("kubectl -n %s describe pods -l com.coder.workspace.id=%s", w.Namespace, w.Status.ID)
	case aggregationv1alpha1.ReasonPodGone:
		return fmt.Sprintf("kubectl coder restart -n %s %s makes its pod again", w.Namespace, w.Name)
	}
	return fmt.Sprintf("kubectl coder logs -n %s %s%s", w.Namespace, w.Name, log)
}

package workspace

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// verdict is what one condition says.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

// conditionsOf derives all conditions from the latest build and its agents.
// Their time is that of the build: Coder tells no other, and one taken from our
// own clock would differ between replicas.
func conditionsOf(w coderd.Workspace) []metav1.Condition {
	build, agents := buildVerdict(w.LatestBuild), agentsVerdict(w)
	ready := readyVerdict(w.LatestBuild, build, agents)
	at := registry.Seconds(w.LatestBuild.UpdatedAt)
	condition := func(kind string, v verdict) metav1.Condition {
		return metav1.Condition{
			Type: kind, Status: v.status, Reason: v.reason, Message: v.message,
			ObservedGeneration: 1, LastTransitionTime: at,
		}
	}
	return []metav1.Condition{
		condition(aggregationv1alpha1.ConditionReady, ready),
		condition(aggregationv1alpha1.ConditionReconciling, reconcilingVerdict(ready, build, agents)),
		condition(aggregationv1alpha1.ConditionStalled, stalledVerdict(ready, build)),
		condition(aggregationv1alpha1.ConditionBuildSucceeded, build),
		condition(aggregationv1alpha1.ConditionAgentsConnected, agents),
	}
}

func buildVerdict(b coderd.Build) verdict {
	switch b.Status {
	case statusPending:
		return verdict{metav1.ConditionUnknown, aggregationv1alpha1.ReasonBuildPending, fmt.Sprintf("the %s build waits for a provisioner", b.Transition)}
	case statusStarting, statusStopping, statusDeleting, statusCanceling:
		return verdict{metav1.ConditionUnknown, aggregationv1alpha1.ReasonBuildRunning, fmt.Sprintf("the %s build is under way", b.Transition)}
	case statusFailed:
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonBuildFailed, fmt.Sprintf("the %s build failed: %s", b.Transition, orUnknown(b.Error))}
	case statusCanceled:
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonBuildCanceled, fmt.Sprintf("the %s build was canceled", b.Transition)}
	case statusRunning, statusStopped, statusDeleted:
		return verdict{metav1.ConditionTrue, aggregationv1alpha1.ReasonBuildSucceeded, fmt.Sprintf("the %s build succeeded", b.Transition)}
	default:
		return verdict{metav1.ConditionUnknown, aggregationv1alpha1.ReasonBuildRunning, fmt.Sprintf("the status of the %s build is %q", b.Transition, b.Status)}
	}
}

func agentsVerdict(w coderd.Workspace) verdict {
	if w.LatestBuild.Status != statusRunning {
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonStopped, "the workspace does not run"}
	}
	if len(w.Agents) == 0 {
		return verdict{metav1.ConditionTrue, aggregationv1alpha1.ReasonNoAgents, "the workspace has no agents"}
	}
	var connecting, lost []string
	for _, a := range w.Agents {
		switch a.Status {
		case "connected":
		case "connecting":
			connecting = append(connecting, a.Name)
		default:
			lost = append(lost, a.Name+" is "+a.Status)
		}
	}
	switch {
	case len(lost) > 0:
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonAgentsUnavailable, "agents that are not connected: " + strings.Join(lost, ", ")}
	case len(connecting) > 0:
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonAgentsConnecting, "agents that have not connected yet: " + strings.Join(connecting, ", ")}
	default:
		return verdict{metav1.ConditionTrue, aggregationv1alpha1.ReasonAgentsConnected, "all agents are connected"}
	}
}

func readyVerdict(b coderd.Build, build, agents verdict) verdict {
	switch {
	case isDeleting(b):
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonDeleting, "the workspace is being deleted"}
	case build.status != metav1.ConditionTrue:
		return verdict{metav1.ConditionFalse, build.reason, build.message}
	case b.Status == statusStopped:
		return verdict{metav1.ConditionTrue, aggregationv1alpha1.ReasonStopped, "the workspace is stopped, as its spec asks"}
	case agents.status != metav1.ConditionTrue:
		return verdict{metav1.ConditionFalse, agents.reason, agents.message}
	default:
		return verdict{metav1.ConditionTrue, aggregationv1alpha1.ReasonRunning, "the workspace runs"}
	}
}

func reconcilingVerdict(ready, build, agents verdict) verdict {
	if build.status == metav1.ConditionUnknown || ready.reason == aggregationv1alpha1.ReasonDeleting ||
		agents.reason == aggregationv1alpha1.ReasonAgentsConnecting {
		return verdict{metav1.ConditionTrue, ready.reason, ready.message}
	}
	return verdict{metav1.ConditionFalse, ready.reason, "nothing is under way"}
}

func stalledVerdict(ready, build verdict) verdict {
	if build.status == metav1.ConditionFalse {
		return verdict{metav1.ConditionTrue, build.reason, build.message}
	}
	return verdict{metav1.ConditionFalse, ready.reason, "nothing waits for a person"}
}

func orUnknown(message string) string {
	if message == "" {
		return "Coder gives no reason"
	}
	return message
}

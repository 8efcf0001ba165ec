package controlplane

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/resources"
)

// fresh is how old a line may be to tell what a running coderd is doing. It
// tries its database again every few seconds, for half a minute, and then ends.
const fresh = 20 * time.Second

// processTrouble is a coderd that ends, or runs and does not get ready. It knows
// from Coder's own words whether that is because of the database.
func (r *Reconciler) processTrouble(ctx context.Context, s *scope, pod *corev1.Pod) *problem {
	status := containerStatus(pod, resources.ContainerName)
	if status == nil || status.Ready {
		return nil
	}
	var secrets []string
	words := r.lastWords(ctx, pod, status)
	running := ""
	if status.State.Running != nil {
		running = r.tail(ctx, pod, LogRequest{Since: fresh})
	}
	if words != "" || running != "" {
		secrets = r.secretValues(ctx, s)
	}
	for _, text := range []string{running, words} {
		if cause := databaseCause(text); cause != "" {
			return &problem{coderv1alpha1.ReasonDatabaseUnreachable, fmt.Sprintf(
				"Coder cannot use its database: %s; check the database, and the value of %s",
				clipped(redact(cause, secrets)), resources.EnvDatabase)}
		}
	}
	return crashTrouble(status, redact(lastLine(words), secrets))
}

// crashTrouble is a container that ended at least once and is not ready.
func crashTrouble(status *corev1.ContainerStatus, lastLine string) *problem {
	ended := lastTermination(status)
	if ended == nil || (ended.ExitCode == 0 && status.State.Running != nil) {
		return nil
	}
	if ended.Reason == "OOMKilled" {
		return &problem{coderv1alpha1.ReasonCrashLooping,
			"coderd was ended because it used more memory than its limit; raise spec.resources.limits.memory"}
	}
	message := fmt.Sprintf("coderd ended with exit code %d", ended.ExitCode)
	if lastLine != "" {
		message += ": " + clipped(lastLine)
	}
	return &problem{coderv1alpha1.ReasonCrashLooping, message}
}

// lastWords are the last lines of a coderd that ended: the kubelet keeps them,
// where the container runtime gave them to it, or else its log has them.
func (r *Reconciler) lastWords(ctx context.Context, pod *corev1.Pod, status *corev1.ContainerStatus) string {
	ended := lastTermination(status)
	if ended == nil {
		return ""
	}
	if ended.Message != "" {
		return ended.Message
	}
	return r.tail(ctx, pod, LogRequest{Previous: status.State.Terminated == nil})
}

// tail reads a log. That it cannot be read is no trouble of the control plane's:
// the container may not have one yet.
func (r *Reconciler) tail(ctx context.Context, pod *corev1.Pod, request LogRequest) string {
	request.Namespace, request.Pod, request.Container = pod.Namespace, pod.Name, resources.ContainerName
	text, err := r.logs.Tail(ctx, request)
	if err != nil {
		log.FromContext(ctx).V(1).Info("Reading no container log", "reason", redact(err.Error(), nil))
		return ""
	}
	return text
}

func lastTermination(status *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if status.State.Terminated != nil {
		return status.State.Terminated
	}
	return status.LastTerminationState.Terminated
}

func containerStatus(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == name {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}

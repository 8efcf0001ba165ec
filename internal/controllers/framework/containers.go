package framework

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// fresh is the maximum age of a log line that describes what a running process is doing. Coder
// retries its database every few seconds for half a minute, and then exits.
const fresh = 20 * time.Second

// containerTrouble reports a container that exits, or runs and does not become ready. The kind may
// explain the reason from the container's output.
func (t *Toolkit) containerTrouble(ctx context.Context, p *Pass, pod *corev1.Pod, status *corev1.ContainerStatus) *Problem {
	words, running := "", ""
	if exit := podproblem.LastTermination(status); exit != nil {
		if words = exit.Message; words == "" {
			words = t.tail(ctx, pod, LogRequest{Container: status.Name, Previous: status.State.Terminated == nil})
		}
	}
	explains := p.Hooks.Explain != nil && status.Name == resources.PodContainer(p.Workload)
	if explains && status.State.Running != nil {
		running = t.tail(ctx, pod, LogRequest{Container: status.Name, Since: fresh})
	}
	redactor := &redaction.Redactor{}
	if words != "" || running != "" {
		redactor = t.secretsOf(ctx, p, pod)
		// Redact before truncating, so that no part of a secret remains.
		words, running = redactor.Message(words), redactor.Message(running)
	}
	for _, text := range []string{running, words} {
		if !explains || text == "" {
			continue
		}
		if cause := p.Hooks.Explain(text); cause != nil {
			return &Problem{cause.Reason, redactor.Quote(cause.Message, longestQuote)}
		}
	}
	p.keepsCrashing = podproblem.KeepsCrashing(status)
	ended := podproblem.Ended(status)
	if ended == nil {
		return nil
	}
	if podproblem.IsOutOfMemory(ended) {
		field := "spec.resources.limits.memory"
		if status.Name != resources.PodContainer(p.Workload) {
			field = "its memory limit in spec.podTemplate"
		}
		return &Problem{coderv1alpha1.ReasonCrashLooping,
			fmt.Sprintf("container %q was killed because it exceeded its memory limit (OOMKilled); raise %s", status.Name, field)}
	}
	message := fmt.Sprintf("container %q exited with code %d", status.Name, ended.ExitCode)
	if lastLine := redactor.Quote(podproblem.LastLine(words), longestQuote); lastLine != "" {
		message += ": " + lastLine
	}
	remedy := (&podproblem.Problem{Kind: podproblem.Crash, ExitCode: ended.ExitCode}).Remedy("the spec")
	return &Problem{coderv1alpha1.ReasonCrashLooping, message + "; " + remedy}
}

// tail reads a log. It logs an error and returns an empty string, because a container may not have
// a log yet.
func (t *Toolkit) tail(ctx context.Context, pod *corev1.Pod, request LogRequest) string {
	request.Namespace, request.Pod = pod.Namespace, pod.Name
	text, err := t.Logs(ctx, request)
	if err != nil {
		log.FromContext(ctx).V(1).Info("Could not read the log of a container", "reason", Redact(err.Error()))
		return ""
	}
	return text
}

// LogRequest names a part of a container's log.
type LogRequest struct {
	Namespace, Pod, Container string
	// Previous reads the log of the container before the last restart.
	Previous bool
	// Since leaves out older lines. 0 means all.
	Since time.Duration
}

// longestQuote is the maximum length of a quoted text in a condition.
const longestQuote = 400

// Redact removes secrets from a text that is not the operator's own.
func Redact(text string) string { return new(redaction.Redactor).Message(text) }

// Quote returns a text that is not the operator's own in the form in which conditions quote it:
// without secrets, on one line and truncated.
func Quote(text string) string { return new(redaction.Redactor).Quote(text, longestQuote) }

// secretsOf returns a redactor with the values that the containers of a pod get from Secrets, and
// with the values of environment variables that look like secrets. Secrets that cannot be read are
// skipped.
func (t *Toolkit) secretsOf(ctx context.Context, p *Pass, pod *corev1.Pod) *redaction.Redactor {
	redactor := &redaction.Redactor{}
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers, p.Deployment.Spec.Template.Spec.Containers) {
		for _, variable := range container.Env {
			if strings.Contains(variable.Value, "://") || redaction.VariableNamesSecret(variable.Name) {
				redactor.Learn(variable.Value)
			}
		}
	}
	for _, reference := range resources.References(p.Deployment.Spec.Template.Spec) {
		if reference.Kind != resources.KindSecret {
			continue
		}
		secret := &corev1.Secret{}
		if t.Live.Get(ctx, client.ObjectKey{Namespace: p.Workload.Namespace, Name: reference.Name}, secret) != nil {
			continue
		}
		for key, value := range secret.Data {
			if reference.Keys == nil || slices.Contains(reference.Keys, key) {
				redactor.Learn(string(value))
			}
		}
	}
	return redactor
}

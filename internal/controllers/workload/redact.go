package workload

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

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
		for key, value := range t.secretData(ctx, p, reference.Name) {
			if reference.Keys == nil || slices.Contains(reference.Keys, key) {
				redactor.Learn(string(value))
			}
		}
	}
	return redactor
}

func (t *Toolkit) secretData(ctx context.Context, p *Pass, name string) map[string][]byte {
	secret := &corev1.Secret{}
	if err := t.Live.Get(ctx, client.ObjectKey{Namespace: p.Workload.Namespace, Name: name}, secret); err != nil {
		return nil
	}
	return secret.Data
}

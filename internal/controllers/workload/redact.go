package workload

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

const (
	redacted = "[redacted]"
	// shortestSecret: a shorter value is a number, a flag or a user name.
	shortestSecret = 6
	// longestQuote is how much of a foreign text a condition quotes.
	longestQuote = 400
)

var (
	// userInfo reaches to the last @ before a space, because a password that is
	// not escaped may hold any character.
	userInfo = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)\S*@`)
	// secretName is the name of a variable whose value is not meant to be read.
	secretName = regexp.MustCompile(`(?i)secret|passw|token|credential|private|psk|_key$`)
	// keyedSecret is a password in the other form of a connection string.
	keyedSecret = regexp.MustCompile(`(?i)\b(password|passwd|pwd|secret|token)=('[^']*'|"[^"]*"|\S+)`)
)

// Redact takes out of a foreign text what must not be read in a condition: the
// credentials in URLs and connection strings, and the given values.
func Redact(text string, secrets ...string) string {
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	text = userInfo.ReplaceAllString(text, "$1")
	return keyedSecret.ReplaceAllString(text, "$1="+redacted)
}

// Clipped is as much of a foreign text as a condition quotes.
func Clipped(text string) string {
	if len(text) <= longestQuote {
		return text
	}
	return strings.ToValidUTF8(text[:longestQuote], "") + "…"
}

// secretValues are the values that the containers of a pod get from Secrets, and
// the passwords in them, longest first, so that a part does not break up the whole.
// What cannot be read is not known to the caller either.
func (t *Toolkit) secretValues(ctx context.Context, p *Pass, pod *corev1.Pod) []string {
	var values []string
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers, p.Deployment.Spec.Template.Spec.Containers) {
		for _, variable := range container.Env {
			if strings.Contains(variable.Value, "://") || secretName.MatchString(variable.Name) {
				values = append(values, variable.Value)
			}
		}
	}
	for _, reference := range resources.References(p.Deployment.Spec.Template.Spec) {
		if reference.Kind != resources.KindSecret {
			continue
		}
		for key, value := range t.secretData(ctx, p, reference.Name) {
			if reference.Keys == nil || slices.Contains(reference.Keys, key) {
				values = append(values, string(value))
			}
		}
	}
	return withPasswords(values)
}

func (t *Toolkit) secretData(ctx context.Context, p *Pass, name string) map[string][]byte {
	secret := &corev1.Secret{}
	if err := t.Live.Get(ctx, client.ObjectKey{Namespace: p.Workload.Namespace, Name: name}, secret); err != nil {
		return nil
	}
	return secret.Data
}

func withPasswords(values []string) []string {
	var all []string
	for _, value := range values {
		value = strings.TrimSpace(value)
		all = append(all, value)
		if _, rest, isURL := strings.Cut(value, "://"); isURL {
			if at := strings.LastIndex(rest, "@"); at >= 0 {
				_, password, _ := strings.Cut(rest[:at], ":")
				all = append(all, password, unescaped(password))
			}
		}
	}
	all = slices.DeleteFunc(all, func(value string) bool { return len(value) < shortestSecret })
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(all)
}

func unescaped(password string) string {
	if plain, err := url.PathUnescape(password); err == nil {
		return plain
	}
	return password
}

package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// chartContainer is the name of Coder's container in the charts.
const chartContainer = "coder"

// formVariables are set by the charts without a value of theirs. The operator sets them in another
// way or to another value.
var formVariables = []string{"CODER_HTTP_ADDRESS", "CODER_ACCESS_URL", "CODER_DERP_SERVER_RELAY_URL", "CODER_URL"}

// keepForm adds the properties of the running pods to the manifest that do not result from values:
// the command line, and other fields that a chart sets differently than the operator. Without them
// the operator would replace the pods by equivalent ones.
func keepForm(manifest *Manifest, live *appsv1.Deployment) error {
	template := live.Spec.Template
	at := slices.IndexFunc(template.Spec.Containers, func(c corev1.Container) bool { return c.Name == chartContainer })
	if at < 0 {
		return fmt.Errorf("the Deployment %q has no container %q, so it was not created by a chart of Coder", live.Name, chartContainer)
	}
	c := template.Spec.Containers[at]
	if slices.ContainsFunc(slices.Concat(c.Args, c.Command), redaction.HoldsSecret) {
		return fmt.Errorf("the command line in Deployment %q holds a credential, which is not copied into a manifest; "+
			"put it into a Secret, refer to that by coder.env in the release, and run this again", live.Name)
	}
	spec := manifest.Spec
	spec["image"], spec["imagePullPolicy"] = c.Image, string(c.ImagePullPolicy)
	// A nil slice would become null, which is not a list.
	spec["command"], spec["args"] = append([]string{}, c.Command...), append([]string{}, c.Args...)
	if live.Spec.Replicas != nil {
		spec["replicas"] = int64(*live.Spec.Replicas)
	}
	affinity := map[string]any{}
	if template.Spec.Affinity != nil {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(template.Spec.Affinity)
		if err != nil {
			return fmt.Errorf("reading the affinity of Deployment %q: %w", live.Name, err)
		}
		affinity = content
	}
	spec["affinity"] = affinity
	keepVariables(manifest, c.Env)
	keepContainer(manifest, c)
	return keepMetadata(manifest, live)
}

// keepVariables adds the variables that the chart always sets, without credentials.
func keepVariables(manifest *Manifest, env []corev1.EnvVar) {
	given, _ := manifest.Spec["extraEnv"].([]any)
	for _, variable := range env {
		isGiven := slices.ContainsFunc(given, func(entry any) bool {
			fields, ok := entry.(map[string]any)
			return ok && fields["name"] == variable.Name
		})
		if isGiven || !slices.Contains(formVariables, variable.Name) || variable.ValueFrom != nil || redaction.HoldsSecret(variable.Value) {
			continue
		}
		if variable.Name == "CODER_URL" {
			manifest.Spec["url"] = variable.Value
			continue
		}
		given = append(given, map[string]any{"name": variable.Name, "value": variable.Value})
	}
	if len(given) > 0 {
		manifest.Spec["extraEnv"] = given
	}
}

// keepMetadata keeps the labels and annotations of the pods, which Helm would no longer own. It
// returns an error if one of them looks like a secret to the conversion of values.
func keepMetadata(manifest *Manifest, live *appsv1.Deployment) error {
	for _, all := range []map[string]string{live.Spec.Template.Labels, live.Spec.Template.Annotations} {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if redaction.HoldsSecret(all[key]) || sensitiveKey(key, all[key]) {
				return fmt.Errorf("the label or annotation %q of the pods of Deployment %q holds a credential, which is not copied into a manifest; "+
					"remove it in the release, and run this again", key, live.Name)
			}
		}
	}
	labels, annotations := map[string]any{}, map[string]any{}
	for key, value := range live.Spec.Template.Labels {
		if _, selects := live.Spec.Selector.MatchLabels[key]; !selects {
			labels[key] = value
		}
	}
	for key, value := range live.Spec.Template.Annotations {
		if key != coderv1alpha1.LabelComponent {
			annotations[key] = value
		}
	}
	metadata := within(within(manifest.Spec, "podTemplate"), "metadata")
	for field, all := range map[string]map[string]any{"labels": labels, "annotations": annotations} {
		if len(all) > 0 {
			metadata[field] = all
		}
	}
	return nil
}

// keepContainer keeps the terminationMessagePolicy of the container, and the empty lifecycle that
// the charts write: Kubernetes distinguishes it from a missing one.
func keepContainer(manifest *Manifest, c corev1.Container) {
	spec := within(within(manifest.Spec, "podTemplate"), "spec")
	containers, _ := spec["containers"].([]any)
	if len(containers) == 0 {
		containers = []any{map[string]any{"name": ContainerName(manifest.Kind)}}
	}
	if entry, ok := containers[0].(map[string]any); ok {
		entry["terminationMessagePolicy"] = string(c.TerminationMessagePolicy)
		if c.Lifecycle != nil && *c.Lifecycle == (corev1.Lifecycle{}) {
			entry["lifecycle"] = map[string]any{}
		}
	}
	spec["containers"] = containers
}

// differences returns the fields in which two pod templates differ, sorted and formatted for
// people.
func differences(before, after *corev1.PodTemplateSpec) ([]string, error) {
	was, err := flat(before)
	if err != nil {
		return nil, err
	}
	becomes, err := flat(after)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(was)
	maps.Copy(all, becomes)
	var found []string
	for _, path := range slices.Sorted(maps.Keys(all)) {
		before, after := was[path], becomes[path]
		switch {
		case before == after:
		case before != "" && after != "" && (hidden(path, before) || hidden(path, after)):
			found = append(found, path+": another value")
		default:
			found = append(found, fmt.Sprintf("%s: %s → %s", path, formatValue(path, before), formatValue(path, after)))
		}
	}
	return found, nil
}

func formatValue(path, value string) string {
	switch {
	case value == "":
		return "nothing"
	case hidden(path, value):
		return "a value"
	}
	return value
}

// flat returns the fields of a pod template by path. The path of a list entry contains its index
// and its name, because the order matters.
func flat(template *corev1.PodTemplateSpec) (map[string]string, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(template)
	if err != nil {
		return nil, fmt.Errorf("reading a pod template: %w", err)
	}
	all := map[string]string{}
	flatten(all, "", content)
	return all, nil
}

func flatten(into map[string]string, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		// An empty object differs from a missing one.
		if len(v) == 0 {
			into[path] = "{}"
		}
		for key, below := range v {
			flatten(into, strings.TrimPrefix(path+"."+key, "."), below)
		}
	case []any:
		for i, entry := range v {
			name := fmt.Sprint(i)
			if fields, ok := entry.(map[string]any); ok {
				if text, ok := fields["name"].(string); ok {
					name += " " + text
				}
			}
			flatten(into, path+"["+name+"]", entry)
		}
	case nil:
	default:
		into[path] = fmt.Sprintf("%q", fmt.Sprint(v))
	}
}

// hidden reports whether a field may contain a secret: the value of a variable or of a header, a
// command line, and what looks like a secret to the conversion of values.
func hidden(path, quoted string) bool {
	// An empty object is not quoted, and contains no secret.
	value, _ := strconv.Unquote(quoted)
	return (strings.Contains(path, ".env[") || strings.Contains(path, ".httpHeaders[")) && strings.HasSuffix(path, ".value") ||
		strings.Contains(path, ".args[") || strings.Contains(path, ".command[") ||
		redaction.HoldsSecret(value) || sensitiveKey(path[strings.LastIndex(path, ".")+1:], value)
}

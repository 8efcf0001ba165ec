package resources

import (
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

const fieldPodTemplate = "spec.podTemplate"

// mergedTemplate returns base with spec.podTemplate merged over it. Some values cannot be
// overridden. The labels of the selector and the annotations that roll the pods are restored.
// Without them the Deployment would lose its pods, or the pods would miss a change of their Secrets
// and ConfigMaps. A change of the ServiceAccount, or of a port that others find by name, is a
// SpecError. If it were silently ignored or accepted, workspaces would have no permissions, or
// Coder no traffic.
func mergedTemplate(w Workload, base corev1.PodTemplateSpec) (corev1.PodTemplateSpec, error) {
	over := w.Spec.PodTemplate
	if over == nil {
		return base, nil
	}
	if err := refused(w, over); err != nil {
		return corev1.PodTemplateSpec{}, err
	}
	giveWay(&base, over)
	result, err := strategicMerge(base, over)
	if err != nil {
		return corev1.PodTemplateSpec{}, err
	}
	inOrder(&result, &base)
	if err := portsKept(w, result); err != nil {
		return corev1.PodTemplateSpec{}, err
	}
	result.Labels = merged(result.Labels, base.Labels)
	own := ownAnnotations(w)
	result.Annotations = merged(result.Annotations, own)
	maps.DeleteFunc(result.Annotations, func(key, value string) bool {
		_, ours := own[key]
		return ours && value == ""
	})
	return result, nil
}

func strategicMerge(base corev1.PodTemplateSpec, over *corev1.PodTemplateSpec) (corev1.PodTemplateSpec, error) {
	var result corev1.PodTemplateSpec
	original, err := json.Marshal(base)
	if err != nil {
		return result, fmt.Errorf("serializing the pod template: %w", err)
	}
	raw, err := json.Marshal(over)
	if err != nil {
		return result, fmt.Errorf("serializing %s: %w", fieldPodTemplate, err)
	}
	var content map[string]any
	if err := json.Unmarshal(raw, &content); err != nil {
		return result, fmt.Errorf("serializing %s: %w", fieldPodTemplate, err)
	}
	// A null would delete the value in the base, and the Go types serialize some unset fields as null.
	dropNulls(content)
	patch, err := json.Marshal(content)
	if err != nil {
		return result, err
	}
	combined, err := strategicpatch.StrategicMergePatch(original, patch, corev1.PodTemplateSpec{})
	if err != nil {
		return result, &SpecError{fieldPodTemplate, "cannot be merged into the operator's pod template: " + err.Error()}
	}
	if err := json.Unmarshal(combined, &result); err != nil {
		return result, &SpecError{fieldPodTemplate, "does not result in a valid pod template: " + err.Error()}
	}
	return result, nil
}

func dropNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, entry := range v {
			if entry == nil {
				delete(v, key)
				continue
			}
			dropNulls(entry)
		}
	case []any:
		for _, entry := range v {
			dropNulls(entry)
		}
	}
}

// refused returns an error for a value of the template that is invalid for these pods although
// admission accepts it.
func refused(w Workload, over *corev1.PodTemplateSpec) error {
	spec := over.Spec
	for _, account := range []struct{ field, name string }{
		{"serviceAccountName", spec.ServiceAccountName}, {"serviceAccount", spec.DeprecatedServiceAccount},
	} {
		if account.name != "" && account.name != w.ServiceAccountName {
			return &SpecError{fieldPodTemplate + ".spec." + account.field, fmt.Sprintf(
				"the pods run as ServiceAccount %q, which has the permissions for workspaces; set spec.serviceAccount.name to %q instead",
				w.ServiceAccountName, account.name)}
		}
	}
	if spec.RestartPolicy != "" && spec.RestartPolicy != corev1.RestartPolicyAlways {
		return &SpecError{fieldPodTemplate + ".spec.restartPolicy", fmt.Sprintf(
			"a Deployment allows only the restart policy Always; remove %q", spec.RestartPolicy)}
	}
	for i := range spec.Containers {
		if spec.Containers[i].Name == "" {
			return &SpecError{fmt.Sprintf("%s.spec.containers[%d].name", fieldPodTemplate, i), fmt.Sprintf(
				"is empty; use %q for the container of Coder, or a name for an additional container", w.Container)}
		}
	}
	return nil
}

// portsKept returns an error if Services, probes and Prometheus would no longer find their ports.
func portsKept(w Workload, result corev1.PodTemplateSpec) error {
	c := containerNamed(result.Spec.Containers, w.Container)
	if c == nil {
		return fmt.Errorf("bug: the pods lost the container %q", w.Container)
	}
	for _, port := range containerPorts(w) {
		for _, got := range c.Ports {
			if got.ContainerPort == port.ContainerPort && (got.Name != port.Name || got.Protocol != port.Protocol) {
				return &SpecError{fieldPodTemplate + ".spec.containers", fmt.Sprintf(
					"port %d of container %q must have the name %s and the protocol %s, because Services and probes refer to it; remove %q with %s",
					port.ContainerPort, w.Container, port.Name, port.Protocol, got.Name, got.Protocol)}
			}
		}
	}
	return nil
}

// giveWay clears fields of base that would conflict with over after the merge. A variable has
// either a value or a source, a volume has one source, and a probe one handler. A strategic merge
// of two different ones would keep both.
func giveWay(base, over *corev1.PodTemplateSpec) {
	for i := range over.Spec.Containers {
		change := &over.Spec.Containers[i]
		if c := containerNamed(base.Spec.Containers, change.Name); c != nil {
			variablesGiveWay(c.Env, change.Env)
			probeGivesWay(c.ReadinessProbe, change.ReadinessProbe)
			probeGivesWay(c.LivenessProbe, change.LivenessProbe)
		}
	}
	for _, change := range over.Spec.Volumes {
		for i := range base.Spec.Volumes {
			volume, kind := &base.Spec.Volumes[i], kindOf(change.VolumeSource)
			if volume.Name == change.Name && kind != "" && kind != kindOf(volume.VolumeSource) {
				volume.VolumeSource = corev1.VolumeSource{}
			}
		}
	}
}

func variablesGiveWay(base, over []corev1.EnvVar) {
	for _, change := range over {
		for i := range base {
			if base[i].Name == change.Name {
				base[i] = corev1.EnvVar{Name: change.Name}
			}
		}
	}
}

func probeGivesWay(base, over *corev1.Probe) {
	if base == nil || over == nil {
		return
	}
	if kind := kindOf(over.ProbeHandler); kind != "" && kind != kindOf(base.ProbeHandler) {
		base.ProbeHandler = corev1.ProbeHandler{}
	}
}

// kindOf returns the JSON name of the field that is set in a union.
func kindOf(union any) string {
	// The types of Kubernetes can be encoded.
	raw, _ := json.Marshal(union)
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(raw, &fields)
	for name := range fields {
		return name
	}
	return ""
}

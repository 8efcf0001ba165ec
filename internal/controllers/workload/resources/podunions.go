package resources

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
)

// giveWay empties what a merge would make contradictory: a variable has a value
// or a source, a volume one source and a probe one way to ask, and a strategic
// merge of two of them would have both.
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

// kindOf is the name of the one field that is set in a union.
func kindOf(union any) string {
	raw, err := json.Marshal(union)
	if err != nil {
		return ""
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return ""
	}
	for name := range fields {
		return name
	}
	return ""
}

package resources

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
)

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

package workspace

import (
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// difference is the set of changes that a client made to a spec.
type difference struct {
	ttl, autostart, updates, dormant bool
	// change is the part that requires a build.
	change change
}

// differenceOf compares the current spec with the wanted one. A parameter that the wanted spec
// omits keeps its value in Coder, so it is no difference.
func differenceOf(was, spec aggregationv1alpha1.CoderWorkspaceSpec) difference {
	d := difference{
		ttl:       !ptr.Equal(was.TTLMillis, spec.TTLMillis),
		autostart: !ptr.Equal(was.AutostartSchedule, spec.AutostartSchedule),
		updates:   spec.AutomaticUpdates != "" && was.AutomaticUpdates != spec.AutomaticUpdates,
		dormant:   spec.Dormant != nil && !ptr.Equal(was.Dormant, spec.Dormant),
	}
	if spec.Running != nil && !ptr.Equal(was.Running, spec.Running) {
		d.change.Running = ptr.To(*spec.Running)
	}
	if spec.TemplateVersionID != "" && spec.TemplateVersionID != was.TemplateVersionID {
		d.change.Version = spec.TemplateVersionID
	}
	if spec.TemplateVersionPreset != "" && spec.TemplateVersionPreset != was.TemplateVersionPreset {
		d.change.Preset = ptr.To(spec.TemplateVersionPreset)
	}
	shown := map[string]string{}
	for _, p := range was.Parameters {
		shown[p.Name] = p.Value
	}
	for _, p := range spec.Parameters {
		if v, ok := shown[p.Name]; !ok || v != p.Value {
			d.change.Parameters = append(d.change.Parameters, value{p.Name, p.Value})
		}
	}
	return d
}

// none reports whether nothing has to be sent to Coder.
func (d difference) none() bool {
	return !d.ttl && !d.autostart && !d.updates && !d.dormant && d.change.empty()
}

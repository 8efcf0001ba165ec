package workspace

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/uuid"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/acting"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// notes are the intent in the record of a workspace: what must be remembered of
// it, and what is still to be done.
type notes struct {
	// Parameters are the names of the parameters that this API was given, in that
	// order.
	Parameters []string `json:"parameters,omitempty"`
	// Preset is the name of the preset that this API was given.
	Preset string `json:"preset,omitempty"`
	// Values are those of Parameters, so that Coder is asked for them once per build.
	Values *buildValues `json:"values,omitempty"`
	// Change is still to be brought to Coder, or Coder refused it.
	Change *change `json:"change,omitempty"`
	// Restart is the number of the build that was the newest one when a restart was
	// asked for. 0 is none.
	Restart int32 `json:"restart,omitempty"`
	// By is who asked for Change and Restart, DeletedBy who asked for the deletion. They are
	// done as these users of Coder.
	By        *acting.As `json:"by,omitempty"`
	DeletedBy *acting.As `json:"deletedBy,omitempty"`
	// Failed is how the deletion failed.
	Failed *failure `json:"failed,omitempty"`
}

// buildValues are the values of parameters in one build.
type buildValues struct {
	Build  uuid.UUID         `json:"build"`
	Values map[string]string `json:"values,omitempty"`
}

// change is the part of a spec that takes a build. What is not set stays as it is
// in Coder.
type change struct {
	Running    *bool   `json:"running,omitempty"`
	Version    string  `json:"version,omitempty"`
	Preset     *string `json:"preset,omitempty"`
	Dormant    *bool   `json:"dormant,omitempty"`
	Parameters []value `json:"parameters,omitempty"`
	// Force builds also where the newest build was for the same and failed.
	Force bool `json:"force,omitempty"`
	// Observed is the observedGeneration while the change waits.
	Observed int64 `json:"observed,omitempty"`
	// Refused is why Coder does not accept it.
	Refused string `json:"refused,omitempty"`
}

// value is the value of a parameter.
type value struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// failure is the last of several failures.
type failure struct {
	// Times is how many there were.
	Times int32 `json:"times"`
	// Build is the number of the build that failed, 0 where Coder refused to build.
	Build   int32       `json:"build,omitempty"`
	At      metav1.Time `json:"at"`
	Message string      `json:"message,omitempty"`
}

// notesOf reads the notes of a record, which may be nil.
func notesOf(record *metadata.Record) (notes, error) {
	var n notes
	if record == nil || len(record.Intent) == 0 {
		return n, nil
	}
	if err := json.Unmarshal(record.Intent, &n); err != nil {
		return n, fmt.Errorf("the intent in the record of workspace %q cannot be read: %w", record.Name, err)
	}
	return n, nil
}

// into writes the notes into a record.
func (n notes) into(record *metadata.Record) error {
	if n.Change == nil && n.Restart == 0 {
		n.By = nil
	}
	data, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("writing the intent of workspace %q: %w", record.Name, err)
	}
	record.Intent = data
	if string(data) == "{}" {
		record.Intent = nil
	}
	return nil
}

// waits says that something is still to be brought to Coder.
func (n notes) waits() bool {
	return n.Restart > 0 || n.Change != nil && n.Change.Refused == ""
}

// refused is why Coder does not accept the spec. It is empty where it does.
func (n notes) refused() string {
	if n.Change == nil {
		return ""
	}
	return n.Change.Refused
}

// empty says that it changes nothing.
func (c change) empty() bool {
	return c.Running == nil && c.Version == "" && c.Preset == nil && c.Dormant == nil && len(c.Parameters) == 0 && !c.Force
}

// merge gives the earlier change with this one over it. It is a new change, which
// nobody has refused yet.
func (c change) merge(earlier *change) change {
	if earlier == nil {
		return c
	}
	out := *earlier
	out.Refused, out.Force = "", c.Force
	if c.Running != nil {
		out.Running = c.Running
	}
	if c.Version != "" {
		out.Version = c.Version
	}
	if c.Preset != nil {
		out.Preset = c.Preset
	}
	if c.Dormant != nil {
		out.Dormant = c.Dormant
	}
	out.Parameters = slices.Clone(earlier.Parameters)
	for _, v := range c.Parameters {
		if i := slices.IndexFunc(out.Parameters, func(o value) bool { return o.Name == v.Name }); i >= 0 {
			out.Parameters[i] = v
			continue
		}
		out.Parameters = append(out.Parameters, v)
	}
	return out
}

// valueOf gives the value that the change has for a parameter.
func (c *change) valueOf(name string) (string, bool) {
	if c == nil {
		return "", false
	}
	for _, v := range c.Parameters {
		if v.Name == name {
			return v.Value, true
		}
	}
	return "", false
}

// setSpec notes what this API was given. What it is not given any more is not
// brought to Coder either.
func (n *notes) setSpec(spec aggregationv1alpha1.CoderWorkspaceSpec) {
	n.Parameters = nil
	for _, p := range spec.Parameters {
		n.Parameters = append(n.Parameters, p.Name)
	}
	n.Preset = spec.TemplateVersionPreset
	if n.Change == nil {
		return
	}
	kept := *n.Change
	kept.Parameters = slices.DeleteFunc(slices.Clone(kept.Parameters), func(v value) bool { return !slices.Contains(n.Parameters, v.Name) })
	if n.Preset == "" {
		kept.Preset = nil
	}
	n.Change = &kept
	if kept.empty() {
		n.Change = nil
	}
}

package workspace

import (
	"cmp"
	"slices"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
)

// intent is what the record of a workspace stores besides metadata: what is wanted and not done yet,
// and state that Coder cannot store.
type intent struct {
	// Parameters are the names of the parameters that clients have set through this API, in their
	// order.
	Parameters []string `json:"parameters,omitempty"`
	// Preset is the name of the preset that clients have set through this API.
	Preset string `json:"preset,omitempty"`
	// Values caches the values of Parameters, so that they are read from Coder once per build.
	Values *buildValues `json:"values,omitempty"`
	// Change has not been applied in Coder yet, or Coder refused it.
	Change *change `json:"change,omitempty"`
	// Restart is the number of the newest build when a restart was requested, or a change that needs
	// one. Otherwise it is 0. Change is then applied by the start.
	Restart int32 `json:"restart,omitempty"`
	// By is the initiator of Change and Restart, DeletedBy that of the deletion. The operations are
	// done as these Coder users.
	By        *impersonation.As `json:"by,omitempty"`
	DeletedBy *impersonation.As `json:"deletedBy,omitempty"`
	// Owner is the owner of a workspace that is being created.
	Owner uuid.UUID `json:"owner,omitzero"`
	// Failed is the last failure of the deletion.
	Failed *failure `json:"failed,omitempty"`
	// SharedWith is the list of the spec in this request. Only its order is used. It is not stored.
	SharedWith []share `json:"-"`
	// Orphan is the number of the newest build when a deletion without a build was requested, or 0.
	Orphan int32 `json:"orphan,omitempty"`
}

// buildValues holds the values of parameters in one build.
type buildValues struct {
	Build  uuid.UUID         `json:"build"`
	Values map[string]string `json:"values,omitempty"`
}

// change is the part of a spec that requires a build, or an existing workspace. Fields that are not set keep their value in
// Coder.
type change struct {
	Running *bool   `json:"running,omitempty"`
	Version string  `json:"version,omitempty"`
	Preset  *string `json:"preset,omitempty"`
	Dormant *bool   `json:"dormant,omitempty"`
	// SharedWith is that of a new workspace. Later changes of it are sent at once.
	SharedWith []share `json:"sharedWith,omitempty"`
	Parameters []value `json:"parameters,omitempty"`
	// Ephemeral are values that only the build that starts the workspace gets.
	Ephemeral []value `json:"ephemeral,omitempty"`
	// Force repeats the newest build if it had the same transition and failed.
	Force bool `json:"force,omitempty"`
	// Observed is the observedGeneration while the change waits.
	Observed int64 `json:"observed,omitempty"`
	// Refused is the reason why Coder refused the change.
	Refused string `json:"refused,omitempty"`
}

type value struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// failure describes the last of several consecutive failures.
type failure struct {
	// Times is the number of failures.
	Times int32 `json:"times"`
	// Build is the number of the newest failed build, or 0 if Coder refused to start a build.
	Build   int32       `json:"build,omitempty"`
	At      metav1.Time `json:"at"`
	Message string      `json:"message,omitempty"`
}

// stored returns the intent as it is stored in a record.
func (n intent) stored() intent {
	if n.Change == nil && n.Restart == 0 {
		n.By = nil
	}
	return n
}

// delete records the initiator of the deletion. Another initiator does not wait for the next attempt
// of the earlier one. A deletion without a build stays one.
func (n *intent) delete(as *impersonation.As) {
	if n.Orphan > 0 {
		return
	}
	if !equality.Semantic.DeepEqual(n.DeletedBy, as) {
		n.Failed = nil
	}
	n.DeletedBy = as
}

// waits reports whether a change or a restart has not been applied in Coder yet.
func (n intent) waits() bool {
	return n.Restart > 0 || n.Change != nil && n.Change.Refused == ""
}

// refused returns the reason why Coder refused the spec, or "".
func (n intent) refused() string {
	if n.Change == nil {
		return ""
	}
	return n.Change.Refused
}

func (c change) empty() bool {
	return c.Running == nil && c.Version == "" && c.Preset == nil && c.Dormant == nil && c.SharedWith == nil && len(c.Parameters) == 0 && len(c.Ephemeral) == 0 && !c.Force
}

// merge returns the earlier change with this one on top. The result counts as not refused.
func (c change) merge(earlier *change) change {
	if earlier == nil {
		return c
	}
	out := *earlier
	out.Refused, out.Force = "", c.Force
	out.Running = cmp.Or(c.Running, out.Running)
	out.Version = cmp.Or(c.Version, out.Version)
	out.Preset = cmp.Or(c.Preset, out.Preset)
	out.Dormant = cmp.Or(c.Dormant, out.Dormant)
	if c.Ephemeral != nil || earlier.Refused != "" || out.Running != nil && !*out.Running {
		out.Ephemeral = c.Ephemeral
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

// withoutSharing returns the waiting change, or nil, without the users and groups to share with. If Coder
// refused them, the rest is not refused any more.
func (c *change) withoutSharing() *change {
	if c == nil || c.SharedWith == nil {
		return c
	}
	out := *c
	out.SharedWith, out.Refused = nil, ""
	if out.empty() {
		return nil
	}
	return &out
}

// setSpec records the parameters and the preset of a spec. It removes values from the waiting
// change that the spec no longer contains.
func (n *intent) setSpec(spec aggregationv1alpha1.CoderWorkspaceSpec) {
	n.Parameters = nil
	for _, p := range spec.Parameters {
		n.Parameters = append(n.Parameters, p.Name)
	}
	n.Preset, n.SharedWith = spec.TemplateVersionPreset, spec.SharedWith
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

package records

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// shortMessage is the length in bytes to which the messages of an object are shortened as a last
// resort.
const shortMessage = 256

// fill sets the text and the state of an object in its record, and returns the parts of its files. If
// the record is too large for kube-apiserver, the largest fields are left out, and the condition
// Truncated of the object lists them. The object may be nil.
func (s *Store) fill(record *Record, object Object) (parts map[string]string, truncated bool, err error) {
	if object == nil {
		return nil, false, nil
	}
	record.Files = ""
	if s.config.State != nil {
		record.State = s.config.State(object)
	}
	copied := object.DeepCopyObject().(Object) //nolint:forcetypeassert // It is a copy of one.
	if parts, err = s.config.Files.detach(copied, record); err != nil {
		return nil, false, err
	}
	if err = s.encode(record, copied); err != nil {
		return nil, false, err
	}
	if sizeOf(&record.RecordSpec) <= metadata.MaxRecord {
		return parts, false, nil
	}
	c := metav1.Condition{
		Type: aggregationv1alpha1.ConditionTruncated, Status: metav1.ConditionTrue, Reason: aggregationv1alpha1.ReasonTooLarge,
		ObservedGeneration: copied.GetGeneration(), LastTransitionTime: metav1.NewTime(s.config.Clock.Now()).Rfc3339Copy(),
	}
	if known := s.Table.Get(s.Key(record.Namespace, record.Name)); known != nil {
		if before := truncatedCondition(known.Object); before != nil {
			c.LastTransitionTime = before.LastTransitionTime
		}
	}
	var without []string
	for _, f := range largeFields(copied) {
		f.leaveOut()
		without = append(without, f.path)
		c.Message = fmt.Sprintf("the object does not fit into %d KiB, so these fields are left out or shortened: %s; Coder has all of them",
			metadata.MaxRecord>>10, strings.Join(without, ", "))
		meta.SetStatusCondition(conditionsOf(copied), c)
		if err = s.encode(record, copied); err != nil {
			return nil, false, err
		}
		if sizeOf(&record.RecordSpec) <= metadata.MaxRecord {
			break
		}
	}
	return parts, len(without) > 0, nil
}

// stored reports whether a record is stored with this text.
func (s *Store) stored(known *held, record *Record) bool {
	text := record.RecordSpec
	text.Object, text.Versions = "", ""
	return known.revision == record.Revision && known.entry != nil && !known.damaged && !known.lost && known.spec == text &&
		known.hash == s.hashOf(record)
}

func (s *Store) hashOf(record *Record) uint64 {
	return maphash.String(s.Table.seed, record.Object+record.Files+record.Versions)
}

// sizeOf returns the size of a record's JSON, or an upper bound if that is small.
func sizeOf(r *spec) int {
	// A byte of a text needs up to six in JSON.
	if most := 6 * (len(r.Object) + len(r.Kept) + len(r.Files) + len(r.Versions) + len(r.CoderName)); most < metadata.MaxRecord {
		return most
	}
	data, err := json.Marshal(r)
	if err != nil {
		return 0
	}
	return len(data)
}

// largeField is a field that may be left out of an object that is too large.
type largeField struct {
	path     string
	leaveOut func()
}

// largeFields returns the fields to leave out of an object, in this order. No field of a spec is among
// them: a client that reads and writes the object would remove it, and a GitOps tool would apply it
// again and again. The limits of the kept metadata and of Coder's texts limit the specs.
func largeFields(object Object) (fields []largeField) {
	switch o := object.(type) {
	case *aggregationv1alpha1.CoderWorkspace:
		fields = []largeField{
			{"status.agents[*].apps", func() {
				for i := range o.Status.Agents {
					o.Status.Agents[i].Apps = nil
				}
			}},
			{"status.sharedWith", func() { o.Status.SharedWith = nil }},
			{"status.agents[*] except name, status, lifecycleState and unhealthy", func() {
				for i, a := range o.Status.Agents {
					o.Status.Agents[i] = aggregationv1alpha1.WorkspaceAgent{
						Name: a.Name, Status: a.Status, LifecycleState: a.LifecycleState, Unhealthy: a.Unhealthy,
					}
				}
			}},
		}
	case *aggregationv1alpha1.CoderTemplate:
		fields = []largeField{{"its CoderTemplateVersions", func() { o.Status.Versions = nil }}}
	case *aggregationv1alpha1.CoderUser:
		fields = []largeField{{"status.organizations", func() { o.Status.Organizations = nil }}}
	default:
		return nil
	}
	return append(fields, largeField{"status.conditions[*].message", func() {
		conditions := *conditionsOf(object)
		for i := range conditions {
			conditions[i].Message = redaction.Truncate(conditions[i].Message, shortMessage)
		}
	}})
}

// truncatedCondition returns the condition Truncated of an object, or nil.
func truncatedCondition(object Object) *metav1.Condition {
	conditions := conditionsOf(object)
	if conditions == nil {
		return nil
	}
	return meta.FindStatusCondition(*conditions, aggregationv1alpha1.ConditionTruncated)
}

// conditionsOf returns the conditions of an object, or nil if its type has none.
func conditionsOf(object Object) *[]metav1.Condition {
	switch o := object.(type) {
	case *aggregationv1alpha1.CoderWorkspace:
		return &o.Status.Conditions
	case *aggregationv1alpha1.CoderTemplate:
		return &o.Status.Conditions
	case *aggregationv1alpha1.CoderUser:
		return &o.Status.Conditions
	}
	return nil
}

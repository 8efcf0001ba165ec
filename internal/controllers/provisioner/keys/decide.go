package keys

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// wanted describes the key that the spec asks for.
type wanted struct {
	controlPlane string
	org          coderd.Organization
	names        []string
	tags         map[string]string
	tagsHash     string
	rotateAfter  time.Duration
}

// verdict is the decision about the existing key.
type verdict struct {
	// why is the reason to create a new key, or empty.
	why string
	// adopt is the record of the existing key if the Secret has another record.
	adopt *Record
}

// decide compares the existing key with the wanted one. known is the key that Coder returns for the
// text in the Secret, or nil if Coder does not know it.
func decide(s *stored, known *coderd.ProvisionerKey, w wanted, now time.Time) verdict {
	if s == nil || s.text == "" {
		if s != nil && s.record != nil {
			return verdict{why: "the Secret was emptied"}
		}
		return verdict{why: "there is none"}
	}
	if r := s.record; r != nil && r.ControlPlane != w.controlPlane {
		return verdict{why: fmt.Sprintf("the provisioners moved from control plane %q", r.ControlPlane)}
	}
	if known == nil {
		return verdict{why: "Coder does not know the key in the Secret"}
	}
	found := recordOf(*known, w.controlPlane, resources.TagsHash(known.Tags))
	if s.record == nil || s.record.ID != found.ID {
		// A key is adopted only if the operator would create the same one.
		if found.OrganizationID == w.org.ID.String() && hasName(w.names, found.Name) && found.TagsHash == w.tagsHash {
			return verdict{adopt: &found}
		}
		return verdict{why: "the Secret holds a key that is not the one made for it"}
	}
	return decideRecorded(*s.record, found, w, now)
}

// decideRecorded compares a key that the operator created with the wanted one.
func decideRecorded(r, found Record, w wanted, now time.Time) verdict {
	switch age, dated := r.age(now); {
	case r.OrganizationID != w.org.ID.String():
		return verdict{why: "spec.organizationName changed"}
	case !hasName(w.names, r.Name):
		return verdict{why: "spec.key.name changed"}
	case r.TagsHash != w.tagsHash:
		return verdict{why: "spec.tags changed"}
	case w.rotateAfter > 0 && dated && age >= w.rotateAfter:
		return verdict{why: "it is as old as spec.key.rotateAfter allows"}
	case !dated:
		r.CreatedAt = found.CreatedAt
		return verdict{adopt: &r}
	}
	return verdict{}
}

func recordOf(k coderd.ProvisionerKey, controlPlane, tagsHash string) Record {
	return Record{
		ID: k.ID.String(), Name: k.Name, OrganizationID: k.OrganizationID.String(), ControlPlane: controlPlane,
		TagsHash: tagsHash, CreatedAt: k.CreatedAt.UTC().Format(time.RFC3339),
	}
}

// hasName reports whether names contains a name. Like Coder, it ignores case.
func hasName(names []string, name string) bool {
	return slices.ContainsFunc(names, func(other string) bool { return strings.EqualFold(other, name) })
}

// choice is the name of a new key.
type choice struct {
	name string
	// taken is set instead of name if a key of another owner has the wanted name.
	taken string
}

// choose returns the first name that no key has. The spec asks for the first name, so if a key of
// another owner has it, choose returns that name as taken. The operator itself chose the further
// names, so a further name that is in use is skipped. An empty choice means that all names are in
// use.
func choose(names []string, keys []coderd.ProvisionerKey, mine func(id string) bool) choice {
	for i, name := range names {
		k := named(keys, name)
		switch {
		case k == nil:
			return choice{name: name}
		case i == 0 && !mine(k.ID.String()):
			return choice{taken: name}
		}
	}
	return choice{}
}

func named(keys []coderd.ProvisionerKey, name string) *coderd.ProvisionerKey {
	i := slices.IndexFunc(keys, func(k coderd.ProvisionerKey) bool { return strings.EqualFold(k.Name, name) })
	if i < 0 {
		return nil
	}
	return &keys[i]
}

// free reports whether no pod uses a key other than this one, and no such pod can be created.
func (u Usage) free(id string) bool {
	return u.Settled && !slices.ContainsFunc(u.KeyIDs, func(other string) bool { return other != id })
}

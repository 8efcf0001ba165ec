package keys

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/provisioner/resources"
)

// wanted is the key that the spec asks for.
type wanted struct {
	controlPlane string
	org          coderd.Organization
	names        []string
	tags         map[string]string
	tagsHash     string
	rotateAfter  time.Duration
}

// verdict is what becomes of the key that there is.
type verdict struct {
	// why a new key is made, or empty.
	why string
	// adopt is the record of the key that stays, where the Secret has another one.
	adopt *Record
}

// decide compares the key that there is with the one that is wanted. known is what
// Coder says the text in the Secret is, or nil where Coder does not know it.
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
		// Only what the operator would make itself is taken for its own.
		if found.OrganizationID == w.org.ID.String() && hasName(w.names, found.Name) && found.TagsHash == w.tagsHash {
			return verdict{adopt: &found}
		}
		return verdict{why: "the Secret holds a key that is not the one made for it"}
	}
	return decideRecorded(*s.record, found, w, now)
}

// decideRecorded compares the key that the operator made with the one that is
// wanted.
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

// hasName compares names as Coder does, without regard to case.
func hasName(names []string, name string) bool {
	return slices.ContainsFunc(names, func(other string) bool { return strings.EqualFold(other, name) })
}

// choice is the name that a new key gets.
type choice struct {
	name string
	// taken is a name that someone else has.
	taken string
}

// choose takes the first name that no key has. The first name of all is the one
// that the spec asks for, so nobody else may have it; the further ones are the
// operator's own choice. Without a name, all belong to keys of its own.
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

// free says that no pod holds another key than this one, and none can come.
func (u Usage) free(id string) bool {
	return u.Settled && !slices.ContainsFunc(u.KeyIDs, func(other string) bool { return other != id })
}

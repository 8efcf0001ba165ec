package user

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
)

// organizations are the memberships of a user.
type organizations = []aggregationv1alpha1.CoderUserOrganization

// settings are the fields of a spec that can be changed in Coder at any time. Unset fields are nil.
type settings struct {
	FullName      *string        `json:"fullName,omitempty"`
	Suspended     *bool          `json:"suspended,omitempty"`
	Roles         *[]string      `json:"roles,omitempty"`
	Organizations *organizations `json:"organizations,omitempty"`
}

// intent is the intent in the record of a user: the part of the spec that Coder cannot store, and
// what must be done later.
type intent struct {
	// Owned are the fields that a manifest owns.
	Owned settings `json:"owned,omitzero"`
	// PasswordFrom and ReclaimPolicy are those of the spec.
	PasswordFrom  *aggregationv1alpha1.CoderUserPasswordSource `json:"passwordFrom,omitempty"`
	ReclaimPolicy string                                       `json:"reclaimPolicy,omitempty"`
	// By are the Coder users who set the owned fields, DeletedBy the one who requested the deletion.
	// Corrections and the deletion are made as these users.
	By        setters           `json:"by,omitempty"`
	DeletedBy *impersonation.As `json:"deletedBy,omitempty"`
	// Email is the address of a user that is being created.
	Email string `json:"email,omitempty"`
	// Refusals are the owned fields that Coder does not accept.
	Refusals map[string]refused `json:"refusals,omitempty"`
}

// setters maps owned fields to the Coder users who set them. Fields without one were set with the
// operator's account.
type setters []setter

type setter struct {
	// Field is empty in a record of an earlier version, which has one user for all fields.
	Field string            `json:"field,omitempty"`
	As    *impersonation.As `json:"as,omitempty"`
}

// UnmarshalJSON also reads the single user of a record of an earlier version.
func (s *setters) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(data, []byte("{")) {
		return json.Unmarshal(data, (*[]setter)(s))
	}
	*s = setters{{}}
	return json.Unmarshal(data, &(*s)[0].As)
}

// of returns the user who set a field.
func (s setters) of(field string) *impersonation.As {
	for _, set := range s {
		if set.Field == field || set.Field == "" {
			return set.As
		}
	}
	return nil
}

// with returns the setters after a user has set some fields.
func (s setters) with(fields []string, as *impersonation.As) setters {
	var out setters
	for _, field := range settingNames() {
		set := s.of(field)
		if slices.Contains(fields, field) {
			set = as
		}
		if set != nil {
			out = append(out, setter{field, set})
		}
	}
	return out
}

// settingNames returns the names of the fields in settings.
func settingNames() []string { return []string{"fullName", "organizations", "roles", "suspended"} }

// refused is the reason why Coder does not accept a field, and when it was asked last.
type refused struct {
	Message string      `json:"message"`
	At      metav1.Time `json:"at"`
}

// stored returns the intent as it is stored in a record.
func (in intent) stored() intent {
	if in.Owned == (settings{}) {
		in.By, in.Refusals = nil, nil
	}
	return in
}

// settingsOf returns the fields of a spec that are set and whose name choose accepts.
func settingsOf(spec aggregationv1alpha1.CoderUserSpec, choose func(name string) bool) settings {
	spec = *spec.DeepCopy()
	var out settings
	if spec.FullName != "" && choose("fullName") {
		out.FullName = &spec.FullName
	}
	if spec.Suspended != nil && choose("suspended") {
		out.Suspended = spec.Suspended
	}
	if spec.Roles != nil && choose("roles") {
		out.Roles = &spec.Roles
	}
	if spec.Organizations != nil && choose("organizations") {
		out.Organizations = &spec.Organizations
	}
	return out
}

// ownedFields returns the fields that any manifest owns.
func ownedFields(u *aggregationv1alpha1.CoderUser) settings {
	managers := managersOf(u)
	return settingsOf(u.Spec, func(name string) bool { return len(managers[name]) > 0 })
}

// managersOf returns the managers that own each field of the spec. Only managers that apply are kept
// separate: the others never give a field up by omitting it, and the API server replaces the oldest of more
// than ten of them by one name, no matter which client writes.
func managersOf(u *aggregationv1alpha1.CoderUser) map[string][]string {
	out := map[string][]string{}
	for _, entry := range u.ManagedFields {
		if entry.FieldsV1 == nil || entry.Subresource != "" {
			continue
		}
		var set struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		// A field set that cannot be parsed owns nothing.
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &set) != nil {
			continue
		}
		manager := string(entry.Operation)
		if entry.Operation == metav1.ManagedFieldsOperationApply {
			manager += " " + entry.Manager
		}
		for name := range set.Spec {
			name = strings.TrimPrefix(name, "f:")
			out[name] = append(out[name], manager)
		}
	}
	for name, managers := range out {
		slices.Sort(managers)
		out[name] = slices.Compact(managers)
	}
	return out
}

// changed returns the fields that an update changes.
func changed(was, wanted aggregationv1alpha1.CoderUserSpec) settings {
	return settingsOf(wanted, func(name string) bool {
		switch name {
		case "fullName":
			return was.FullName != wanted.FullName
		case "suspended":
			return !equality.Semantic.DeepEqual(was.Suspended, wanted.Suspended)
		case "roles":
			return !equality.Semantic.DeepEqual(was.Roles, wanted.Roles)
		default:
			return !equality.Semantic.DeepEqual(was.Organizations, wanted.Organizations)
		}
	})
}

// only returns one of the fields.
func (f settings) only(name string) settings {
	switch name {
	case "fullName":
		return settings{FullName: f.FullName}
	case "suspended":
		return settings{Suspended: f.Suspended}
	case "roles":
		return settings{Roles: f.Roles}
	default:
		return settings{Organizations: f.Organizations}
	}
}

// allRoles returns the roles that the fields grant, those in organizations as <organization>/<role>.
func (f settings) allRoles() []string {
	var all []string
	if f.Roles != nil {
		all = append(all, *f.Roles...)
	}
	if f.Organizations != nil {
		for _, o := range *f.Organizations {
			for _, role := range o.Roles {
				all = append(all, o.Name+"/"+role)
			}
		}
	}
	return all
}

// normalRoles returns roles sorted and without duplicates. Their order has no meaning.
func normalRoles(roles []string) []string {
	out := slices.Sorted(slices.Values(roles))
	return slices.Compact(out)
}

// normalOrganizations returns memberships sorted by name.
func normalOrganizations(all organizations) organizations {
	out := make(organizations, 0, len(all))
	for _, o := range all {
		out = append(out, aggregationv1alpha1.CoderUserOrganization{Name: o.Name, Roles: normalRoles(o.Roles)})
	}
	slices.SortFunc(out, func(a, b aggregationv1alpha1.CoderUserOrganization) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return out
}

// sameOrganizations reports whether memberships are equal. Coder ignores the case of names.
func sameOrganizations(a, b organizations) bool {
	return slices.EqualFunc(normalOrganizations(a), normalOrganizations(b), func(a, b aggregationv1alpha1.CoderUserOrganization) bool {
		return strings.EqualFold(a.Name, b.Name) && slices.Equal(a.Roles, b.Roles)
	})
}

package metadata

import (
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// maxNamePart is the longest name of a user, template, workspace or organization
// that Coder accepts.
const maxNamePart = 64

var namePart = regexp.MustCompile(`^[a-z0-9]+(?:-[a-z0-9]+)*$`)

// Name contains the parts of an object's name. A user has no organization, and only a workspace has an
// owner.
type Name struct {
	// Prefix is empty or "<control-plane>.".
	Prefix                    string
	Organization, Owner, Name string
}

// JoinName returns the name of an object: the prefix of its control plane, and the names in Coder. A part that
// is empty makes the name invalid. If it were left out, the next one could be taken for it.
func JoinName(prefix string, parts ...string) string {
	return strings.ToLower(prefix + strings.Join(parts, "."))
}

// ParseTemplateName splits the name of a template's object into its parts.
func ParseTemplateName(name string) (Name, error) {
	prefix, parts, err := splitName(name, 2, "<organization>.<template>", "coder.")
	if err != nil {
		return Name{}, err
	}
	return Name{Prefix: prefix, Organization: parts[0], Name: parts[1]}, nil
}

// ParseWorkspaceName splits the name of a workspace's object into its parts.
func ParseWorkspaceName(name string) (Name, error) {
	prefix, parts, err := splitName(name, 3, "<organization>.<user>.<workspace>", "coder.ada.")
	if err != nil {
		return Name{}, err
	}
	return Name{Prefix: prefix, Organization: parts[0], Owner: parts[1], Name: parts[2]}, nil
}

// ParseUserName splits the name of a user's object into its parts.
func ParseUserName(name string) (Name, error) {
	prefix, parts, err := splitName(name, 1, "<user>", "")
	if err != nil {
		return Name{}, err
	}
	return Name{Prefix: prefix, Name: parts[0]}, nil
}

// CheckName returns an error unless a name consists of a prefix and a number of names in Coder. Anyone who controls a Coder chooses
// its names, and with a dot in one of them an object would have a name of another control plane.
func CheckName(name, prefix string, parts int) error {
	all, found := strings.CutPrefix(name, prefix)
	names := strings.Split(all, ".")
	if !found || len(names) != parts {
		return fmt.Errorf("%q is not a name of %d parts after %q", name, parts, prefix)
	}
	for _, part := range names {
		if len(part) > maxNamePart || !namePart.MatchString(part) {
			return fmt.Errorf("%q contains %q, which is not a name in Coder: up to %d letters, digits and single dashes between them", name, part, maxNamePart)
		}
	}
	return nil
}

// ControlPlaneOf returns the control plane of an object.
func ControlPlaneOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetLabels()[aggregationv1alpha1.LabelControlPlaneName]}
}

// idSuffix matches the suffix that NameWithID appends. No name in Coder contains two consecutive
// hyphens.
var idSuffix = regexp.MustCompile(`--[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$|--[0-9a-f]{8}$`)

// NameWithID returns the name of an object whose natural name belongs to an object that was renamed
// in Coder. id is a whole UUID or its first eight digits.
func NameWithID(name, id string) string { return name + "--" + id }

// NameWithoutID returns the name without the suffix of NameWithID.
func NameWithoutID(name string) string { return idSuffix.ReplaceAllString(name, "") }

// maxLabel is the length of the last part of the name of a CoderTemplateVersion, as that of a DNS label.
const maxLabel = 63

// VersionPart returns the last part of the name of a CoderTemplateVersion. It is the name in Coder, if that is one in lower
// case without underscores and dots. Other names get a suffix with the id, so no two names have one part: the names themselves contain
// no two dashes in a row.
func VersionPart(name, id string) string {
	part := strings.Map(func(r rune) rune {
		if r == '_' || r == '.' {
			return '-'
		}
		return r
	}, strings.ToLower(name))
	if !namePart.MatchString(part) {
		// Coder does not accept such a name.
		part = "version"
	}
	if part == name && len(part) <= maxLabel {
		return part
	}
	short := NameWithID("", id[:min(len(id), shortID)])
	return strings.TrimRight(part[:min(len(part), maxLabel-len(short))], "-") + short
}

// shortID is the number of digits of an id in a name.
const shortID = 8

// splitName splits a name into its parts. example is a prefix for the error message if the name is
// only the name in Coder.
func splitName(name string, want int, form, example string) (string, []string, error) {
	parts := strings.Split(name, ".")
	if want > 1 && len(parts) == 1 && namePart.MatchString(name) && len(name) <= maxNamePart {
		return "", nil, fmt.Errorf("must be %s, for example %q: %q alone is its name in Coder", form, example+name, name)
	}
	if len(parts) != want && len(parts) != want+1 {
		return "", nil, fmt.Errorf("must be %s, or <control-plane>.%s for a control plane that is not the first of its namespace", form, form)
	}
	for _, p := range parts {
		if len(p) > maxNamePart || !namePart.MatchString(p) {
			return "", nil, fmt.Errorf("must be %s; %q is not a name in Coder in lower case: up to %d letters, digits and single dashes between them", form, p, maxNamePart)
		}
	}
	if len(parts) == want {
		return "", parts, nil
	}
	return parts[0] + ".", parts[1:], nil
}

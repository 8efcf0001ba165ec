package objectname

import (
	"fmt"
	"regexp"
	"strings"
)

// maxPart is the longest name of a user, template, workspace or organization
// that Coder accepts.
const maxPart = 64

var part = regexp.MustCompile(`^[a-z0-9]+(?:-[a-z0-9]+)*$`)

// Template is the name of a template, taken apart.
type Template struct {
	// Prefix is empty or "<control-plane>.".
	Prefix       string
	Organization string
	Name         string
}

// Workspace is the name of a workspace, taken apart.
type Workspace struct {
	// Prefix is empty or "<control-plane>.".
	Prefix       string
	Organization string
	Owner        string
	Name         string
}

// String gives the name of the object.
func (t Template) String() string {
	return strings.ToLower(t.Prefix + t.Organization + "." + t.Name)
}

// String gives the name of the object.
func (w Workspace) String() string {
	return strings.ToLower(w.Prefix + w.Organization + "." + w.Owner + "." + w.Name)
}

// ParseTemplate takes the name of a template's object apart.
func ParseTemplate(name string) (Template, error) {
	prefix, parts, err := split(name, 2, "<organization>.<template>", "coder.")
	if err != nil {
		return Template{}, err
	}
	return Template{Prefix: prefix, Organization: parts[0], Name: parts[1]}, nil
}

// ParseWorkspace takes the name of a workspace's object apart.
func ParseWorkspace(name string) (Workspace, error) {
	prefix, parts, err := split(name, 3, "<organization>.<user>.<workspace>", "coder.ada.")
	if err != nil {
		return Workspace{}, err
	}
	return Workspace{Prefix: prefix, Organization: parts[0], Owner: parts[1], Name: parts[2]}, nil
}

// User is the name of a user, taken apart.
type User struct {
	// Prefix is empty or "<control-plane>.".
	Prefix string
	Name   string
}

// String gives the name of the object.
func (u User) String() string { return strings.ToLower(u.Prefix + u.Name) }

// ParseUser takes the name of a user's object apart.
func ParseUser(name string) (User, error) {
	parts := strings.Split(name, ".")
	if len(parts) > 2 {
		return User{}, fmt.Errorf("must be <user>, or <control-plane>.<user> for a control plane that is not the first of its namespace")
	}
	for _, p := range parts {
		if len(p) > maxPart || !part.MatchString(p) {
			return User{}, fmt.Errorf("must be <user>; %q is not a name in Coder in lower case: up to %d letters, digits and single dashes between them", p, maxPart)
		}
	}
	if len(parts) == 1 {
		return User{Name: name}, nil
	}
	return User{Prefix: parts[0] + ".", Name: parts[1]}, nil
}

// idSuffix is what WithID adds. No name in Coder has two hyphens next to each other.
var idSuffix = regexp.MustCompile(`--[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$|--[0-9a-f]{8}$`)

// WithID returns the name of an object whose own name belongs to an object that was
// renamed in Coder. The id is a whole one, or its first eight digits.
func WithID(name, id string) string { return name + "--" + id }

// WithoutID returns the name without what WithID added.
func WithoutID(name string) string { return idSuffix.ReplaceAllString(name, "") }

// split takes a name apart. The example is what may be in front of a name in Coder, which
// people give instead of the name of the object.
func split(name string, want int, form, example string) (string, []string, error) {
	parts := strings.Split(name, ".")
	if len(parts) == 1 && part.MatchString(name) && len(name) <= maxPart {
		return "", nil, fmt.Errorf("must be %s, for example %q: %q alone is its name in Coder", form, example+name, name)
	}
	if len(parts) != want && len(parts) != want+1 {
		return "", nil, fmt.Errorf("must be %s, or <control-plane>.%s for a control plane that is not the first of its namespace", form, form)
	}
	for _, p := range parts {
		if len(p) > maxPart || !part.MatchString(p) {
			return "", nil, fmt.Errorf("must be %s; %q is not a name in Coder in lower case: up to %d letters, digits and single dashes between them", form, p, maxPart)
		}
	}
	if len(parts) == want {
		return "", parts, nil
	}
	return parts[0] + ".", parts[1:], nil
}

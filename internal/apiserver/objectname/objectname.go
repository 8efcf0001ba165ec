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

// Template contains the parts of a template's name.
type Template struct {
	// Prefix is empty or "<control-plane>.".
	Prefix       string
	Organization string
	Name         string
}

// Workspace contains the parts of a workspace's name.
type Workspace struct {
	// Prefix is empty or "<control-plane>.".
	Prefix       string
	Organization string
	Owner        string
	Name         string
}

// String returns the name of the object.
func (t Template) String() string {
	return strings.ToLower(t.Prefix + t.Organization + "." + t.Name)
}

// String returns the name of the object.
func (w Workspace) String() string {
	return strings.ToLower(w.Prefix + w.Organization + "." + w.Owner + "." + w.Name)
}

// ParseTemplate splits the name of a template's object into its parts.
func ParseTemplate(name string) (Template, error) {
	prefix, parts, err := split(name, 2, "<organization>.<template>", "coder.")
	if err != nil {
		return Template{}, err
	}
	return Template{Prefix: prefix, Organization: parts[0], Name: parts[1]}, nil
}

// ParseWorkspace splits the name of a workspace's object into its parts.
func ParseWorkspace(name string) (Workspace, error) {
	prefix, parts, err := split(name, 3, "<organization>.<user>.<workspace>", "coder.ada.")
	if err != nil {
		return Workspace{}, err
	}
	return Workspace{Prefix: prefix, Organization: parts[0], Owner: parts[1], Name: parts[2]}, nil
}

// User contains the parts of a user's name.
type User struct {
	// Prefix is empty or "<control-plane>.".
	Prefix string
	Name   string
}

// String returns the name of the object.
func (u User) String() string { return strings.ToLower(u.Prefix + u.Name) }

// ParseUser splits the name of a user's object into its parts.
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

// idSuffix matches the suffix that WithID appends. No name in Coder contains two consecutive
// hyphens.
var idSuffix = regexp.MustCompile(`--[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$|--[0-9a-f]{8}$`)

// WithID returns the name of an object whose natural name belongs to an object that was renamed in
// Coder. id is a whole UUID or its first eight digits.
func WithID(name, id string) string { return name + "--" + id }

// WithoutID returns the name without the suffix of WithID.
func WithoutID(name string) string { return idSuffix.ReplaceAllString(name, "") }

// split splits a name into its parts. example is a prefix for the error message if the name is only
// the name in Coder.
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

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
	prefix, parts, err := split(name, 2, "<organization>.<template>")
	if err != nil {
		return Template{}, err
	}
	return Template{Prefix: prefix, Organization: parts[0], Name: parts[1]}, nil
}

// ParseWorkspace takes the name of a workspace's object apart.
func ParseWorkspace(name string) (Workspace, error) {
	prefix, parts, err := split(name, 3, "<organization>.<user>.<workspace>")
	if err != nil {
		return Workspace{}, err
	}
	return Workspace{Prefix: prefix, Organization: parts[0], Owner: parts[1], Name: parts[2]}, nil
}

func split(name string, want int, form string) (string, []string, error) {
	parts := strings.Split(name, ".")
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

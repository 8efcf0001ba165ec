package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// api contains the types of all groups.
type api struct {
	order  []string
	byName map[string]*typ
}

// typ is one type.
type typ struct {
	name, groupVersion, doc string
	// alias reports that it is a named string or number type.
	alias  bool
	fields []field
}

// field is one field of a type.
type field struct {
	name, doc, initial string
	// kind is the displayed type. local is the name of the API type in it, or empty.
	kind, local string
	validation  []string
}

func (t *typ) field(name string) *field {
	i := slices.IndexFunc(t.fields, func(f field) bool { return f.name == name })
	if i < 0 {
		return nil
	}
	return &t.fields[i]
}

// suffix returns the suffix of the field's name in the path of its content.
func (f field) suffix() string {
	if strings.HasSuffix(f.kind, " array") || strings.HasPrefix(f.kind, "map ") {
		return "[]"
	}
	return ""
}

// subresources returns the types of a kind's subresources, in order.
func (a *api) subresources(kind string, seen map[string][]string) []string {
	var found []string
	for _, name := range a.order {
		rest, ours := strings.CutPrefix(name, kind)
		other := slices.ContainsFunc(kinds, func(k string) bool { return len(k) > len(kind) && strings.HasPrefix(name, k) })
		root := strings.HasSuffix(name, "Options") || strings.HasSuffix(name, "Action") || strings.HasSuffix(name, "List")
		if ours && root && rest != "List" && !other && seen[name] == nil {
			found = append(found, name)
		}
	}
	return found
}

// parse parses the output of crd-ref-docs: "## group", "#### Type", paragraphs, "_Appears in:_" and
// a table.
func parse(markdown string) (*api, error) {
	types := &api{byName: map[string]*typ{}}
	groupVersion := ""
	var current *typ
	about := false // the lines are the comment of the type
	for _, line := range strings.Split(markdown, "\n") {
		name, isType := strings.CutPrefix(line, "#### ")
		group, isGroup := strings.CutPrefix(line, "## ")
		switch {
		case isGroup:
			groupVersion, current = group, nil
		case isType:
			current, about = &typ{name: name, groupVersion: groupVersion}, true
			types.order, types.byName[name] = append(types.order, name), current
		case current == nil:
		case strings.HasPrefix(line, "_Underlying type:_"):
			current.alias = true
		case strings.HasPrefix(line, "_Appears in:_"), strings.HasPrefix(line, "_Validation:_"), strings.HasPrefix(line, "| Field"), strings.HasPrefix(line, "| ---"):
			about = false
		case strings.HasPrefix(line, "| `") && !current.alias:
			f, err := parseField(line)
			if err != nil {
				return nil, fmt.Errorf("type %s: %w", current.name, err)
			}
			current.fields, about = append(current.fields, f), false
		case about:
			current.doc += line + "\n"
		}
	}
	for _, t := range types.byName {
		t.doc = escape(strings.TrimSpace(t.doc))
	}
	types.resolve()
	return types, nil
}

// resolve replaces the names of string and number types.
func (a *api) resolve() {
	for _, t := range a.byName {
		for i := range t.fields {
			f := &t.fields[i]
			if under := a.byName[f.local]; under != nil && under.alias {
				f.kind, f.local = strings.Replace(f.kind, f.local, "string", 1), ""
			}
		}
	}
}

var (
	rowPattern   = regexp.MustCompile("^\\| `([^`]+)` _(.*?)_ \\| ")
	localPattern = regexp.MustCompile(`\[([A-Za-z]+)\]\(#[a-z]+\)`)
	mapPattern   = regexp.MustCompile(`^object \(keys:string, values:(.*)\)$`)
	breaks       = regexp.MustCompile(`(<br />)+`)
)

// parseField parses one table row: name and type, description, default, validation.
func parseField(line string) (field, error) {
	head := rowPattern.FindStringSubmatch(line)
	cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), " | ")
	if len(cells) == 3 && strings.TrimSpace(cells[2]) == "|" {
		cells[2] = ""
	}
	if head == nil || len(cells) < 3 || len(cells) > 4 {
		return field{}, fmt.Errorf("cannot read the line %q of a table", line)
	}
	f := field{name: head[1], kind: head[2], doc: paragraphs(cells[1]), initial: strings.TrimSpace(cells[2])}
	if len(cells) == 4 {
		for _, rule := range strings.Split(cells[3], "<br />") {
			if rule = strings.TrimSpace(rule); rule != "" {
				f.validation = append(f.validation, unescape(rule))
			}
		}
	}
	if local := localPattern.FindStringSubmatch(f.kind); local != nil {
		f.local, f.kind = local[1], strings.Replace(f.kind, local[0], local[1], 1)
	}
	f.kind = mapPattern.ReplaceAllString(f.kind, "map of $1")
	return f, nil
}

// paragraphs joins the lines of a comment. Empty lines become line breaks.
func paragraphs(doc string) string {
	joined := breaks.ReplaceAllStringFunc(doc, func(found string) string {
		if found == "<br />" {
			return " "
		}
		return "\n"
	})
	return strings.ReplaceAll(strings.TrimSpace(escape(joined)), "\n", "<br>")
}

// tag matches a word in angle brackets, which would be a tag in Markdown.
var tag = regexp.MustCompile(`<([a-z-]+)>`)

func escape(text string) string { return tag.ReplaceAllString(text, "&lt;$1&gt;") }

// unescape removes the Markdown escapes.
func unescape(text string) string {
	return strings.NewReplacer(`\{`, "{", `\}`, "}", `\(`, "(", "&lt;", "<", "&gt;", ">").Replace(text)
}

package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// api contains the types of all groups by name.
type api map[string]*typ

// typ is one type, as hack/generate/crd-ref-docs/types.tpl writes it.
type typ struct {
	Name, GroupVersion, Doc string
	// Alias reports that it is a named string or number type.
	Alias  bool
	Fields []field
}

// field is one field of a type.
type field struct {
	Name, Doc, Default string
	// Type is the displayed type. local is the name of the API type in it, or empty.
	Type, local string
	Validation  []string
}

func (t *typ) field(name string) *field {
	i := slices.IndexFunc(t.Fields, func(f field) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return &t.Fields[i]
}

// suffix returns the suffix of the field's name in the path of its content.
func (f field) suffix() string {
	if strings.HasSuffix(f.Type, " array") || strings.HasPrefix(f.Type, "map ") {
		return "[]"
	}
	return ""
}

// parse reads the output of crd-ref-docs with the template types.tpl.
func parse(raw []byte) (api, error) {
	var all []*typ
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	types := api{}
	for _, t := range all {
		t.Doc = escape(strings.TrimSpace(t.Doc))
		types[t.Name] = t
	}
	for _, t := range all {
		for i := range t.Fields {
			if f := t.Fields[i]; f.Name == "" || f.Type == "" {
				return nil, fmt.Errorf("field %d of %s, %q, has no name or no type", i, t.Name, f.Name)
			}
			t.Fields[i].complete(types)
		}
	}
	return types, nil
}

var (
	localPattern = regexp.MustCompile(`\[([A-Za-z0-9]+)\]\(#[a-z0-9]+\)`)
	mapPattern   = regexp.MustCompile(`^object \(keys:string, values:(.*)\)$`)
	// cells escapes a comment for a table cell. Empty lines become line breaks.
	cells = strings.NewReplacer("\n\n", "<br>", "\n", " ", "|", `\|`, "{", `\{`, "}", `\}`)
)

// complete replaces the link to a local type by its name, and an alias by string.
func (f *field) complete(types api) {
	f.Doc = cells.Replace(escape(strings.TrimSpace(f.Doc)))
	if link := localPattern.FindStringSubmatch(f.Type); link != nil {
		f.local = link[1]
		shown := f.local
		if of := types[f.local]; of != nil && of.Alias {
			f.local, shown = "", "string"
		}
		f.Type = strings.Replace(f.Type, link[0], shown, 1)
	}
	f.Type = mapPattern.ReplaceAllString(f.Type, "map of $1")
}

// tag matches a word in angle brackets, which would be a tag in Markdown.
var tag = regexp.MustCompile(`<([a-z-]+)>`)

func escape(text string) string { return tag.ReplaceAllString(text, "&lt;$1&gt;") }

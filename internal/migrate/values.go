package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Position is the position of a value.
type Position struct {
	// File is the name of the file, or a description of another source.
	File string
	// Line is the line, starting at 1. It is 0 if the values are not from a file.
	Line int
}

// String returns file:line.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Values is a set of values with their positions. The zero value is empty.
type Values struct {
	Content map[string]any
	places  map[string]Position
}

// ValuesOf returns values that were not read from a file.
func ValuesOf(source string, content map[string]any) Values {
	return Values{Content: content, places: map[string]Position{"": {File: source}}}
}

// ParseValues parses one file. An error contains the name of the file and, if the parser reports it, the
// line. It does not contain the content.
func ParseValues(file string, raw []byte) (Values, error) {
	var document yamlv3.Node
	decoder := yamlv3.NewDecoder(bytes.NewReader(raw))
	if err := decoder.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return Values{}, syntaxError(file, err)
	}
	var next yamlv3.Node
	if decoder.Decode(&next) == nil {
		return Values{}, fmt.Errorf("%s: is the second YAML document, and Helm reads one; write each into a file of its own", Position{file, next.Line})
	}
	set := Values{Content: map[string]any{}, places: map[string]Position{"": {File: file, Line: 1}}}
	if len(document.Content) == 0 {
		return set, nil
	}
	top := document.Content[0]
	if top.Kind == yamlv3.ScalarNode && top.Tag == "!!null" {
		return set, nil
	}
	if top.Kind != yamlv3.MappingNode {
		return Values{}, fmt.Errorf("%s: is not a mapping of values, as a Helm chart takes them", Position{file, top.Line})
	}
	if err := yaml.Unmarshal(raw, &set.Content); err != nil {
		return Values{}, syntaxError(file, err)
	}
	set.note(file, "", top, 0)
	return set, nil
}

// syntaxError returns the parser's message without a value that it may contain.
func syntaxError(file string, err error) error {
	message, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "`")
	message = strings.TrimPrefix(message, "yaml: ")
	if line, rest, found := strings.Cut(strings.TrimPrefix(message, "line "), ": "); found {
		if n, bad := strconv.Atoi(line); bad == nil {
			return fmt.Errorf("%s: cannot be read as YAML: %s", Position{file, n}, strings.TrimSpace(rest))
		}
	}
	return fmt.Errorf("%s: cannot be read as YAML: %s", file, strings.TrimSpace(message))
}

// maxDepth ends the recursion for a file with circular anchors.
const maxDepth = 64

func (s *Values) note(file, path string, node *yamlv3.Node, depth int) {
	if depth > maxDepth {
		return
	}
	if path != "" {
		if _, known := s.places[path]; !known {
			s.places[path] = Position{file, node.Line}
		}
	}
	switch node.Kind {
	case yamlv3.AliasNode:
		s.note(file, path, node.Alias, depth+1)
	case yamlv3.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			below := join(path, key.Value)
			s.places[below] = Position{file, key.Line}
			s.note(file, below, node.Content[i+1], depth+1)
		}
	case yamlv3.SequenceNode:
		for i, entry := range node.Content {
			s.note(file, fmt.Sprintf("%s[%d]", path, i), entry, depth+1)
		}
	}
}

// At returns the position of a value, or of its nearest parent.
func (s Values) At(path string) Position {
	for {
		if place, known := s.places[path]; known || path == "" {
			return place
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

// Over returns s with the values of top merged over it, as Helm merges files: maps are merged, and
// other values are replaced. null is a value too, because it later removes the default of the chart.
func (s Values) Over(top Values) Values {
	merged := Values{Content: mergeMaps(s.Content, top.Content, true), places: maps.Clone(s.places)}
	if merged.places == nil {
		merged.places = map[string]Position{}
	}
	for path, place := range top.places {
		if path != "" || merged.places[""].File == "" {
			merged.places[path] = place
		}
	}
	return merged
}

// mergeMaps merges top over below. null replaces a value, or removes it if keepNull is not set.
func mergeMaps(below, top map[string]any, keepNull bool) map[string]any {
	merged := maps.Clone(below)
	if merged == nil {
		merged = map[string]any{}
	}
	for key, value := range top {
		if value == nil && !keepNull {
			delete(merged, key)
			continue
		}
		under, isMap := merged[key].(map[string]any)
		over, overIsMap := value.(map[string]any)
		if isMap && overIsMap {
			merged[key] = mergeMaps(under, over, keepNull)
			continue
		}
		merged[key] = value
	}
	return merged
}

// Get returns the value at a path of keys, and whether it exists.
func (s Values) Get(path string) (any, bool) {
	// An error means that the path leads through another value than a map.
	value, found, _ := unstructured.NestedFieldNoCopy(s.Content, strings.Split(path, ".")...)
	return value, found
}

// Leaves returns the paths of all values, sorted. Lists, empty maps and null are leaves, and so are
// the paths for which whole returns true.
func (s Values) Leaves(whole func(path string) bool) []string {
	var all []string
	var walk func(path string, value any)
	walk = func(path string, value any) {
		fields, isMap := value.(map[string]any)
		if path != "" && (!isMap || len(fields) == 0 || whole(path)) {
			all = append(all, path)
			return
		}
		for key, below := range fields {
			walk(join(path, key), below)
		}
	}
	walk("", s.Content)
	slices.Sort(all)
	return all
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

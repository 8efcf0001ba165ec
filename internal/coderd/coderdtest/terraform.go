package coderdtest

import (
	"archive/tar"
	"bytes"
	"cmp"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// content is the parsed content of a version's files, as far as this server supports it: the blocks
// variable, data "coder_parameter" and data "coder_workspace_preset" of the .tf files in the root
// folder, with literal values.
type content struct {
	parameters []codersdk.TemplateVersionParameter
	presets    []codersdk.Preset
	variables  []codersdk.TemplateVersionVariable
}

// block is a Terraform block, or a map value after an equals sign.
type block struct {
	words  []string
	values map[string]string
	inner  []*block
}

func newBlock(words ...string) *block { return &block{words: words, values: map[string]string{}} }

// is reports whether a block begins with these words.
func (b *block) is(words ...string) bool {
	return len(b.words) >= len(words) && slices.Equal(b.words[:len(words)], words)
}

// readContent parses the files of an archive. It ignores unsupported syntax.
func readContent(archive []byte) content {
	var out content
	reader := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := reader.Next()
		if err != nil {
			break
		}
		if path.Dir(path.Clean(header.Name)) != "." || path.Ext(header.Name) != ".tf" {
			continue
		}
		source, err := io.ReadAll(reader)
		if err != nil {
			break
		}
		for _, b := range parseBlocks(string(source)).inner {
			out.add(b)
		}
	}
	slices.SortStableFunc(out.parameters, func(a, b codersdk.TemplateVersionParameter) int {
		return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return out
}

func (c *content) add(b *block) {
	switch {
	case b.is("variable") && len(b.words) == 2:
		c.variables = append(c.variables, b.variable())
	case b.is("data", "coder_parameter"):
		c.parameters = append(c.parameters, b.parameter())
	case b.is("data", "coder_workspace_preset"):
		c.presets = append(c.presets, b.preset())
	}
}

func parseBlocks(source string) *block {
	root := newBlock()
	open := []*block{root}
	for _, line := range oneBraceAtMost(source) {
		current := open[len(open)-1]
		key, value, assigns := strings.Cut(line, "=")
		key = strings.Trim(strings.TrimSpace(key), `"`)
		switch {
		case line == "}":
			if len(open) > 1 {
				open = open[:len(open)-1]
			}
		case strings.HasSuffix(line, "{"):
			words := strings.Fields(strings.NewReplacer(`"`, "", "=", "", "{", "").Replace(line))
			b := newBlock(words...)
			current.inner = append(current.inner, b)
			open = append(open, b)
		case assigns:
			current.values[key] = unquoted(value)
		}
	}
	return root
}

// oneBraceAtMost returns the lines without comments. It adds a line break after each opening brace
// and around each closing brace.
func oneBraceAtMost(source string) []string {
	var out []string
	for line := range strings.SplitSeq(source, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "//") {
			continue
		}
		begin, quoted := 0, false
		for i, c := range line {
			switch {
			case c == '"' && (i == 0 || line[i-1] != '\\'):
				quoted = !quoted
			case !quoted && c == '{':
				out = append(out, strings.TrimSpace(line[begin:i+1]))
				begin = i + 1
			case !quoted && c == '}':
				out = append(out, strings.TrimSpace(line[begin:i]), "}")
				begin = i + 1
			}
		}
		out = append(out, strings.TrimSpace(line[begin:]))
	}
	return out
}

func unquoted(value string) string {
	value = strings.TrimSpace(value)
	if list, ok := strings.CutPrefix(value, "jsonencode("); ok {
		return strings.TrimSuffix(list, ")")
	}
	if text, err := strconv.Unquote(value); err == nil {
		return text
	}
	return value
}

func (b *block) variable() codersdk.TemplateVersionVariable {
	value, given := b.values["default"]
	return codersdk.TemplateVersionVariable{
		Name: b.words[1], Description: b.values["description"], Type: cmp.Or(b.values["type"], "string"),
		Value: value, DefaultValue: value, Required: !given, Sensitive: b.values["sensitive"] == "true",
	}
}

func (b *block) parameter() codersdk.TemplateVersionParameter {
	value, given := b.values["default"]
	out := codersdk.TemplateVersionParameter{
		Name: b.values["name"], DisplayName: b.values["display_name"], Description: b.values["description"],
		DescriptionPlaintext: b.values["description"], Type: cmp.Or(b.values["type"], "string"), FormType: b.values["form_type"],
		Mutable: b.values["mutable"] == "true", Ephemeral: b.values["ephemeral"] == "true", DefaultValue: value, Required: !given,
		Options: []codersdk.TemplateVersionParameterOption{},
	}
	for _, inner := range b.inner {
		switch {
		case inner.is("option"):
			out.Options = append(out.Options, codersdk.TemplateVersionParameterOption{
				Name: inner.values["name"], Value: inner.values["value"], Description: inner.values["description"],
			})
		case inner.is("validation"):
			out.ValidationRegex, out.ValidationError = inner.values["regex"], inner.values["error"]
			out.ValidationMin, out.ValidationMax = inner.number("min"), inner.number("max")
			out.ValidationMonotonic = codersdk.ValidationMonotonicOrder(inner.values["monotonic"])
		}
	}
	if out.FormType == "" {
		out.FormType = formTypeOf(out)
	}
	return out
}

// formTypeOf returns Coder's default form type for a parameter.
func formTypeOf(p codersdk.TemplateVersionParameter) string {
	switch {
	case len(p.Options) > 0:
		return "radio"
	case p.Type == "bool":
		return "checkbox"
	case p.Type == "list(string)":
		return "tag-select"
	}
	return "input"
}

func (b *block) number(key string) *int32 {
	n, err := strconv.ParseInt(b.values[key], 10, 32)
	if err != nil {
		return nil
	}
	short := int32(n)
	return &short
}

func (b *block) preset() codersdk.Preset {
	out := codersdk.Preset{
		ID: uuid.New(), Name: b.values["name"], Description: b.values["description"], Default: b.values["default"] == "true",
	}
	for _, inner := range b.inner {
		if inner.is("parameters") {
			for name, value := range inner.values {
				out.Parameters = append(out.Parameters, codersdk.PresetParameter{Name: name, Value: value})
			}
		}
	}
	slices.SortFunc(out.Parameters, func(a, b codersdk.PresetParameter) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

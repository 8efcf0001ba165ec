package export

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/zclconf/go-cty/cty"
)

// declarations are the inputs that the source of a template declares.
type declarations struct {
	// variables contains each variable, and whether it is sensitive.
	variables map[string]bool
	// masked contains the parameters with a masked input.
	masked map[string]bool
}

// declarationsIn parses the Terraform files in the root folder of a template. It ignores files that
// cannot be parsed.
func declarationsIn(files map[string]string) declarations {
	out := declarations{variables: map[string]bool{}, masked: map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Dir(name) != "." {
			continue
		}
		parser := hclparse.NewParser()
		var file *hcl.File
		switch {
		case strings.HasSuffix(name, ".tf"):
			file, _ = parser.ParseHCL([]byte(files[name]), name)
		case strings.HasSuffix(name, ".tf.json"):
			file, _ = parser.ParseJSON([]byte(files[name]), name)
		}
		if file != nil && file.Body != nil {
			out.add(file)
		}
	}
	return out
}

func (d *declarations) add(file *hcl.File) {
	content, _, _ := file.Body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "variable", LabelNames: []string{"name"}},
		{Type: "data", LabelNames: []string{"type", "name"}},
	}})
	for _, block := range content.Blocks {
		switch {
		case block.Type == "variable":
			sensitive := attribute(block, "sensitive")
			d.variables[block.Labels[0]] = sensitive != nil && !isFalse(sensitive)
		case block.Labels[0] == "coder_parameter":
			d.addParameter(block, file.Bytes)
		}
	}
}

func (d *declarations) addParameter(block *hcl.Block, source []byte) {
	name, styling := attribute(block, "name"), attribute(block, "styling")
	if name == nil || styling == nil || !strings.Contains(string(styling.Expr.Range().SliceBytes(source)), "mask_input") {
		return
	}
	if value, _ := name.Expr.Value(nil); value.IsKnown() && !value.IsNull() && value.Type() == cty.String {
		d.masked[value.AsString()] = true
	}
}

func attribute(block *hcl.Block, name string) *hcl.Attribute {
	content, _, _ := block.Body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: name}}})
	return content.Attributes[name]
}

// isFalse reports whether an attribute is certainly false.
func isFalse(a *hcl.Attribute) bool {
	value, problems := a.Expr.Value(nil)
	return !problems.HasErrors() && value.IsKnown() && !value.IsNull() && value.Type() == cty.Bool && value.False()
}

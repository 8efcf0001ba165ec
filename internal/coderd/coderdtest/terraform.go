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
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	"k8s.io/utils/ptr"

	"github.com/coder/coder/v2/codersdk"
)

// content is the parsed content of a version's files, as far as this server supports it: the blocks
// variable, data "coder_parameter" and data "coder_workspace_preset" of the .tf files in the root
// folder, with literal values. Of a parameter, count may depend on parameters without count.
type content struct {
	// parameters are those under the default values, and defined are all.
	parameters []codersdk.TemplateVersionParameter
	defined    []definedParameter
	presets    []codersdk.Preset
	variables  []codersdk.TemplateVersionVariable
}

// definedParameter is a parameter with its label in Terraform. count is nil if it always exists.
type definedParameter struct {
	codersdk.TemplateVersionParameter
	label string
	count hcl.Expression
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
		file, _ := hclsyntax.ParseConfig(source, header.Name, hcl.InitialPos)
		if body, ok := file.Body.(*hclsyntax.Body); ok {
			out.add(body.Blocks)
		}
	}
	slices.SortStableFunc(out.defined, func(a, b definedParameter) int {
		return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	out.parameters = out.evaluate(nil)
	return out
}

func (c *content) add(blocks hclsyntax.Blocks) {
	for _, b := range blocks {
		switch {
		case len(b.Labels) == 0:
		case b.Type == "variable":
			c.variables = append(c.variables, newVariable(b.Labels[0], b.Body))
		case b.Type == "data" && b.Labels[0] == "coder_parameter":
			p := definedParameter{TemplateVersionParameter: newParameter(b.Body), label: b.Labels[len(b.Labels)-1]}
			if count := b.Body.Attributes["count"]; count != nil {
				p.count = count.Expr
			}
			c.defined = append(c.defined, p)
		case b.Type == "data" && b.Labels[0] == "coder_workspace_preset":
			c.presets = append(c.presets, newPreset(b.Body))
		}
	}
}

// evaluate returns the parameters that exist if the others have these values, or else their
// defaults.
func (c *content) evaluate(values buildParameters) []codersdk.TemplateVersionParameter {
	known := map[string]cty.Value{}
	for _, p := range c.defined {
		value := p.DefaultValue
		if given := find(values, p.Name); given != nil {
			value = given.Value
		}
		if p.count == nil {
			known[p.label] = cty.ObjectVal(map[string]cty.Value{"value": cty.StringVal(value)})
		}
	}
	data := cty.ObjectVal(map[string]cty.Value{"coder_parameter": cty.ObjectVal(known)})
	scope := &hcl.EvalContext{Variables: map[string]cty.Value{"data": data}}
	var out []codersdk.TemplateVersionParameter
	for _, p := range c.defined {
		if p.count != nil {
			if count, problems := p.count.Value(scope); problems.HasErrors() || count.RawEquals(cty.Zero) {
				continue
			}
		}
		out = append(out, p.TemplateVersionParameter)
	}
	return out
}

// literals returns the attributes of a block as text.
func literals(body *hclsyntax.Body) map[string]string {
	out := map[string]string{}
	for name, attribute := range body.Attributes {
		out[name] = text(attribute.Expr)
	}
	return out
}

// text returns a literal or the result of jsonencode as text, and a name as it is.
func text(expression hcl.Expression) string {
	functions := map[string]function.Function{"jsonencode": stdlib.JSONEncodeFunc}
	value, problems := expression.Value(&hcl.EvalContext{Functions: functions})
	if problems.HasErrors() {
		return hcl.ExprAsKeyword(expression)
	}
	converted, err := convert.Convert(value, cty.String)
	if err != nil || converted.IsNull() || !converted.IsKnown() {
		return ""
	}
	return converted.AsString()
}

func newVariable(name string, body *hclsyntax.Body) codersdk.TemplateVersionVariable {
	values := literals(body)
	value, given := values["default"]
	return codersdk.TemplateVersionVariable{
		Name: name, Description: values["description"], Type: cmp.Or(values["type"], "string"),
		Value: value, DefaultValue: value, Required: !given, Sensitive: values["sensitive"] == "true",
	}
}

func newParameter(body *hclsyntax.Body) codersdk.TemplateVersionParameter {
	values := literals(body)
	value, given := values["default"]
	out := codersdk.TemplateVersionParameter{
		Name: values["name"], DisplayName: values["display_name"], Description: values["description"],
		DescriptionPlaintext: values["description"], Type: cmp.Or(values["type"], "string"), FormType: values["form_type"],
		Mutable: values["mutable"] == "true", Ephemeral: values["ephemeral"] == "true", DefaultValue: value, Required: !given,
		Options: []codersdk.TemplateVersionParameterOption{},
	}
	for _, b := range body.Blocks {
		inner := literals(b.Body)
		switch b.Type {
		case "option":
			out.Options = append(out.Options, codersdk.TemplateVersionParameterOption{
				Name: inner["name"], Value: inner["value"], Description: inner["description"],
			})
		case "validation":
			out.ValidationRegex, out.ValidationError = inner["regex"], inner["error"]
			out.ValidationMin, out.ValidationMax = number(inner["min"]), number(inner["max"])
			out.ValidationMonotonic = codersdk.ValidationMonotonicOrder(inner["monotonic"])
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

func number(value string) *int32 {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return nil
	}
	return ptr.To(int32(n))
}

func newPreset(body *hclsyntax.Body) codersdk.Preset {
	values := literals(body)
	out := codersdk.Preset{
		ID: uuid.New(), Name: values["name"], Description: values["description"], Default: values["default"] == "true",
	}
	if attribute := body.Attributes["parameters"]; attribute != nil {
		pairs, _ := hcl.ExprMap(attribute.Expr)
		for _, pair := range pairs {
			out.Parameters = append(out.Parameters, codersdk.PresetParameter{Name: text(pair.Key), Value: text(pair.Value)})
		}
	}
	slices.SortFunc(out.Parameters, func(a, b codersdk.PresetParameter) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

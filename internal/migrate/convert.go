package migrate

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// The charts.
const (
	ChartCoder       = "coder"
	ChartProvisioner = "coder-provisioner"
)

// Source is the input of a conversion.
type Source struct {
	// Description describes the input for the report.
	Description string
	// Chart is ChartCoder or ChartProvisioner.
	Chart string
	// Release and Namespace are the name and the namespace of the release.
	Release, Namespace string
	// AppVersion is the version of Coder in the chart, or empty.
	AppVersion string
	// Values are the user's values, without the defaults of the chart.
	Values Values
	// Elsewhere are entries of the report about values that are not in Values.
	Elsewhere []Entry
}

// conversion is the state of one conversion.
type conversion struct {
	source   Source
	table    parityTable
	manifest *Manifest
	report   *Report
	// all contains the values, merged over the defaults of the chart. A value of null removes a
	// default.
	all map[string]any
}

// converter converts a value that cannot be copied to its field. It adds its own entries to the report.
type converter func(c *conversion, path string, value any) error

// Convert returns the manifest and the report about it. docs/reference/helm-parity.md is the mapping of
// values to fields.
func Convert(source Source) (*Manifest, *Report) {
	c := &conversion{
		source: source, report: &Report{Source: source.Description, Namespace: source.Namespace, Secret: source.Release + "-env"},
		all:      mergeMaps(defaults(source.Chart).Content, source.Values.Content, false),
		manifest: &Manifest{Namespace: source.Namespace, Spec: map[string]any{}},
	}
	special := c.chart()
	c.manifest.Name = c.name()
	c.report.Object = fmt.Sprintf("%s %s/%s", c.manifest.Kind, source.Namespace, c.manifest.Name)
	whole := func(path string) bool { return special[path] != nil || c.table.whole(path) }
	done := map[string]bool{}
	for _, path := range source.Values.Leaves(whole) {
		c.value(special, path, done)
	}
	c.report.Understood = slices.ContainsFunc(c.report.Entries, func(entry Entry) bool { return entry.Outcome != Unreadable })
	c.always()
	c.report.Entries = append(c.report.Entries, source.Elsewhere...)
	return c.manifest, c.report
}

// chart sets the kind and its table, and returns the converters for it.
func (c *conversion) chart() map[string]converter {
	if c.source.Chart == ChartProvisioner {
		c.manifest.Kind, c.table = KindProvisioner, readParity(parityProvisioner)
		return provisionerConverters()
	}
	if c.enabled("coder.workspaceProxy") {
		c.manifest.Kind, c.table = KindWorkspaceProxy, readParity(parityWorkspaceProxy)
		return proxyConverters()
	}
	c.manifest.Kind, c.table = KindControlPlane, readParity(parityControlPlane)
	return controlPlaneConverters()
}

// name returns the name of the custom resource. For a control plane it is the name of the
// Deployment, because the Service, and with it the address of Coder, has the same name. For the
// other kinds it is the name of the release.
func (c *conversion) name() string {
	if c.manifest.Kind == KindControlPlane {
		return DeploymentName(c.source.Chart, c.source.Values)
	}
	return c.source.Release
}

// DeploymentName returns the name of the Deployment of a release.
func DeploymentName(chart string, given Values) string {
	name := chart
	if text, ok := get(given.Content, "nameOverride").(string); ok && text != "" {
		name = text
	}
	return strings.TrimSuffix(name[:min(len(name), 63)], "-")
}

// value converts one value. A value that is neither in the table nor below a value that is
// converted as a whole does not belong to this chart.
func (c *conversion) value(special map[string]converter, path string, done map[string]bool) {
	for at := path; at != ""; at = at[:max(strings.LastIndex(at, "."), 0)] {
		convert := special[at]
		if convert == nil && (at == path || c.table.whole(at)) && c.table[at].Value != "" {
			convert = copied
		}
		if convert == nil {
			continue
		}
		if done[at] {
			return
		}
		done[at] = true
		if err := convert(c, at, get(c.source.Values.Content, at)); err != nil {
			c.tell(at, "", Unreadable, err.Error())
		}
		return
	}
	note := "is not a value of the chart " + c.source.Chart
	if c.table.covers(path) {
		note = "is not a mapping; leave it out for the defaults of the chart"
	}
	c.tell(path, "", Unreadable, note)
}

// copied is the converter that copies a value to its only field.
func copied(c *conversion, path string, value any) error {
	fields := c.table[path].Fields
	if empty(value) || len(fields) != 1 || strings.Contains(fields[0], "[]") {
		return byHand(c, path, value)
	}
	return c.put(path, strings.TrimPrefix(fields[0], "spec."), value)
}

// byHand is the converter for a value that has no field.
func byHand(c *conversion, path string, value any) error {
	if empty(value) {
		return c.unneeded(path, "is empty")
	}
	row := c.table[path]
	outcome, remark := Manual, strings.TrimPrefix(row.Remark, "How instead: ")
	if remark == row.Remark && len(row.Fields) == 0 {
		outcome = Unneeded
	}
	c.tell(path, strings.Join(row.Fields, ", "), outcome, remark)
	return nil
}

// put writes a value to a field of the spec, with references instead of secrets, and adds it to the
// report.
func (c *conversion) put(path, field string, value any) error {
	value, err := screened(path, value, c.refer)
	if err != nil {
		return err
	}
	if err := fits(c.manifest.Kind, field, value); err != nil {
		return err
	}
	set(c.manifest.Spec, field, value)
	c.tell(path, "spec."+field, Mapped, c.table[path].Remark)
	return nil
}

// refer replaces a variable with a secret value by a reference to a Secret that the user must
// create.
func (c *conversion) refer(path, variable string) map[string]any {
	secret := c.report.Secret
	if !slices.Contains(c.report.Keys, variable) {
		c.report.Keys = append(c.report.Keys, variable)
	}
	c.tell(path, "", Secret, fmt.Sprintf("%s is in clear text in the values, so the manifest refers to key %s of Secret %q, which you must create",
		variable, variable, secret))
	return map[string]any{"name": variable, "valueFrom": map[string]any{
		"secretKeyRef": map[string]any{"name": secret, "key": variable},
	}}
}

// tell adds an entry to the report. If a secret was replaced in the value, the entry keeps the
// outcome Secret and only gets the field.
func (c *conversion) tell(path, field string, outcome Outcome, note string) {
	entries := c.report.Entries
	if last := len(entries) - 1; last >= 0 && outcome == Mapped && entries[last].Outcome == Secret && entries[last].Value == path {
		entries[last].Field = field
		return
	}
	c.report.Entries = append(entries, Entry{Value: path, Where: c.source.Values.At(path), Field: field, Outcome: outcome, Note: note})
}

// unneeded adds a value without effect to the report.
func (c *conversion) unneeded(path, note string) error {
	c.tell(path, "", Unneeded, note)
	return nil
}

// text returns a value or its default as a string. It returns an empty string if there is none.
func (c *conversion) text(path string) string {
	text, _ := get(c.all, path).(string)
	return text
}

// textOrDefault returns the default of the chart also if the values remove it or a mapping that
// contains it.
func (c *conversion) textOrDefault(path string) string {
	return cmp.Or(c.text(path), defaults(c.source.Chart).text(path))
}

func (c *conversion) enabled(path string) bool { return get(c.all, path) == true }

// always sets fields that do not depend on a single value.
func (c *conversion) always() {
	spec := c.manifest.Spec
	if get(spec, "image") == nil {
		c.setImage()
	}
	if get(spec, "serviceAccount.name") == nil {
		set(spec, "serviceAccount.name", c.textOrDefault("coder.serviceAccount.name"))
	}
	switch c.manifest.Kind {
	case KindControlPlane:
		set(spec, "initialAdmin.disabled", true)
		c.setService()
		c.requireDatabase()
	case KindWorkspaceProxy:
		c.setService()
		c.completeProxy()
	case KindProvisioner:
		c.completeProvisioner()
	}
}

func empty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

//go:embed coder.yaml
var coderDefaults []byte

//go:embed coder-provisioner.yaml
var provisionerDefaults []byte

func defaults(chart string) Values {
	raw := coderDefaults
	if chart == ChartProvisioner {
		raw = provisionerDefaults
	}
	content := map[string]any{}
	if err := yaml.Unmarshal(raw, &content); err != nil {
		panic(fmt.Sprintf("bug: the defaults of the chart %s cannot be read: %v", chart, err))
	}
	return ValuesOf("defaults of the chart "+chart, content)
}

package migrate

import (
	"cmp"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/coder-k8s/coder-k8s/docs"
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
	var special map[string]converter
	c.manifest.Name = source.Release
	switch {
	case source.Chart == ChartProvisioner:
		c.manifest.Kind, c.table, special = KindProvisioner, readParity(parityProvisioner), workloadConverters()
		for _, value := range []string{"pskSecretName", "keySecretName", "keySecretKey"} {
			special["provisionerDaemon."+value] = credential
		}
		special["provisionerDaemon.tags"] = tags
	case c.enabled("coder.workspaceProxy"):
		c.manifest.Kind, c.table, special = KindWorkspaceProxy, readParity(parityWorkspaceProxy), controlPlaneConverters()
		// A proxy does not need the RBAC values for workspaces.
		delete(special, "coder.serviceAccount.extraRules")
		delete(special, "coder.serviceAccount.workspaceNamespaces")
	default:
		c.manifest.Kind, c.table, special = KindControlPlane, readParity(parityControlPlane), controlPlaneConverters()
		// The Service, and with it the address of Coder, has the name of the Deployment.
		c.manifest.Name = DeploymentName(source.Chart, source.Values)
	}
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
		variables, _ := get(spec, "extraEnv").([]any)
		_, computed := lastOf(variables)["CODER_PG_CONNECTION_URL"]
		if get(spec, "database") == nil && get(spec, "envFrom") == nil && !computed {
			c.tell("coder.env", "spec.database", Manual, "CODER_PG_CONNECTION_URL is not in coder.env; set spec.database.secretRef to the Secret with the URL of the database")
		}
	case KindWorkspaceProxy:
		c.setService()
		for _, needed := range []struct{ field, variable string }{
			{"primaryAccessURL", "CODER_PRIMARY_ACCESS_URL"}, {"proxySessionTokenSecretRef", "CODER_PROXY_SESSION_TOKEN"},
		} {
			if get(spec, needed.field) == nil {
				c.tell("coder.env", "spec."+needed.field, Manual,
					needed.variable+" is not in coder.env, or its value is computed; set the field, or use spec.controlPlaneRef")
			}
		}
	case KindProvisioner:
		// The defaults of the chart.
		if get(spec, "url") == nil {
			set(spec, "url", fmt.Sprintf("http://coder.%s.svc.cluster.local", c.source.Namespace))
		}
		c.report.Steps = append(c.report.Steps,
			"If the Coder at `spec.url` is a CoderControlPlane of this namespace, set `spec.controlPlaneRef` instead: the operator then creates and rotates the key.")
		name, key := c.text("provisionerDaemon.keySecretName"), c.text("provisionerDaemon.keySecretKey")
		switch {
		case get(spec, "key.secretRef") != nil || get(spec, "pskSecretRef") != nil:
		case name != "" && key != "":
			set(spec, "key.secretRef", map[string]any{"name": name, "key": key})
		default:
			set(spec, "pskSecretRef", map[string]any{"name": c.text("provisionerDaemon.pskSecretName"), "key": "psk"})
		}
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

// credential is the converter for values that are read together, in (*conversion).always.
func credential(c *conversion, path string, value any) error {
	if _, isText := value.(string); !isText && value != nil {
		return fmt.Errorf("is not text")
	}
	if empty(value) {
		return c.unneeded(path, "is empty")
	}
	c.tell(path, c.table[path].Fields[0], Mapped, "")
	return nil
}

// tags converts the values to strings, because the chart also accepts numbers and booleans.
func tags(c *conversion, path string, value any) error {
	given, ok := value.(map[string]any)
	if !ok && value != nil {
		return fmt.Errorf("is not a mapping")
	}
	texts := map[string]any{}
	for key, entry := range given {
		texts[key] = fmt.Sprint(entry)
	}
	return copied(c, path, texts)
}

// The headings of the tables.
const (
	parityControlPlane   = "The chart coder: CoderControlPlane"
	parityWorkspaceProxy = "The chart coder with workspaceProxy: CoderWorkspaceProxy"
	parityProvisioner    = "The chart provisioner: CoderProvisioner"
)

// parityRow is one value of a chart.
type parityRow struct {
	// Value is the path of the value, for example coder.image.tag.
	Value string
	// Fields are the fields that replace it. Empty means that there is another way, or that the
	// value is not needed.
	Fields []string
	// Remark is a note about the mapping.
	Remark string
}

// parityTable contains the rows of one chart by the paths of their values.
type parityTable map[string]parityRow

var (
	cells = regexp.MustCompile("^\\| `([^`]+)` \\| (.*?) \\| ?(.*?) ?\\|$")
	field = regexp.MustCompile("`(spec(?:\\.[A-Za-z]+(?:\\[\\])?)+)`")
)

// readParity returns the table under a heading. A row with the remark "As above." gets the remark of the
// row before.
func readParity(heading string) parityTable {
	table := parityTable{}
	_, text, _ := strings.Cut("\n"+docs.HelmParity, "\n## "+heading+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	last := ""
	for line := range strings.SplitSeq(text, "\n") {
		match := cells.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		row := parityRow{Value: match[1], Remark: match[3]}
		for _, found := range field.FindAllStringSubmatch(match[2], -1) {
			row.Fields = append(row.Fields, found[1])
		}
		if row.Remark == "As above." {
			row.Remark = last
		}
		last = row.Remark
		table[row.Value] = row
	}
	return table
}

// whole reports whether a path is converted as a whole: it has a row, and no row is below it.
func (t parityTable) whole(path string) bool {
	if _, ok := t[path]; !ok {
		return false
	}
	for value := range t {
		if strings.HasPrefix(value, path+".") {
			return false
		}
	}
	return true
}

// covers reports whether a path is a value of the chart: it has a row, or it is below or above one.
func (t parityTable) covers(path string) bool {
	for value := range t {
		if value == path || strings.HasPrefix(path, value+".") && t.whole(value) || strings.HasPrefix(value, path+".") {
			return true
		}
	}
	return false
}

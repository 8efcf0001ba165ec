package migrate

import (
	"fmt"
	"reflect"
	"strings"
)

// fallbackTag is the version of Coder if neither the values nor the chart contain one. It is an old
// version, because a newer one than the running one changes the database.
const fallbackTag = "v2.30.0"

// developmentVersion is the version of an unreleased chart.
const developmentVersion = "0.1.0"

// workloadConverters returns the converters of all kinds.
func workloadConverters() map[string]converter {
	return map[string]converter{
		"coder.image.repo":                         imagePart,
		"coder.image.tag":                          imagePart,
		"coder.securityContext":                    securityContext,
		"coder.affinity":                           affinity,
		"coder.command":                            command,
		"coder.lifecycle":                          lifecycle,
		"coder.env":                                environment,
		"coder.serviceAccount.extraRules":          extraRules,
		"coder.serviceAccount.workspaceNamespaces": workspaceNamespaces,
		"nameOverride":                             nameOverride,
	}
}

func (c *conversion) setImage() {
	tag := c.text("coder.image.tag")
	if tag == "" && c.source.AppVersion != "" && c.source.AppVersion != developmentVersion {
		tag = "v" + strings.TrimPrefix(c.source.AppVersion, "v")
	}
	if tag == "" {
		tag = fallbackTag
		c.report.Steps = append(c.report.Steps, fmt.Sprintf(
			"Neither the values nor the chart say which version of Coder runs. Set it in `spec.image`, which has %s now: a newer version changes the database.", tag))
	}
	set(c.manifest.Spec, "image", c.textOrDefault("coder.image.repo")+":"+tag)
}

func imagePart(c *conversion, path string, value any) error {
	if _, isText := value.(string); !isText && value != nil {
		return fmt.Errorf("is not text; quote it")
	}
	if get(c.manifest.Spec, "image") == nil {
		c.setImage()
	}
	c.tell(path, "spec.image", Mapped, "")
	return nil
}

// securityContext writes all fields, so that no default of the operator applies. If the values
// leave the user to the platform, so does the manifest.
func securityContext(c *conversion, path string, _ any) error {
	fields, ok := get(c.all, path).(map[string]any)
	if !ok {
		return fmt.Errorf("is not a mapping")
	}
	if fields["runAsUser"] == nil {
		set(c.manifest.Spec, "platformAssignedUser", true)
	}
	return c.put(path, "securityContext", fields)
}

// affinity also writes an empty affinity, which means none in both.
func affinity(c *conversion, path string, value any) error {
	if value == nil {
		value = map[string]any{}
	}
	return c.put(path, "affinity", value)
}

func command(c *conversion, path string, value any) error {
	if empty(value) || reflect.DeepEqual(value, []any{"/opt/coder"}) {
		return c.unneeded(path, "it is the path of the program in the image")
	}
	return c.put(path, "command", value)
}

func lifecycle(c *conversion, path string, value any) error {
	if empty(value) {
		return c.unneeded(path, "is empty")
	}
	value, err := screened(path, value, c.refer)
	if err != nil {
		return err
	}
	containers := []any{map[string]any{"name": ContainerName(c.manifest.Kind), "lifecycle": value}}
	if err := fits(c.manifest.Kind, "podTemplate.spec.containers", containers); err != nil {
		return err
	}
	set(c.manifest.Spec, "podTemplate.spec.containers", containers)
	c.tell(path, "spec.podTemplate.spec.containers[].lifecycle", Mapped, "")
	return nil
}

// ContainerName returns the name of Coder's container.
func ContainerName(kind string) string {
	switch kind {
	case KindProvisioner:
		return "provisioner"
	case KindWorkspaceProxy:
		return "workspace-proxy"
	}
	return "coder"
}

func extraRules(c *conversion, path string, value any) error {
	if empty(value) {
		return c.unneeded(path, "is empty")
	}
	return c.put(path, "rbac.extraRules", ruleList(value))
}

// ruleList returns rules as a list, because the chart also accepts a single rule.
func ruleList(value any) any {
	if _, single := value.(map[string]any); single {
		return []any{value}
	}
	return value
}

// workspaceNamespaces converts names, and mappings with a name and further settings.
func workspaceNamespaces(c *conversion, path string, value any) error {
	entries, ok := value.([]any)
	if !ok && value != nil {
		return fmt.Errorf("is not a list")
	}
	var names, settings []any
	for i, entry := range entries {
		at := fmt.Sprintf("%s[%d]", path, i)
		fields, isMap := entry.(map[string]any)
		if name, isText := entry.(string); isText {
			fields, isMap = map[string]any{"name": name}, true
		}
		name, _ := fields["name"].(string)
		switch {
		case !isMap || name == "":
			c.tell(at, "", Unreadable, "names no namespace")
		case len(fields) == 1:
			names = append(names, name)
			c.tell(at, "spec.rbac.workspaceNamespaces", Mapped, c.table[path].Remark)
		default:
			if rules, has := fields["extraRules"]; has {
				fields["extraRules"] = ruleList(rules)
			}
			if err := fits(c.manifest.Kind, "rbac.namespaces", []any{fields}); err != nil {
				c.tell(at, "", Unreadable, err.Error())
				continue
			}
			settings = append(settings, fields)
			c.tell(at, "spec.rbac.namespaces", Mapped, c.table[path].Remark)
		}
	}
	if len(names) > 0 {
		set(c.manifest.Spec, "rbac.workspaceNamespaces", names)
	}
	if len(settings) > 0 {
		set(c.manifest.Spec, "rbac.namespaces", settings)
	}
	return nil
}

func nameOverride(c *conversion, path string, value any) error {
	if text, isText := value.(string); !isText || text == "" || c.manifest.Kind != KindControlPlane {
		return byHand(c, path, value)
	}
	c.tell(path, "metadata.name", Mapped,
		"The chart names only the Deployment by it: the Service and the Ingress are called coder there and by this name here. Where the address of the Service is used, keep a Service coder of your own.")
	return nil
}

package migrate

import (
	"fmt"
	"maps"
)

func controlPlaneConverters() map[string]converter {
	all := workloadConverters()
	maps.Copy(all, servingConverters())
	all["coder.workspaceProxy"] = func(c *conversion, path string, _ any) error {
		c.tell(path, "", Mapped, "it selects the kind "+c.manifest.Kind)
		return nil
	}
	return all
}

// proxyConverters omits the RBAC values for workspaces, which a proxy does not need.
func proxyConverters() map[string]converter {
	all := controlPlaneConverters()
	delete(all, "coder.serviceAccount.extraRules")
	delete(all, "coder.serviceAccount.workspaceNamespaces")
	return all
}

func provisionerConverters() map[string]converter {
	all := workloadConverters()
	for _, value := range []string{"pskSecretName", "keySecretName", "keySecretKey"} {
		all["provisionerDaemon."+value] = credential
	}
	all["provisionerDaemon.tags"] = tags
	return all
}

// credential is the converter for values that completeProvisioner reads together.
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

// completeProvisioner sets the URL of Coder and the credential of the daemons to the chart's
// defaults if the values do not set them.
func (c *conversion) completeProvisioner() {
	spec := c.manifest.Spec
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

// requireDatabase reports that no value names the database.
func (c *conversion) requireDatabase() {
	variables, _ := get(c.manifest.Spec, "extraEnv").([]any)
	_, computed := lastOf(variables)["CODER_PG_CONNECTION_URL"]
	if get(c.manifest.Spec, "database") == nil && get(c.manifest.Spec, "envFrom") == nil && !computed {
		c.tell("coder.env", "spec.database", Manual, "CODER_PG_CONNECTION_URL is not in coder.env; set spec.database.secretRef to the Secret with the URL of the database")
	}
}

// completeProxy reports required fields of a proxy that the values do not set.
func (c *conversion) completeProxy() {
	for _, needed := range []struct{ field, variable string }{
		{"primaryAccessURL", "CODER_PRIMARY_ACCESS_URL"}, {"proxySessionTokenSecretRef", "CODER_PROXY_SESSION_TOKEN"},
	} {
		if get(c.manifest.Spec, needed.field) == nil {
			c.tell("coder.env", "spec."+needed.field, Manual,
				needed.variable+" is not in coder.env, or its value is computed; set the field, or use spec.controlPlaneRef")
		}
	}
}

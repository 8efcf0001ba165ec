package migrate

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

const (
	typeLoadBalancer = "LoadBalancer"
	typeNodePort     = "NodePort"
)

// controlPlaneConverters returns the converters of the kinds that serve HTTP.
func controlPlaneConverters() map[string]converter {
	all := workloadConverters()
	maps.Copy(all, map[string]converter{
		"coder.service.externalTrafficPolicy": loadBalancerOnly,
		"coder.service.loadBalancerIP":        loadBalancerOnly,
		"coder.service.loadBalancerClass":     loadBalancerOnly,
		"coder.service.httpNodePort":          nodePort,
		"coder.service.httpsNodePort":         nodePort,
		"coder.ingress.enable":                exposed,
		"coder.ingress.tls.enable":            whereEnabled("coder.ingress.enable", exposed),
		"coder.httproute.enable":              exposed,
		"coder.httproute.parentRefs":          whereEnabled("coder.httproute.enable", parentRefs),
		"coder.workspaceProxy": func(c *conversion, path string, _ any) error {
			c.tell(path, "", Mapped, "it selects the kind "+c.manifest.Kind)
			return nil
		},
	})
	for _, field := range []string{"className", "host", "wildcardHost", "annotations"} {
		all["coder.ingress."+field] = whereEnabled("coder.ingress.enable", copied)
	}
	for _, field := range []string{"secretName", "wildcardSecretName"} {
		all["coder.ingress.tls."+field] = whereEnabled("coder.ingress.enable", whereEnabled("coder.ingress.tls.enable", copied))
	}
	for _, field := range []string{"host", "wildcardHost", "annotations"} {
		all["coder.httproute."+field] = whereEnabled("coder.httproute.enable", copied)
	}
	return all
}

// whereEnabled converts a value only if another value is true, as the chart does.
func whereEnabled(enable string, convert converter) converter {
	return func(c *conversion, path string, value any) error {
		if !c.enabled(enable) {
			return c.unneeded(path, enable+" is not true")
		}
		return convert(c, path, value)
	}
}

// exposed is the converter for a flag. If it is true, its field is set to an empty object.
func exposed(c *conversion, path string, value any) error {
	switch value {
	case true:
	case false, nil:
		return c.unneeded(path, "is off")
	default:
		return errors.New("is neither true nor false")
	}
	field := strings.TrimPrefix(c.table[path].Fields[0], "spec.")
	if get(c.manifest.Spec, field) == nil {
		set(c.manifest.Spec, field, map[string]any{})
	}
	c.tell(path, "spec."+field, Mapped, "")
	return nil
}

// parentRefs removes the group, which the field does not have: both kinds belong to the Gateway
// API.
func parentRefs(c *conversion, path string, value any) error {
	entries, ok := value.([]any)
	if !ok {
		return fmt.Errorf("is not a list")
	}
	var kept []any
	for _, entry := range entries {
		fields, ok := entry.(map[string]any)
		if !ok {
			return fmt.Errorf("is not a list of mappings")
		}
		plain := maps.Clone(fields)
		delete(plain, "group")
		kept = append(kept, plain)
	}
	return c.put(path, "expose.gateway.parentRefs", kept)
}

// loadBalancerOnly is the converter for values that the chart uses only with the Service type
// LoadBalancer.
func loadBalancerOnly(c *conversion, path string, value any) error {
	if kind := c.text("coder.service.type"); kind != typeLoadBalancer {
		return c.unneeded(path, "has no effect in the chart with the type "+kind)
	}
	return copied(c, path, value)
}

// nodePort converts the value to a number, because the chart also accepts a string.
func nodePort(c *conversion, path string, value any) error {
	if empty(value) {
		return c.unneeded(path, "is empty")
	}
	if kind := c.text("coder.service.type"); kind != typeLoadBalancer && kind != typeNodePort {
		return c.unneeded(path, "has no effect in the chart with the type "+kind)
	}
	if text, isText := value.(string); isText {
		number, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("is not a number")
		}
		value = number
	}
	return copied(c, path, value)
}

// setService sets the type of the Service explicitly, because the chart has a different default.
func (c *conversion) setService() {
	if c.enabled("coder.service.enable") && get(c.manifest.Spec, "service.type") == nil {
		set(c.manifest.Spec, "service.type", c.text("coder.service.type"))
	}
}

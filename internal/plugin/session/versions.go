package session

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// TemplateVersion returns a version of a template by its name or UUID.
func (c *Cluster) TemplateVersion(ctx context.Context, tmpl *aggregationv1alpha1.CoderTemplate, nameOrID string) (aggregationv1alpha1.CoderTemplateVersion, error) {
	var seen []string
	query := map[string]string{"archived": "true", "limit": "200"}
	for {
		var list aggregationv1alpha1.CoderTemplateVersionList
		if err := c.decode(ctx, tmpl.Namespace, "codertemplates", tmpl.Name, "versions", query, &list); err != nil {
			return aggregationv1alpha1.CoderTemplateVersion{}, fmt.Errorf("reading the versions of template %s: %w", tmpl.Name, err)
		}
		for _, v := range list.Items {
			if v.ID == nameOrID || v.Name == nameOrID {
				return v, nil
			}
			seen = append(seen, v.Name)
		}
		if list.Continue == "" {
			break
		}
		query["after"] = list.Continue
	}
	const most = 5
	return aggregationv1alpha1.CoderTemplateVersion{}, fmt.Errorf("template %s has no version %q; the newest of its %d are %s",
		tmpl.Name, nameOrID, len(seen), strings.Join(seen[:min(len(seen), most)], ", "))
}

// TemplateVersionNames returns the names of the newest versions of a template.
func (c *Cluster) TemplateVersionNames(ctx context.Context, tmpl *aggregationv1alpha1.CoderTemplate) []string {
	var list aggregationv1alpha1.CoderTemplateVersionList
	if c.decode(ctx, tmpl.Namespace, "codertemplates", tmpl.Name, "versions", map[string]string{"limit": "20"}, &list) != nil {
		return nil
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// decode reads a subresource and decodes its JSON.
func (c *Cluster) decode(ctx context.Context, namespace, resource, name, subresource string, query map[string]string, into any) error {
	stream, err := c.Stream(ctx, namespace, resource, name, subresource, query)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	text, err := io.ReadAll(stream)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

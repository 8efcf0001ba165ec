package template

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

// download reads the files of a version of a template, by its name or UUID; of the
// one that spec.files shows where none is given.
func download(ctx context.Context, c *session.Cluster, tmpl *aggregationv1alpha1.CoderTemplate, version string) (files, error) {
	query := map[string]string{}
	if version != "" {
		found, err := c.TemplateVersion(ctx, tmpl, version)
		if err != nil {
			return nil, err
		}
		query["version"] = found.ID
	}
	stream, err := c.Stream(ctx, tmpl.Namespace, "codertemplates", tmpl.Name, "files", query)
	if err != nil {
		return nil, fmt.Errorf("the files of template %s: %w", tmpl.Name, err)
	}
	defer func() { _ = stream.Close() }()
	found, err := readArchive(stream)
	if err != nil {
		return nil, fmt.Errorf("the files of template %s: %w", tmpl.Name, err)
	}
	return found, nil
}

// upload puts an archive in the place of all files of a template, and tmpl is then the
// template as it became.
func upload(ctx context.Context, c *session.Cluster, tmpl *aggregationv1alpha1.CoderTemplate, archive []byte, dryRun bool) error {
	request := c.Kube.CoreV1().RESTClient().Verb(http.MethodPut).AbsPath("/apis/"+aggregationv1alpha1.GroupVersion.String()).
		Namespace(tmpl.Namespace).Resource("codertemplates").Name(tmpl.Name).SubResource("files").
		Param("fieldManager", fieldManager).SetHeader("Content-Type", "application/x-tar").Body(archive)
	if dryRun {
		request = request.Param("dryRun", "All")
	}
	text, err := request.Do(ctx).Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, tmpl); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}

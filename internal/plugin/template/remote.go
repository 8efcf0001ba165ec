package template

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

// download reads the files of a template version by its name or UUID. Without a version, it reads
// the files of the version that spec.files shows.
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

// upload replaces all files of a template by an archive, and updates tmpl from the response.
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

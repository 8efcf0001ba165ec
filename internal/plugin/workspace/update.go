package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

// outdated returns the workspaces that do not have the active version of their template, and
// records that version. It prints the others.
func (r *run) outdated(ctx context.Context, c *session.Cluster, found []aggregationv1alpha1.CoderWorkspace) ([]aggregationv1alpha1.CoderWorkspace, error) {
	r.versions = map[types.UID]string{}
	active := map[types.NamespacedName]string{}
	var outdated []aggregationv1alpha1.CoderWorkspace
	for _, ws := range found {
		key := types.NamespacedName{Namespace: ws.Namespace, Name: templateOf(&ws)}
		if _, known := active[key]; !known {
			tmpl := &aggregationv1alpha1.CoderTemplate{}
			if err := c.Get(ctx, key, tmpl); err != nil {
				return nil, fmt.Errorf("reading template %s of workspace %s: %w", key, ws.Name, err)
			}
			active[key] = tmpl.Status.ActiveVersionID
		}
		if active[key] == "" {
			return nil, fmt.Errorf("template %s has no active version", key)
		}
		if ws.Spec.TemplateVersionID == active[key] {
			fmt.Fprintf(r.ErrOut, "coderworkspace.aggregation.coder.com/%s has the active version already\n", ws.Name)
			continue
		}
		r.versions[ws.UID] = active[key]
		outdated = append(outdated, ws)
	}
	return outdated, nil
}

// templateOf returns the name of the template's object, which has the same prefix as the
// workspace's: [control-plane.]organization.
func templateOf(ws *aggregationv1alpha1.CoderWorkspace) string {
	parts := strings.Split(ws.Name, ".")
	beginning := parts[:max(0, len(parts)-2)]
	return strings.ToLower(strings.Join(append(beginning[:len(beginning):len(beginning)], ws.Spec.TemplateName), "."))
}

// update writes the active version to the spec.
func (r *run) update(ctx context.Context, c *session.Cluster, ws *aggregationv1alpha1.CoderWorkspace) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"templateVersionID": r.versions[ws.UID]}})
	if err != nil {
		return err
	}
	var options []client.PatchOption
	if r.dryRun {
		options = append(options, client.DryRunAll)
	}
	return c.Patch(ctx, ws, client.RawPatch(types.MergePatchType, patch), options...)
}

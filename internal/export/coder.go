package export

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	templateregistry "github.com/coder-k8s/coder-k8s/internal/apiserver/registry/template"
	userregistry "github.com/coder-k8s/coder-k8s/internal/apiserver/registry/user"
	workspaceregistry "github.com/coder-k8s/coder-k8s/internal/apiserver/registry/workspace"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// coder reads from a Coder directly, without an operator.
type coder struct {
	client *coderd.Client
	// namespace is the namespace in the manifests. It may be empty.
	namespace string
	kinds     kinds
}

// read lists templates, workspaces and users, with their variables and parameters.
func (c coder) read(ctx context.Context, r *report) (found, error) {
	connection := connections.Connection{ControlPlane: types.NamespacedName{Namespace: c.namespace}, Client: c.client}
	var out found
	if c.kinds.needTemplates() {
		c.readTemplates(ctx, connection, &out, r)
	}
	if c.kinds.users {
		c.readUsers(ctx, connection, &out, r)
	}
	if c.kinds.workspaces {
		c.readWorkspaces(ctx, connection, &out, r)
	}
	if err := ctx.Err(); err != nil {
		return found{}, fmt.Errorf("reading Coder at %s: %w", c.client.URL(), err)
	}
	return out, nil
}

// readTemplates lists the templates.
func (c coder) readTemplates(ctx context.Context, connection connections.Connection, out *found, r *report) {
	templates, err := c.client.Templates(ctx)
	if err != nil {
		r.leave("the templates: %v", err)
	}
	kind := templateregistry.New(templateregistry.Config{Config: registry.Config{Clock: clock.RealClock{}}})
	for _, item := range templates {
		t, err := c.template(ctx, kind, connection, item)
		if err != nil {
			r.leave("template %s of organization %s: %v", item.Name, item.OrganizationName, err)
			continue
		}
		out.templates = append(out.templates, t)
	}
}

// readWorkspaces lists the workspaces.
func (c coder) readWorkspaces(ctx context.Context, connection connections.Connection, out *found, r *report) {
	workspaces, err := c.client.Workspaces(ctx)
	if err != nil {
		r.leave("the workspaces: %v", err)
	}
	kind := workspaceregistry.New(workspaceregistry.Config{Config: registry.Config{Clock: clock.RealClock{}}})
	reader := workspaceReader{coder: c, connection: connection, ephemeral: map[uuid.UUID]map[string]bool{}, kind: kind}
	for _, item := range workspaces {
		ws, err := reader.workspace(ctx, item)
		if err != nil {
			r.leave("workspace %s of %s: %v", item.Name, item.OwnerName, err)
			continue
		}
		out.workspaces = append(out.workspaces, *ws)
	}
}

// readUsers lists the users.
func (c coder) readUsers(ctx context.Context, connection connections.Connection, out *found, r *report) {
	kind := userregistry.New(userregistry.Config{Config: registry.Config{Clock: clock.RealClock{}}})
	for offset, count := 0, 1; offset < count; offset += coderd.MaxUserPage {
		page, err := c.client.UserPage(ctx, offset, coderd.MaxUserPage)
		if err != nil {
			r.leave("the users: %v", err)
			return
		}
		count = page.Count
		for _, item := range page.Users {
			u, err := as[*aggregationv1alpha1.CoderUser](kind.Object(ctx, connection, item, nil, nil))
			if err != nil {
				r.leave("user %s: %v", item.Username, err)
				continue
			}
			out.users = append(out.users, *u)
		}
	}
}

// as returns the result of a conversion as its type.
func as[T any](object any, err error) (T, error) {
	typed, ok := object.(T)
	if err == nil && !ok {
		err = fmt.Errorf("it became a %T", object)
	}
	return typed, err
}

// template returns the object of a template. The aggregated API returns only the variables that
// were set through it; this returns all values that Coder returns.
func (c coder) template(ctx context.Context, kind *templateregistry.Kind, connection connections.Connection, item coderd.Template) (template, error) {
	tmpl, err := as[*aggregationv1alpha1.CoderTemplate](kind.Object(ctx, connection, item, nil, nil))
	if err != nil {
		return template{}, err
	}
	out := template{CoderTemplate: *tmpl, sensitivityKnown: true}
	variables, err := c.client.VersionVariables(ctx, item.ActiveVersionID)
	if err != nil && !coderd.IsTooEarly(err) {
		return template{}, err
	}
	for _, v := range variables {
		switch {
		case v.Sensitive:
			out.sensitive = append(out.sensitive, v.Name)
		case v.Value != v.Default:
			out.Spec.Variables = append(out.Spec.Variables, aggregationv1alpha1.TemplateVariable{Name: v.Name, Value: v.Value})
		}
	}
	return out, nil
}

// workspaceReader returns the objects of workspaces.
type workspaceReader struct {
	coder
	connection connections.Connection
	kind       *workspaceregistry.Kind
	// ephemeral caches the parameters of versions, and whether each is ephemeral.
	ephemeral map[uuid.UUID]map[string]bool
}

// workspace returns the object of a workspace, with the values of all parameters, because there is
// no record of which ones were set explicitly.
func (w *workspaceReader) workspace(ctx context.Context, item coderd.Workspace) (*aggregationv1alpha1.CoderWorkspace, error) {
	ws, err := as[*aggregationv1alpha1.CoderWorkspace](w.kind.Object(ctx, w.connection, item, nil, nil))
	if err != nil {
		return nil, err
	}
	ephemeral, err := w.parameters(ctx, item.LatestBuild.TemplateVersionID)
	if err != nil {
		return nil, err
	}
	values, err := w.client.BuildParameters(ctx, item.LatestBuild.ID)
	if err != nil {
		return nil, err
	}
	for _, p := range values {
		if !ephemeral[p.Name] {
			ws.Spec.Parameters = append(ws.Spec.Parameters, aggregationv1alpha1.WorkspaceParameter{Name: p.Name, Value: p.Value})
		}
	}
	return ws, nil
}

// parameters returns the parameters of a version, and whether each is ephemeral: its value applies to
// one build only. Parameters that do not exist with the default values are missing.
func (w *workspaceReader) parameters(ctx context.Context, version uuid.UUID) (map[string]bool, error) {
	if known, ok := w.ephemeral[version]; ok {
		return known, nil
	}
	parameters, err := w.client.VersionParameters(ctx, version)
	if err != nil && !coderd.IsTooEarly(err) {
		return nil, err
	}
	ephemeral := map[string]bool{}
	for _, p := range parameters {
		ephemeral[p.Name] = p.Ephemeral
	}
	w.ephemeral[version] = ephemeral
	return ephemeral, nil
}

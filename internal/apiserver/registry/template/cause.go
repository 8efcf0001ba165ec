package template

import (
	"context"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// withCause returns the version with the error of Terraform, if its build failed and Coder does not
// report why.
func (k *Kind) withCause(ctx context.Context, connection connections.Connection, v coderd.TemplateVersion) coderd.TemplateVersion {
	if v.Status != buildFailed {
		return v
	}
	k.causes.Learn(ctx, v.ID, v.Error, v.UpdatedAt, connection.Client.VersionCause)
	if cause := k.causes.Get(v.ID); cause != "" {
		v.Error = cause
	}
	return v
}

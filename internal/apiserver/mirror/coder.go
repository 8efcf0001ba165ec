package mirror

import (
	"context"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// Coder is the part of the Coder API that the mirror reads. It has no method that changes data.
type Coder interface {
	Me(ctx context.Context) (coderd.User, error)
	Organizations(ctx context.Context) ([]coderd.Organization, error)
	ActiveJobs(ctx context.Context, organization uuid.UUID) ([]coderd.Job, error)
	NewestJobs(ctx context.Context, organization uuid.UUID, limit int) ([]coderd.Job, error)
	WorkspaceCount(ctx context.Context) (int, error)
	WorkspacePage(ctx context.Context, offset, limit int) (coderd.WorkspacePage, error)
	DisconnectedWorkspaces(ctx context.Context, offset, limit int) (coderd.WorkspacePage, error)
	WorkspacesByID(ctx context.Context, ids []uuid.UUID) ([]coderd.Workspace, error)
	Workspace(ctx context.Context, id uuid.UUID) (coderd.Workspace, error)
	Templates(ctx context.Context) ([]coderd.Template, error)
	Template(ctx context.Context, id uuid.UUID) (coderd.Template, error)
	UserPage(ctx context.Context, offset, limit int) (coderd.UserPage, error)
	UserByID(ctx context.Context, id uuid.UUID) (coderd.User, error)
}

var _ Coder = (*coderd.Client)(nil)

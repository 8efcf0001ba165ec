package workspace

import (
	"context"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// learnCause reads the log of a failed build to find its error, if the object does not show it yet.
func (k *Kind) learnCause(ctx context.Context, connection connections.Connection, b coderd.Build, previous *aggregationv1alpha1.CoderWorkspace) {
	if b.Status == statusFailed && shownError(b, previous) == b.Error {
		k.causes.Learn(ctx, b.ID, b.Error, b.UpdatedAt, connection.Client.BuildCause)
	}
}

// errorOf returns the error of a failed build: the error of Terraform, if it is known.
func (k *Kind) errorOf(b coderd.Build, previous *aggregationv1alpha1.CoderWorkspace) string {
	if cause := k.causes.Get(b.ID); cause != "" && b.Status == statusFailed {
		return cause
	}
	return shownError(b, previous)
}

// shownError returns the error that the object shows for the same build. Another replica may have
// found it in the log.
func shownError(b coderd.Build, previous *aggregationv1alpha1.CoderWorkspace) string {
	if previous == nil || previous.Status.LatestBuildID != b.ID.String() || previous.Status.LatestBuildStatus != b.Status ||
		previous.Status.LatestBuildError == "" {
		return b.Error
	}
	return previous.Status.LatestBuildError
}

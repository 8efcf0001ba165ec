package coderd_test

import (
	"context"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// transit queues a build with only a transition.
func transit(ctx context.Context, client *coderd.Client, workspace uuid.UUID, transition coderd.Transition) error {
	_, err := client.Build(ctx, workspace, coderd.BuildRequest{Transition: transition})
	return err
}

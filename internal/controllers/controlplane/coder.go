package controlplane

import (
	"context"
	"fmt"
	"time"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

// answerTimeout bounds the question whether Coder is there.
const answerTimeout = 10 * time.Second

// askCoder asks Coder's API for its version, without a token, where a pod is
// ready to answer. Deployment and Service are ours: that is what the step needs.
func (r *Reconciler) askCoder(ctx context.Context, s *scope) error {
	if s.deployment.Status.ReadyReplicas == 0 {
		return &steps.Waiting{Reason: coderv1alpha1.ReasonWaiting, Message: "no pod of Coder is ready"}
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	build, err := r.buildInfo(ctx, s.url())
	if err != nil {
		s.coderErr = err
		return &steps.Waiting{Reason: coderv1alpha1.ReasonUnreachable, Message: err.Error(), After: pollInterval}
	}
	s.build = &build
	return nil
}

func (r *Reconciler) buildInfo(ctx context.Context, url string) (coderd.BuildInfo, error) {
	coder, err := r.connect(url)
	if err != nil {
		return coderd.BuildInfo{}, fmt.Errorf("connecting to %s: %w", url, err)
	}
	return coder.BuildInfo(ctx)
}

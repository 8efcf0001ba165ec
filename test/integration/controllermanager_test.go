package integration

import (
	"context"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// standIn writes the status of the Deployments of some namespaces, as
// kube-controller-manager would if every pod started immediately.
type standIn struct {
	mu   sync.Mutex
	held map[string]bool
}

// startStandIn starts a standIn that runs until the test ends.
func startStandIn(t *testing.T, namespaces ...string) *standIn {
	t.Helper()
	s := &standIn{held: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for ctx.Err() == nil {
			for _, ns := range namespaces {
				s.rollOutAll(ctx, t, ns)
			}
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		ended.Wait()
	})
	return s
}

// hold prevents new pods of a Deployment from starting, until it is released.
func (s *standIn) hold(name string, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[name] = held
}

func (s *standIn) rollOutAll(ctx context.Context, t *testing.T, ns string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &appsv1.DeploymentList{}
	if err := environment.client.List(ctx, list, client.InNamespace(ns)); err != nil {
		if ctx.Err() == nil {
			t.Errorf("listing Deployments: %v", err)
		}
		return
	}
	for i := range list.Items {
		deployment := &list.Items[i]
		before := deployment.Status.DeepCopy()
		deployment.Status = rolledOut(deployment)
		if s.held[deployment.Name] {
			deployment.Status = *before.DeepCopy()
			if before.ObservedGeneration != deployment.Generation {
				deployment.Status.ObservedGeneration, deployment.Status.UpdatedReplicas = deployment.Generation, 0
			}
		}
		if equality.Semantic.DeepEqual(before, &deployment.Status) {
			continue
		}
		err := environment.client.Status().Update(ctx, deployment)
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			t.Errorf("telling of Deployment %s: %v", deployment.Name, err)
		}
	}
}

// rolledOut is the status of a completely rolled out Deployment.
func rolledOut(deployment *appsv1.Deployment) appsv1.DeploymentStatus {
	wanted := ptr.Deref(deployment.Spec.Replicas, 1)
	return appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: wanted, UpdatedReplicas: wanted, ReadyReplicas: wanted, AvailableReplicas: wanted,
		Conditions: []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable",
		}},
	}
}

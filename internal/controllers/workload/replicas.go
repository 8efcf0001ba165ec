package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// scaledByOthers reports whether another client, for example a HorizontalPodAutoscaler, owns the
// number of replicas and the spec has not asked for another number since.
func (t *Toolkit) scaledByOthers(ctx context.Context, p *Pass) (bool, error) {
	d := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: p.Workload.Namespace, Name: p.Workload.Name}
	if err := t.Client.Get(ctx, key, d); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return false, nil
		}
		return false, fmt.Errorf("reading Deployment %q: %w", key.Name, err)
	}
	if !metav1.IsControlledBy(d, p.Object) {
		return false, nil
	}
	// A stale cache may not contain the last change of an autoscaler. With this resource version,
	// an apply that would undo the change fails.
	p.seen = d.ResourceVersion
	asked := strconv.Itoa(int(resources.Replicas(p.Workload)))
	return d.Annotations[coderv1alpha1.AnnotationReplicas] == asked && replicasOwnedByOthers(d, t.FieldOwner), nil
}

func replicasOwnedByOthers(d *appsv1.Deployment, fieldOwner string) bool {
	for _, entry := range d.ManagedFields {
		if entry.FieldsV1 == nil || (entry.Manager == fieldOwner && entry.Operation == metav1.ManagedFieldsOperationApply) {
			continue
		}
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			continue
		}
		if _, owns := fields.Spec["f:replicas"]; owns {
			return true
		}
	}
	return false
}

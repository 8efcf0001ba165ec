package controlplane

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// gatherInputs looks up which variables spec.envFrom brings: the operator must
// not set CODER_ACCESS_URL over one of them. A ConfigMap or Secret that does not
// exist brings none; whether the pod can do without it is the kubelet's matter.
func (r *Reconciler) gatherInputs(ctx context.Context, s *scope) error {
	names := map[string]bool{}
	for _, source := range s.cp.Spec.EnvFrom {
		keys, err := r.keysOf(ctx, s.cp.Namespace, source)
		if err != nil {
			s.problems = append(s.problems, problem{coderv1alpha1.ReasonApplyFailed, err.Error()})
			return err
		}
		for _, key := range keys {
			names[source.Prefix+key] = true
		}
	}
	s.inputs.EnvFromNames = names
	return nil
}

func (r *Reconciler) keysOf(ctx context.Context, namespace string, source corev1.EnvFromSource) ([]string, error) {
	switch {
	case source.ConfigMapRef != nil:
		configMap := &corev1.ConfigMap{}
		err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: source.ConfigMapRef.Name}, configMap)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading ConfigMap %q of spec.envFrom: %w", source.ConfigMapRef.Name, err)
		}
		return slices.Collect(maps.Keys(configMap.Data)), nil
	case source.SecretRef != nil:
		secret := &corev1.Secret{}
		err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: source.SecretRef.Name}, secret)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading Secret %q of spec.envFrom: %w", source.SecretRef.Name, err)
		}
		return slices.Collect(maps.Keys(secret.Data)), nil
	}
	return nil, nil
}

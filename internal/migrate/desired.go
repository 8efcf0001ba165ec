package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	workload "github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// accepted returns the custom resource with all defaults, from a dry run. It returns the API
// server's error if the API server refuses the resource.
func (t *takeover) accepted(ctx context.Context) (*unstructured.Unstructured, error) {
	obj, err := t.apply(ctx, client.DryRunAll)
	if err != nil {
		return nil, fmt.Errorf("the API server does not take the %s that was made of the values; write it with \"migrate helm\" without --take-over, "+
			"correct it, and see docs/how-to/migrate-from-helm.md: %w", t.Manifest.Kind, err)
	}
	return obj, nil
}

func (t *takeover) apply(ctx context.Context, options ...client.ApplyOption) (*unstructured.Unstructured, error) {
	// An unstructured object may contain only JSON types.
	raw, err := json.Marshal(t.Manifest.Object())
	if err != nil {
		return nil, err
	}
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &obj.Object); err != nil {
		return nil, err
	}
	err = t.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), append(options, client.FieldOwner(fieldOwner))...)
	return obj, err
}

// workloadOf converts the custom resource as its controller does.
func (t *takeover) workloadOf(obj *unstructured.Unstructured, live *appsv1.Deployment) (workload.Workload, error) {
	var w workload.Workload
	var err error
	read := runtime.DefaultUnstructuredConverter.FromUnstructured
	switch t.Manifest.Kind {
	case KindProvisioner:
		p := &coderv1alpha1.CoderProvisioner{}
		err = read(obj.Object, p)
		w = workload.Provisioner(p, workload.ProvisionerInputs{URL: p.Spec.URL})
	case KindWorkspaceProxy:
		p := &coderv1alpha1.CoderWorkspaceProxy{}
		err = read(obj.Object, p)
		in := workload.WorkspaceProxyInputs{PrimaryAccessURL: p.Spec.PrimaryAccessURL}
		if ref := p.Spec.ProxySessionTokenSecretRef; ref != nil {
			in.Token = *ref
		}
		// The port of the adopted Deployment is part of the environment.
		in.Adopted = workload.AdoptedFrom(workload.WorkspaceProxy(p, in), live)
		w = workload.WorkspaceProxy(p, in)
	default:
		cp := &coderv1alpha1.CoderControlPlane{}
		err = read(obj.Object, cp)
		w = workload.ControlPlane(cp, workload.Cluster{})
	}
	w.Adopted = workload.AdoptedFrom(w, live)
	return w, err
}

// rollout returns the fields in which the new pods would differ from the running ones. The API
// server completes the template that the operator would apply, in a dry run that creates a
// Deployment.
func (t *takeover) rollout(ctx context.Context, w workload.Workload, live *appsv1.Deployment) ([]string, error) {
	known, err := t.envFromNames(ctx, w)
	if err != nil {
		return nil, err
	}
	w.EnvFromNames = known
	desired, err := workload.Deployment(w)
	if err != nil {
		return nil, err
	}
	trial := &appsv1.Deployment{Spec: *desired.Spec.DeepCopy()}
	trial.GenerateName, trial.Namespace = live.Name+"-take-over-", live.Namespace
	trial.Spec.Replicas = ptr.To[int32](0)
	if err := t.Client.Create(ctx, trial, client.DryRunAll, client.FieldOwner(fieldOwner)); err != nil {
		return nil, fmt.Errorf("asking the API server what the pods would be: %w", err)
	}
	return differences(&live.Spec.Template, &trial.Spec.Template)
}

// envFromNames returns the names of the variables that spec.envFrom sets, because the operator does
// not override them. Only keys are read.
func (t *takeover) envFromNames(ctx context.Context, w workload.Workload) (map[string]bool, error) {
	known := map[string]bool{}
	for _, source := range w.Spec.EnvFrom {
		var keys []string
		var err error
		switch {
		case source.ConfigMapRef != nil:
			obj := &corev1.ConfigMap{}
			err = t.Client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: source.ConfigMapRef.Name}, obj)
			keys = slices.Collect(maps.Keys(obj.Data))
		case source.SecretRef != nil:
			obj := &corev1.Secret{}
			err = t.Client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: source.SecretRef.Name}, obj)
			keys = slices.Collect(maps.Keys(obj.Data))
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading what spec.envFrom names: %w", err)
		}
		for _, key := range keys {
			known[source.Prefix+key] = true
		}
	}
	return known, nil
}

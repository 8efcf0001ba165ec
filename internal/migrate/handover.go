package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/csaupgrade"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	workload "github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

const (
	// fieldOwner is the field manager of this command.
	fieldOwner = "coder-k8s-migrate"
	// operator is the field manager of the operator, which becomes the owner of Helm's fields.
	operator = "coder-k8s"

	annotationRelease = "meta.helm.sh/release-name"
	pollInterval      = time.Second
)

// takeover takes over one release.
type takeover struct {
	Client   client.Client
	Manifest *Manifest
	Release  string
	// Deployment is the name of the release's Deployment.
	Deployment string
}

// takeoverPlan is the effect of taking over.
type takeoverPlan struct {
	// Objects are handed over, the Deployment last. Each has the format "Kind name".
	Objects []string
	// Already reports that the operator already owns the Deployment.
	Already bool
	// Differences are the fields because of which pods would be replaced.
	Differences []string

	objects []client.Object
}

// Plan reads the cluster and changes nothing in it. It adds fields to the manifest that keep the
// pods unchanged.
func (t *takeover) Plan(ctx context.Context) (*takeoverPlan, error) {
	live := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: t.Manifest.Namespace, Name: t.Deployment}
	if err := t.Client.Get(ctx, key, live); err != nil {
		return nil, fmt.Errorf("reading Deployment %q of the release: %w", t.Deployment, err)
	}
	owner := metav1.GetControllerOf(live)
	switch {
	case owner != nil && !t.isOwn(owner):
		return nil, fmt.Errorf("the Deployment %q belongs to %s %q and cannot be taken over", live.Name, owner.Kind, owner.Name)
	case len(live.Spec.Selector.MatchLabels) == 0 || len(live.Spec.Selector.MatchExpressions) > 0:
		return nil, fmt.Errorf("the selector of Deployment %q is not made of matchLabels alone, and Services cannot follow it, so it cannot be taken over", live.Name)
	case owner == nil && live.Annotations[annotationRelease] != t.Release:
		return nil, fmt.Errorf("the Deployment %q does not have the annotation %s=%s of the release, so it is not taken over", live.Name, annotationRelease, t.Release)
	}
	if t.Manifest.Kind != KindControlPlane {
		t.Manifest.Annotations = map[string]string{coderv1alpha1.AnnotationWorkloadName: t.Deployment}
	}
	if err := keepForm(t.Manifest, live); err != nil {
		return nil, err
	}
	// The custom resource with all defaults.
	accepted, err := t.apply(ctx, client.DryRunAll)
	if err != nil {
		return nil, fmt.Errorf("the API server does not take the %s that was made of the values; write it with \"migrate helm\" without --take-over, "+
			"correct it, and see docs/how-to/migrate-from-helm.md: %w", t.Manifest.Kind, err)
	}
	w, err := t.workloadOf(accepted, live)
	if err != nil {
		return nil, fmt.Errorf("reading the %s: %w", t.Manifest.Kind, err)
	}
	plan := &takeoverPlan{Already: owner != nil}
	if plan.Differences, err = t.rollout(ctx, w, live); err != nil {
		return nil, err
	}
	return plan, t.objects(ctx, plan, w, live)
}

func (t *takeover) isOwn(owner *metav1.OwnerReference) bool {
	return strings.HasPrefix(owner.APIVersion, coderv1alpha1.GroupVersion.Group+"/") &&
		owner.Kind == t.Manifest.Kind && owner.Name == t.Manifest.Name
}

// objects adds the objects to hand over: those that the operator would create with the same names.
func (t *takeover) objects(ctx context.Context, plan *takeoverPlan, w workload.Workload, live *appsv1.Deployment) error {
	var wanted []client.Object
	if account := workload.ServiceAccount(w); account != nil {
		wanted = append(wanted, account)
	}
	if service := workload.Service(w); service != nil {
		wanted = append(wanted, service)
	}
	if ingress := workload.Ingress(w); ingress != nil {
		wanted = append(wanted, ingress)
	}
	for _, obj := range wanted {
		kind := obj.GetObjectKind().GroupVersionKind().Kind
		err := t.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading %s %q: %w", kind, obj.GetName(), err)
		}
		owner := metav1.GetControllerOf(obj)
		if owner != nil && !t.isOwn(owner) {
			return fmt.Errorf("%s %q belongs to %s %q; rename or delete it, because the operator needs the name", kind, obj.GetName(), owner.Kind, owner.Name)
		}
		if owner == nil && obj.GetAnnotations()[annotationRelease] != t.Release {
			return fmt.Errorf("%s %q does not have the annotation %s=%s of the release; rename or delete it, because the operator needs the name",
				kind, obj.GetName(), annotationRelease, t.Release)
		}
		plan.add(kind, obj)
	}
	plan.add("Deployment", live)
	return nil
}

func (p *takeoverPlan) add(kind string, obj client.Object) {
	p.Objects = append(p.Objects, kind+" "+obj.GetName())
	p.objects = append(p.objects, obj)
}

// Run hands the objects over, applies the custom resource, and waits until the operator owns the
// Deployment.
func (t *takeover) Run(ctx context.Context, plan *takeoverPlan, timeout time.Duration) error {
	for _, obj := range plan.objects {
		if metav1.GetControllerOf(obj) != nil {
			continue
		}
		if err := t.handOver(ctx, obj); err != nil {
			return fmt.Errorf("handing over %T %q: %w; nothing was taken over yet, and this command can be run again", obj, obj.GetName(), err)
		}
	}
	made, err := t.apply(ctx)
	if err != nil {
		return fmt.Errorf("applying %s %q: %w", t.Manifest.Kind, t.Manifest.Name, err)
	}
	err = wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, func(ctx context.Context) (bool, error) {
		d := &appsv1.Deployment{}
		if err := t.Client.Get(ctx, client.ObjectKey{Namespace: t.Manifest.Namespace, Name: t.Deployment}, d); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		controller := metav1.GetControllerOf(d)
		return controller != nil && controller.UID == made.GetUID(), nil
	})
	if err != nil {
		return fmt.Errorf("the operator did not take Deployment %q over within %s: see \"kubectl -n %s describe %s %s\", and whether the operator runs: %w",
			t.Deployment, timeout, t.Manifest.Namespace, strings.ToLower(t.Manifest.Kind), t.Manifest.Name, err)
	}
	return nil
}

// handOver annotates an object with its new owner and transfers Helm's fields to the operator, in
// one write.
func (t *takeover) handOver(ctx context.Context, obj client.Object) error {
	fields, err := operatorsFields(obj)
	if err != nil {
		return err
	}
	annotation := "/metadata/annotations/" + strings.ReplaceAll(coderv1alpha1.AnnotationAdopt, "/", "~1")
	raw, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/resourceVersion", "value": obj.GetResourceVersion()},
		{"op": "replace", "path": "/metadata/managedFields", "value": fields},
		{"op": "add", "path": annotation, "value": t.Manifest.Kind + "/" + t.Manifest.Name},
	})
	if err != nil {
		return err
	}
	return t.Client.Patch(ctx, obj, client.RawPatch(types.JSONPatchType, raw), client.FieldOwner(fieldOwner))
}

// operatorsFields returns the managed fields of an object, with Helm's fields transferred to the
// operator. Helm 3 uses updates, Helm 4 uses apply.
func operatorsFields(obj client.Object) ([]metav1.ManagedFieldsEntry, error) {
	copied, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("bug: %T is not an object", obj)
	}
	helm := sets.New[string]()
	entries := copied.GetManagedFields()
	for i := range entries {
		// Terraform's provider runs Helm too.
		manager := entries[i].Manager
		if !strings.HasPrefix(manager, "helm") && !strings.HasPrefix(manager, "terraform-provider-helm") || entries[i].Subresource != "" {
			continue
		}
		// Convert an apply entry to an update entry, because only those can be transferred.
		entries[i].Operation = metav1.ManagedFieldsOperationUpdate
		helm.Insert(manager)
	}
	copied.SetManagedFields(entries)
	if err := csaupgrade.UpgradeManagedFields(copied, helm, operator); err != nil {
		return nil, fmt.Errorf("giving the fields of Helm to the operator: %w", err)
	}
	return copied.GetManagedFields(), nil
}

// Pods returns the UIDs of the pods of the release.
func (t *takeover) Pods(ctx context.Context) (sets.Set[types.UID], error) {
	d := &appsv1.Deployment{}
	if err := t.Client.Get(ctx, client.ObjectKey{Namespace: t.Manifest.Namespace, Name: t.Deployment}, d); err != nil {
		return nil, fmt.Errorf("reading Deployment %q: %w", t.Deployment, err)
	}
	list := &corev1.PodList{}
	if err := t.Client.List(ctx, list, client.InNamespace(d.Namespace), client.MatchingLabels(d.Spec.Selector.MatchLabels)); err != nil {
		return nil, fmt.Errorf("listing the pods of Deployment %q: %w", t.Deployment, err)
	}
	all := sets.New[types.UID]()
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp.IsZero() {
			all.Insert(list.Items[i].UID)
		}
	}
	return all, nil
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
	// The operator does not override the variables that spec.envFrom sets. Only their names are read.
	w.EnvFromNames = map[string]bool{}
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
			w.EnvFromNames[source.Prefix+key] = true
		}
	}
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

package provisioner

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/provisioner/keys"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

// unwellAge is how long Coder's answer about a key is cached while pods are not ready, because the
// key may be the reason.
const unwellAge = time.Minute

// findControlPlane reads the control plane. A missing control plane does not fail the step: a
// condition reports it.
func (r *Reconciler) findControlPlane(ctx context.Context, s *scope) error {
	if s.cr.Spec.ControlPlaneRef == nil {
		s.inputs.URL = s.cr.Spec.URL
		return nil
	}
	cp, err := r.kit.ControlPlane(ctx, s.cr.Namespace, s.cr.Spec.ControlPlaneRef)
	if cp != nil {
		s.cp, s.inputs.URL, s.inputs.ControlPlaneImage = cp, cp.Status.URL, cp.Status.Image
	}
	return err
}

func (r *Reconciler) keyRequest(s *scope) keys.Request {
	return keys.Request{
		Provisioner: s.cr.DeepCopy(), ControlPlane: s.cp,
		Usage: func(ctx context.Context) (keys.Usage, error) { return r.usage(ctx, s) },
	}
}

// ensureKey creates or keeps the key if the operator manages it.
func (r *Reconciler) ensureKey(ctx context.Context, s *scope) error {
	if !resources.MakesKey(s.cr) {
		return nil
	}
	request := r.keyRequest(s)
	refused, err := r.duplicate(ctx, s)
	if err != nil {
		return err
	}
	request.Refused = refused
	if unwell, err := r.unwell(ctx, s); err != nil {
		return err
	} else if unwell {
		request.MaxAge = unwellAge
	}
	s.key, err = r.keys.Ensure(ctx, request)
	r.tellAll(s, s.key.Events)
	if err != nil {
		return workload.Settled(err)
	}
	return r.cacheKnows(ctx, s)
}

// cacheKnows waits until the cache contains the current Secret. Then the pods are rolled only once
// for a new key, and not a second time because of the Secret's checksum.
func (r *Reconciler) cacheKnows(ctx context.Context, s *scope) error {
	if s.key.SecretRef == nil || s.key.SecretVersion == "" {
		return nil
	}
	seen := &metav1.PartialObjectMetadata{}
	seen.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := r.kit.Metadata.Get(ctx, client.ObjectKey{Namespace: s.cr.Namespace, Name: s.key.SecretRef.Name}, seen)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the metadata of Secret %q: %w", s.key.SecretRef.Name, err)
	}
	if seen.ResourceVersion == s.key.SecretVersion {
		return nil
	}
	return &steps.Waiting{Reason: coderv1alpha1.ReasonWaiting, Message: "waiting until the cache contains the key's Secret", After: workload.ConflictInterval}
}

// duplicate returns a finding if an older provisioner has the key of the same name.
func (r *Reconciler) duplicate(ctx context.Context, s *scope) (*keys.Finding, error) {
	if s.cp == nil {
		return nil, nil
	}
	list := &coderv1alpha1.CoderProvisionerList{}
	err := r.kit.Client.List(ctx, list, client.InNamespace(s.cr.Namespace), client.MatchingFields{workload.IndexControlPlane: s.cp.Name})
	if err != nil {
		return nil, fmt.Errorf("listing the provisioners of the control plane: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID == s.cr.UID || !resources.MakesKey(other) || !sameKey(other, s.cr) || !older(other, s.cr) {
			continue
		}
		return &keys.Finding{Status: metav1.ConditionFalse, Reason: coderv1alpha1.ReasonDuplicateKeyName, Message: fmt.Sprintf(
			"CoderProvisioner %q is older and has the key %q of this organization; choose another spec.key.name, or delete one of the two",
			other.Name, resources.KeyName(s.cr))}, nil
	}
	return nil, nil
}

// sameKey reports whether both objects want a key with the same name in the same organization. An
// organization may have two names in specs, so the ids are compared too.
func sameKey(a, b *coderv1alpha1.CoderProvisioner) bool {
	sameOrganization := strings.EqualFold(resources.OrganizationName(a), resources.OrganizationName(b)) ||
		a.Status.OrganizationID != "" && a.Status.OrganizationID == b.Status.OrganizationID
	return sameOrganization && strings.EqualFold(resources.KeyName(a), resources.KeyName(b))
}

func older(a, b *coderv1alpha1.CoderProvisioner) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID)) < 0
}

// unwell reports whether the Deployment exists and some of its pods are not ready.
func (r *Reconciler) unwell(ctx context.Context, s *scope) (bool, error) {
	d := &appsv1.Deployment{}
	err := r.kit.Client.Get(ctx, client.ObjectKey{Namespace: s.cr.Namespace, Name: s.Workload.Name}, d)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the Deployment: %w", err)
	}
	return d.Spec.Replicas != nil && d.Status.ReadyReplicas < *d.Spec.Replicas, nil
}

// gatherInputs completes the Workload. Without a key or a URL, the Deployment is neither created
// nor changed.
func (r *Reconciler) gatherInputs(_ context.Context, s *scope) error {
	waits := func(what string) error {
		return &steps.Waiting{Reason: coderv1alpha1.ReasonWaiting, Message: "waiting for " + what}
	}
	s.inputs.KeySecret = s.key.SecretRef
	if s.key.Record != nil {
		s.inputs.KeyID = s.key.Record.ID
	}
	s.inputs.Adopted = s.Workload.Adopted
	s.Workload = resources.Provisioner(s.cr, s.inputs)
	switch {
	case s.inputs.URL == "":
		return waits("the address of Coder")
	case s.organizationProblem() != nil:
		return waits("an organization that the daemons can work for")
	case resources.MakesKey(s.cr) && s.key.SecretRef == nil:
		return waits("the key")
	case s.cp != nil && s.cr.Spec.Image == "" && s.inputs.ControlPlaneImage == "":
		return waits("the control plane to run, because the pods use its image")
	}
	return nil
}

// dropReplaced deletes replaced keys and Secrets when no pod uses them.
func (r *Reconciler) dropReplaced(ctx context.Context, s *scope) error {
	drop := r.keys.Retire
	if !resources.MakesKey(s.cr) {
		drop = r.keys.Release
	}
	result, err := drop(ctx, r.keyRequest(s))
	s.replaced = result
	r.tellAll(s, result.Events)
	return workload.Settled(err)
}

// usage returns the keys that pods use. Pods that have ended do not count. Pods that are
// terminating do.
func (r *Reconciler) usage(ctx context.Context, s *scope) (keys.Usage, error) {
	pods, err := r.pods(ctx, s)
	if err != nil {
		return keys.Usage{}, err
	}
	usage := keys.Usage{Settled: s.Deployment != nil && workload.RolledOut(s.Deployment)}
	for i := range pods {
		usage.KeyIDs = append(usage.KeyIDs, pods[i].Annotations[coderv1alpha1.AnnotationProvisionerKeyID])
	}
	return usage, nil
}

// pods returns the pods that have not ended, without using the cache.
func (r *Reconciler) pods(ctx context.Context, s *scope) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := r.kit.Live.List(ctx, list, client.InNamespace(s.cr.Namespace), client.MatchingLabels(s.PodLabels()))
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	var running []corev1.Pod
	for _, pod := range list.Items {
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			running = append(running, pod)
		}
	}
	return running, nil
}

// tellAll records the Events about keys, whatever the result of the pass is.
func (r *Reconciler) tellAll(s *scope, events []keys.Event) {
	for _, event := range events {
		r.kit.Tell(&s.Pass, event.Type, event.Reason, workload.Redact(event.Message))
	}
}

package provisioner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/provisioner/keys"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/upgrade"
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
		s.held = upgrade.ProvisionersHeld(cp, s.Now)
	}
	return err
}

// resumeAbandoned starts the pods that an upgrade has stopped if its control plane is gone, because nothing applies the
// Deployment without one. Its Coder may still serve.
func (r *Reconciler) resumeAbandoned(ctx context.Context, s *scope) error {
	if s.cr.Spec.ControlPlaneRef == nil || s.cp != nil {
		return nil
	}
	return r.kit.ResumeOrphaned(ctx, &s.Pass)
}

func (r *Reconciler) keyRequest(s *scope) keys.Request {
	return keys.Request{
		Provisioner: s.cr.DeepCopy(), ControlPlane: s.cp,
		// Pods that have ended do not count. Pods that are terminating do.
		Usage: func(ctx context.Context) (keys.Usage, error) {
			pods, err := r.kit.RunningPods(ctx, &s.Pass)
			if err != nil {
				return keys.Usage{}, err
			}
			usage := keys.Usage{Settled: s.Deployment != nil && framework.RolledOut(s.Deployment)}
			for i := range pods {
				usage.KeyIDs = append(usage.KeyIDs, pods[i].Annotations[coderv1alpha1.AnnotationProvisionerKeyID])
			}
			return usage, nil
		},
	}
}

// ensureKey creates or keeps the key if the operator manages it.
func (r *Reconciler) ensureKey(ctx context.Context, s *scope) error {
	if !resources.MakesKey(s.cr) {
		return nil
	}
	request := r.keyRequest(s)
	if s.cp != nil {
		others, err := r.sharing(ctx, s.cr)
		if err != nil {
			return err
		}
		for i := range others {
			if other := &others[i]; resources.MakesKey(other) && framework.Older(other, s.cr) {
				request.Refused = ensure.Fails(coderv1alpha1.ReasonDuplicateKeyName, 0,
					"CoderProvisioner %q is older and has the key %q of this organization; choose another spec.key.name, or delete one of the two",
					other.Name, resources.KeyName(s.cr))
				break
			}
		}
	}
	d, err := s.OwnDeployment(ctx, r.kit.Client)
	if err != nil {
		return err
	}
	if d != nil && d.Spec.Replicas != nil && d.Status.ReadyReplicas < *d.Spec.Replicas {
		request.MaxAge = unwellAge
	}
	s.key, err = r.keys.Ensure(ctx, request)
	r.kit.TellAll(&s.Pass, s.key.Events)
	if err != nil {
		return framework.Settled(err)
	}
	if s.key.SecretRef == nil || s.key.SecretVersion == "" {
		return nil
	}
	// Otherwise the pods are rolled twice for a new key, because the checksum of the Secret changes later.
	return r.kit.WaitForCache(ctx, s.cr.Namespace, s.key.SecretRef.Name, s.key.SecretVersion)
}

// sharing returns the other provisioners that want the same key of the same control plane.
func (r *Reconciler) sharing(ctx context.Context, cr *coderv1alpha1.CoderProvisioner) ([]coderv1alpha1.CoderProvisioner, error) {
	if cr.Spec.ControlPlaneRef == nil {
		return nil, nil
	}
	all := &coderv1alpha1.CoderProvisionerList{}
	err := r.kit.Client.List(ctx, all, client.InNamespace(cr.Namespace), client.MatchingFields{framework.IndexControlPlane: cr.Spec.ControlPlaneRef.Name})
	if err != nil {
		return nil, fmt.Errorf("listing the provisioners of the control plane: %w", err)
	}
	return slices.DeleteFunc(all.Items, func(other coderv1alpha1.CoderProvisioner) bool {
		// An organization may have two names in specs, so the ids are compared too.
		sameOrganization := strings.EqualFold(resources.OrganizationName(&other), resources.OrganizationName(cr)) ||
			other.Status.OrganizationID != "" && other.Status.OrganizationID == cr.Status.OrganizationID
		sameKey := sameOrganization && strings.EqualFold(resources.KeyName(&other), resources.KeyName(cr))
		return other.UID == cr.UID || !sameKey
	}), nil
}

// gatherInputs completes the Workload. Without a key or a URL, the Deployment is neither created
// nor changed.
func (r *Reconciler) gatherInputs(_ context.Context, s *scope) error {
	waits := func(what string) error {
		return ensure.Waits(coderv1alpha1.ReasonWaiting, 0, "waiting for %s", what)
	}
	s.inputs.KeySecret = s.key.SecretRef
	if s.key.Record != nil {
		s.inputs.KeyID = s.key.Record.ID
	}
	s.inputs.Adopted, s.inputs.Live = s.Workload.Adopted, s.Workload.Live
	s.Workload = resources.Provisioner(s.cr, s.inputs)
	if s.held > 0 {
		s.Workload.HeldReplicas = new(int32)
	}
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
	r.kit.TellAll(&s.Pass, result.Events)
	return framework.Settled(err)
}

package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/licensing"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
)

// license is the result of a pass about the license. The zero value means that the pass did not
// check the license.
type license struct {
	// missing is the reason why the license of the spec cannot be read.
	missing *framework.Problem
	// result is the state of the licenses in Coder, or nil if it is unknown.
	result *licensing.Result
}

// ensureLicense applies the license of the spec in Coder, and reads what the licenses allow. Most
// passes reuse earlier results and do not call Coder for either.
func (r *Reconciler) ensureLicense(ctx context.Context, s *scope) error {
	text, err := r.readLicense(ctx, s)
	if err != nil {
		return err
	}
	result, err := r.licenses.Ensure(ctx, licensing.Request{
		Key:      client.ObjectKeyFromObject(s.cp).String(),
		Instance: s.coderInstance(),
		License:  text,
		Unread:   s.license.missing != nil,
		Own:      s.cp.Status.LicenseUUIDs,
		Record: func(ctx context.Context, own []string) error {
			base := s.cp.DeepCopy()
			s.cp.Status.LicenseUUIDs = own
			if err := r.kit.Client.Status().Patch(ctx, s.cp, framework.LockedPatch(base)); err != nil {
				s.cp.Status.LicenseUUIDs = base.Status.LicenseUUIDs
				return fmt.Errorf("writing status.licenseUUIDs: %w", err)
			}
			return nil
		},
		Connect: func(ctx context.Context) (*coderd.Client, error) {
			ref, secret := s.access.TokenRef, &corev1.Secret{}
			if err := r.kit.Live.Get(ctx, client.ObjectKey{Namespace: s.cp.Namespace, Name: ref.Name}, secret); err != nil {
				return nil, fmt.Errorf("reading Secret %q with the operator's token: %w", ref.Name, err)
			}
			return r.kit.NewClient(coderd.Config{
				URL: s.url(), Token: strings.TrimSpace(string(secret.Data[cmp.Or(ref.Key, coderv1alpha1.SecretKeyToken)])),
				OnUnauthorized: func() { r.Refused(client.ObjectKeyFromObject(s.cp)) },
			})
		},
	})
	r.kit.TellAll(&s.Pass, result.Events)
	if err != nil {
		return framework.Settled(err)
	}
	s.license.result = &result
	if result.AllowanceErr != nil {
		log.FromContext(ctx).Info("Could not read what Coder's licenses allow", "error", result.AllowanceErr.Error())
	}
	if s.license.missing != nil {
		return ensure.Waits(s.license.missing.Reason, result.RequeueAfter, "%s", s.license.missing.Message)
	}
	if result.State == licensing.None {
		return nil
	}
	return result.NotReady(result.RequeueAfter)
}

// readLicense reads the license of the spec. A missing Secret is not an error: the watch reports
// when it is created.
func (r *Reconciler) readLicense(ctx context.Context, s *scope) (string, error) {
	ref := s.cp.Spec.LicenseSecretRef
	if ref == nil {
		return "", nil
	}
	key := cmp.Or(ref.Key, "license")
	secret := &corev1.Secret{}
	err := r.kit.Live.Get(ctx, client.ObjectKey{Namespace: s.cp.Namespace, Name: ref.Name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		s.license.missing = &framework.Problem{Reason: coderv1alpha1.ReasonSecretMissing, Message: fmt.Sprintf(
			"Secret %q (spec.licenseSecretRef) does not exist; create it with the license in key %q, or remove licenseSecretRef", ref.Name, key)}
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading Secret %q with the license: %w", ref.Name, err)
	}
	text := strings.TrimSpace(string(secret.Data[key]))
	if text == "" {
		s.license.missing = &framework.Problem{Reason: coderv1alpha1.ReasonSecretMissing, Message: fmt.Sprintf(
			"Secret %q (spec.licenseSecretRef) has no license in key %q; add it, or name the key that holds it", ref.Name, key)}
	}
	return text, nil
}

// coderInstance returns a value that changes if other pods of Coder may answer than before. During
// a rollout the old pods may still answer.
func (s *scope) coderInstance() string {
	return fmt.Sprintf("%s %s %s %d %t %s %s", s.cp.UID, s.url(), s.Deployment.UID, s.Deployment.Generation, s.Available(),
		s.build.Version, s.build.DeploymentID)
}

func (s *scope) licenseAsked() bool { return s.cp.Spec.LicenseSecretRef != nil }

// setLicense writes the state of the licenses to the status. If Coder was not asked or did not
// answer, the previous values are kept.
func setLicense(s *scope, status *coderv1alpha1.CoderControlPlaneStatus) {
	if s.accessDisabled() {
		// The licenses are no longer checked.
		status.LicenseTier, status.HighAvailabilityEntitlement = "", ""
		status.ExternalProvisionerDaemonsEntitlement, status.WorkspaceProxyEntitlement = "", ""
	}
	if result := s.license.result; result != nil {
		status.LicenseUUIDs = slices.Clone(result.Own)
		if s.license.missing == nil {
			status.LicenseExpiresAt = storedTime(result.ExpiresAt)
		}
		if result.AppliedAt != nil {
			status.LicenseLastApplied, status.LicenseLastAppliedHash = storedTime(result.AppliedAt), result.Hash
		}
		if allowance := result.Allowance; allowance != nil {
			status.LicenseTier = allowance.Tier
			status.ExternalProvisionerDaemonsEntitlement = allowance.ExternalProvisioners
			status.WorkspaceProxyEntitlement = allowance.WorkspaceProxy
			status.HighAvailabilityEntitlement = allowance.HighAvailability
		}
	}
	if !s.licenseAsked() && len(status.LicenseUUIDs) == 0 {
		status.LicenseExpiresAt, status.LicenseLastApplied, status.LicenseLastAppliedHash = nil, nil, ""
	}
}

// storedTime returns a time as the API server stores it, without fractions of a second.
func storedTime(t *time.Time) *metav1.Time {
	if t == nil {
		return nil
	}
	stored := metav1.NewTime(*t).Rfc3339Copy()
	return &stored
}

// licenseApplied returns the condition about the license. It returns nil if the spec asks for no
// license and none of the operator's own licenses is left in Coder.
func licenseApplied(s *scope, status *coderv1alpha1.CoderControlPlaneStatus) *metav1.Condition {
	if !s.licenseAsked() && len(status.LicenseUUIDs) == 0 {
		return nil
	}
	c := framework.ConditionFalse(coderv1alpha1.ConditionLicenseApplied, coderv1alpha1.ReasonPending, "waiting until the operator has access to Coder")
	result := s.license.result
	switch {
	case s.accessDisabled():
		c.Reason = coderv1alpha1.ReasonDisabled
		c.Message = "spec.operatorAccess.disabled is set, so the operator neither adds nor removes a license; " +
			"unset it, or remove spec.licenseSecretRef and manage the licenses in Coder"
	case s.license.missing != nil:
		c.Reason, c.Message = s.license.missing.Reason, s.license.missing.Message
	case result == nil && s.access != nil && s.access.State == ensure.Ready:
		c.Message = "the license is not checked yet"
	case result == nil:
	case result.State == ensure.Ready:
		c = framework.ConditionTrue(coderv1alpha1.ConditionLicenseApplied, result.Reason, framework.Redact(result.Message))
	default:
		c.Reason, c.Message = result.Reason, framework.Redact(result.Message)
	}
	return &c
}

// highAvailabilityEntitled returns the condition about the entitlement for several replicas. It
// returns nil if the spec asks for at most one replica.
func highAvailabilityEntitled(s *scope, status *coderv1alpha1.CoderControlPlaneStatus) *metav1.Condition {
	const kind = coderv1alpha1.ConditionHighAvailabilityEntitled
	wanted := s.Wanted()
	if wanted <= 1 {
		return nil
	}
	switch coderd.Entitlement(status.HighAvailabilityEntitlement) {
	case coderd.Entitled:
		return new(framework.ConditionTrue(kind, coderv1alpha1.ReasonEntitled, fmt.Sprintf("the licenses of Coder allow %d replicas", wanted)))
	case coderd.GracePeriod:
		return new(framework.ConditionTrue(kind, coderv1alpha1.ReasonLicenseInGracePeriod, fmt.Sprintf(
			"%d replicas run in the grace period of an expired license; add a new license (spec.licenseSecretRef), or set spec.replicas to 1", wanted)))
	case coderd.NotEntitled:
		return new(framework.ConditionFalse(kind, coderv1alpha1.ReasonNotEntitled, fmt.Sprintf(
			"%d replicas are requested, but no license of this Coder includes the feature %s, so users may be unable to reach their workspaces; "+
				"add such a license (spec.licenseSecretRef), or set spec.replicas to 1", wanted, coderd.FeatureHighAvailability)))
	}
	return new(framework.ConditionUnknown(kind, coderv1alpha1.ReasonNotChecked, "Coder has not reported yet what its licenses allow"))
}
